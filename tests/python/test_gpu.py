"""test_gpu.py - arrays of PyTorch and CuPy on a GPU: the results of the CPU, the caller's stream"""

import gram
import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.skipif(len(gram.devices()) < 2, reason="no GPU")


class Torch:
    def __init__(self):
        self.torch = pytest.importorskip("torch")
        if not self.torch.cuda.is_available():
            pytest.skip("PyTorch has no GPU")
        self.type = self.torch.Tensor

    def put(self, array):
        return self.torch.from_numpy(np.array(array)).cuda()

    def get(self, array):
        assert array.is_cuda
        return array.cpu().numpy()

    def empty(self, shape, dtype):
        return self.torch.full(shape, 77, dtype=getattr(self.torch, dtype), device="cuda")


class Cupy:
    def __init__(self):
        self.cupy = pytest.importorskip("cupy")
        self.type = self.cupy.ndarray

    def put(self, array):
        return self.cupy.asarray(array)

    def get(self, array):
        return self.cupy.asnumpy(array)

    def empty(self, shape, dtype):
        return self.cupy.full(shape, 77, dtype)


@pytest.fixture(params=[Torch, Cupy])
def library(request):
    return request.param()


def draw(*shape, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def definite(n):
    a = draw(n, n)
    return a @ a.T + n * np.eye(n)


X, Y = draw(70, 9), draw(50, 9, seed=1)
CALLS = {
    "cdist": lambda put: gram.cdist(put(X), put(Y), 1.3),
    "cdist_symmetric": lambda put: gram.cdist(put(X)),
    "cdist_view": lambda put: gram.cdist(put(X)[::2, 1:], put(Y.T)[1:].T, 1),
    "cdist_batch": lambda put: gram.cdist(put(draw(3, 8, 4)), put(draw(1, 6, 4))),
    "cdist_batched_p": lambda put: gram.cdist(put(draw(2, 8, 4)), p=put(np.array([1.0, 2.5]))),
    "kernel": lambda put: gram.kernel(put(X), put(Y), "matern52", bandwidth=2.0),
    "kernel_bandwidths": lambda put: gram.kernel(
        put(draw(2, 8, 4)), kernel="gaussian", bandwidth=put(np.array([1.0, 2.0]))
    ),
    "expression": lambda put: gram.kernel(
        put(X), expression="exp(-s / a)", parameters={"a": put(np.array(3.0))}
    ),
    "kernel_vjp": lambda put: gram.kernel_vjp(
        put(X), put(Y), "gaussian", grad=put(draw(70, 50)), wrt=("x", "y", "bandwidth")
    ),
    "kernel_matmul_vjp": lambda put: gram.kernel_matmul_vjp(
        put(X), put(Y), "gaussian", v=put(draw(50, 3)), grad=put(draw(70, 3)),
        wrt=("x", "y", "v", "bandwidth"),
    ),
    "cdist_grad": lambda put: gram.cdist_grad(
        put(draw(70, 50)), put(X.T), put(draw(2, 70)), put(Y.T), 1.5
    ),
    "agop": lambda put: gram.agop(put(draw(70, 50)), put(X.T), put(draw(2, 70)), put(Y.T)),
    "median_distance": lambda put: gram.median_distance(put(X)),
    "solve_cholesky": lambda put: gram.solve_cholesky(put(definite(40)), put(draw(40, 3))),
    "solve_cholesky_large": lambda put: gram.solve_cholesky(put(definite(150)), put(draw(150))),
    "solve_lu": lambda put: gram.solve_lu(put(draw(2, 20, 20)), put(draw(20, 3))),
    "kernel_matmul": lambda put: gram.kernel_matmul(put(X), put(Y), v=put(draw(50, 3))),
    "eigh": lambda put: gram.eigh(put(definite(20)), vectors=False),
    "matrix_power": lambda put: gram.matrix_power(put(definite(20))),
    "kron": lambda put: gram.kron([put(draw(3, 2)), put(draw(2, 5))]),
    "kron_matmul": lambda put: gram.kron_matmul(
        put(draw(7, 6)), [put(draw(3, 2)), put(draw(2, 5))]
    ),
    "kron_matmul_vjp": lambda put: gram.kron_matmul_vjp(
        put(draw(7, 6)), [put(draw(3, 2)), put(draw(2, 5))], grad=put(draw(7, 10))
    ),
    "kron_solve": lambda put: gram.kron_solve(
        [put(definite(3)), put(definite(4))], put(draw(5, 12))
    ),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["f64", "f32"])
@pytest.mark.parametrize("name", CALLS)
def test_results_are_those_of_the_cpu(library, name, dtype):
    expected = CALLS[name](lambda a: a.astype(dtype))
    try:
        got = CALLS[name](lambda a: library.put(a.astype(dtype)))
    except NotImplementedError as e:
        pytest.skip(str(e))
    several = isinstance(got, tuple)
    for g, e in zip(got if several else (got,), expected if several else (expected,), strict=True):
        assert isinstance(g, library.type)
        g, e = library.get(g), np.asarray(e)
        assert g.dtype == dtype and g.shape == e.shape
        scale = np.abs(e).max(initial=1e-30)
        eps = 1e-10 if dtype is np.float64 else 2e-4
        np.testing.assert_allclose(g / scale, e / scale, rtol=0, atol=eps)


@st.composite
def ways(draw, shape):
    """What makes a view of that shape, of arrays of NumPy and of a GPU alike, and its memory."""
    steps = [draw(st.sampled_from([1, 1, 2, 3])) for _ in shape]
    order = draw(st.permutations(range(len(shape))))
    whole = tuple(shape[i] * steps[i] for i in order)
    memory = np.random.default_rng(draw(st.integers(0, 2**31))).integers(-4, 5, whole)

    def view(array):
        return _turned(array, np.argsort(order))[tuple(slice(None, None, step) for step in steps)]

    return memory, view


def _turned(array, order):
    order = [int(i) for i in order]
    return array.permute(*order) if hasattr(array, "permute") else array.transpose(*order)


@settings(
    deadline=None, max_examples=60, derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
@given(st.data())
def test_any_layout(library, data):
    batches = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=2, max_side=3))
    m, n, k = (data.draw(st.integers(0, 6)) for _ in range(3))
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    p = data.draw(st.sampled_from([1, 2, 1.5]))
    given = [data.draw(ways(s + t)) for s, t in zip(batches.input_shapes, ((m, k), (n, k)))]
    views = [view(memory.astype(dtype)) for memory, view in given]
    expected = gram.cdist(*views, p)
    got = gram.cdist(*[view(library.put(memory.astype(dtype))) for memory, view in given], p)
    assert tuple(got.shape) == expected.shape
    np.testing.assert_allclose(library.get(got), expected, rtol=1e-5, atol=1e-5)
    memory, view = data.draw(ways(expected.shape))
    out = view(library.put(memory.astype(dtype)))
    assert gram.cdist(*[view(library.put(a.astype(dtype))) for a, view in given], p, out=out) is out
    np.testing.assert_allclose(library.get(out), expected, rtol=1e-5, atol=1e-5)


def test_outputs_of_the_caller(library):
    x = library.put(X)
    out = library.empty((70, 70), "float64")
    assert gram.cdist(x, out=out) is out
    np.testing.assert_allclose(library.get(out), gram.cdist(X), atol=1e-12)
    info = library.empty((2,), "int32")
    a = library.put(np.stack([np.eye(3), -np.eye(3)]))
    solved = library.get(gram.solve_cholesky(a, library.put(np.ones((3, 1))), info=info))
    assert library.get(info).tolist() == [0, 1]
    assert np.isnan(solved[1]).all() and (solved[0] == 1).all()


def test_arrays_of_two_devices_are_refused(library):
    with pytest.raises(ValueError, match="x is on CUDA device 0 but y is on the CPU"):
        gram.cdist(library.put(X), Y)
    with pytest.raises(ValueError, match="out is on|y is on|but"):
        gram.cdist(X, out=library.empty((70, 70), "float64"))


def test_work_is_queued_on_the_callers_stream(library):
    """An input that a long chain of work on this stream is still to write, an output read on it."""
    if isinstance(library, Torch):
        torch = library.torch
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            big = torch.randn(3000, 3000, device="cuda", dtype=torch.float64)
            for _ in range(10):
                big = (big @ big).clamp(-1, 1)
            x = torch.zeros(70, 9, dtype=torch.float64, device="cuda") + 0 * big[:70, :9]
            x += torch.from_numpy(X).to("cuda", non_blocking=True)
            d = gram.cdist(x, p=1) * 2
        stream.synchronize()
    else:
        cupy = library.cupy
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            big = cupy.ones((3000, 3000))
            for _ in range(10):
                big = (big @ big).clip(-1, 1)
            x = 0 * big[:70, :9] + cupy.asarray(X)
            d = gram.cdist(x, p=1) * 2
        stream.synchronize()
    np.testing.assert_allclose(library.get(d), 2 * gram.cdist(X, p=1), rtol=1e-12)


def test_a_cuda_graph_of_torch():
    library = Torch()
    torch = library.torch
    x, out = library.put(X), library.empty((70, 70), "float64")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        gram.cdist(x, p=1.3, out=out)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        gram.cdist(x, p=1.3, out=out)
    x.copy_(torch.from_numpy(2 * X))
    out.zero_()
    graph.replay()
    np.testing.assert_allclose(library.get(out), 2 * gram.cdist(X, p=1.3), rtol=1e-10)


def expansion(library, rows=400, dtype=np.float32):
    """Arguments of agop, which takes scratch."""
    shapes = (rows, rows), (20, rows), (2, rows), (20, rows)
    return [library.put(draw(*s, seed=i, dtype=dtype)) for i, s in enumerate(shapes)]


def test_scratch_comes_from_the_allocator_of_torch():
    library = Torch()
    cuda = library.torch.cuda
    inputs = expansion(library)
    need = gram.workspace(gram.agop, *inputs)[1]
    expected = gram.agop(*inputs)
    assert need > 1000
    cuda.reset_peak_memory_stats()
    before = cuda.memory_allocated()
    result = gram.agop(*inputs)
    assert cuda.memory_allocated() - before < result.nbytes + 1024
    assert cuda.max_memory_allocated() - before >= need
    np.testing.assert_array_equal(library.get(result), library.get(expected))


def test_scratch_in_a_graph_of_torch():
    """Other tensors take what a call has given back; the graph's own memory stays its own."""
    library = Torch()
    torch = library.torch
    inputs = expansion(library)
    result = gram.agop(*inputs)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        gram.agop(*inputs, out=result)
    others = [torch.full((1 << 18,), 77.0, device="cuda") for _ in range(64)]
    inputs[0].mul_(2)
    graph.replay()
    expected = gram.agop(*inputs)
    np.testing.assert_array_equal(library.get(result), library.get(expected))
    assert all((t == 77).all() for t in others)


def test_torch_and_cupy_share_memory():
    torch, cupy = Torch().torch, Cupy().cupy
    x = torch.from_numpy(X).cuda()
    d = gram.cdist(cupy.from_dlpack(x), x)
    assert isinstance(d, cupy.ndarray)
    np.testing.assert_allclose(cupy.asnumpy(d), gram.cdist(X), atol=1e-12)


def test_negative_strides_of_cupy():
    library = Cupy()
    d = gram.cdist(library.put(X)[::-2, ::-1], p=1)
    np.testing.assert_allclose(library.get(d), gram.cdist(X[::-2, ::-1], p=1), rtol=1e-12)


def test_what_the_gpu_tells():
    assert gram.best_device() == "cuda:0" and gram.info()["cuda_devices"] >= 1
    memory = gram.memory_info("cuda:0")
    assert 0 < memory["free"] <= memory["total"] and memory["other"] >= 0
    library = Torch()
    host, device = gram.workspace(gram.cdist, library.put(X), library.put(Y), 1.3)
    assert host >= 0 and device >= 0


def test_a_kernel_of_ones_own(library):
    module = gram.Module(
        'extern "C" __global__ void scale(double *x, double a, long long n) {'
        "long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; if (i < n) x[i] *= a; }"
    )
    x = library.put(np.arange(1000.0))
    library.get(x)  # what fills it is done
    module.launch("scale", 4, 256, (x, 3.0, 1000))
    module.synchronize()
    np.testing.assert_array_equal(library.get(x), 3 * np.arange(1000.0))
    with pytest.raises(NotImplementedError, match="error"):
        gram.Module('extern "C" __global__ void f() { nonsense }')


def test_the_cache_and_tuning():
    library = Torch()
    tuned = gram.tune(library.put(draw(200, 64, dtype=np.float32)))
    assert tuned["candidates"] >= 1 and tuned["tile_ms"] >= 0
    info = gram.cache.info()
    assert info["path"] and info["kernels"] >= 0
    assert all({"kernel", "chip", "bytes"} <= set(entry) for entry in gram.cache.entries())


def test_gradients_are_refused_and_devices_of_torch_are_named():
    library = Torch()
    x = library.put(X).requires_grad_()
    with pytest.raises(TypeError, match="detach"):
        gram.cdist(x)
    assert gram.cdist(x.detach()).device.type == "cuda"
    assert gram.cdist(library.put(X.astype(np.float16))).dtype == library.torch.float32


@pytest.mark.parametrize("method", ["Shampoo", "SOAP"])
def test_shampoo_and_soap_take_the_steps_of_the_cpu_and_its_checkpoints(method):
    torch = Torch().torch
    import gram.optim

    rules = {
        "Shampoo": {"lr": 0.1, "betas": (0.9, 0.9), "eps": 1e-3, "graft": "adam", "block": 16,
                    "refresh": 1},
        "SOAP": {"lr": 0.1, "refresh": 2},
    }  # fmt: skip

    def make(device, values):
        parameters = [torch.nn.Parameter(torch.from_numpy(v).to(device)) for v in values]
        return parameters, getattr(gram.optim, method)(parameters, **rules[method])

    def steps(parameters, optimizer, gradients):
        for slopes in gradients:
            for p, g in zip(parameters, slopes, strict=True):
                p.grad = torch.from_numpy(g).to(p.device)
            optimizer.step()

    # SOAP's directions are unique only where factors have full rank.
    shapes = [(40, 9) if method == "Shampoo" else (6, 6), (7,), (3, 4, 5)]
    values = [draw(*s) for s in shapes]
    gradients = [[draw(*s, seed=k) for s in shapes] for k in range(1, 7)]
    here, there = make("cpu", values), make("cuda", values)
    steps(*here, gradients[:2])
    steps(*there, gradients[:2])
    again = make("cuda", [p.detach().cpu().numpy() for p in there[0]])
    again[1].load_state_dict(here[1].state_dict())
    for run in (here, there, again):
        steps(*run, gradients[2:])
    atol = 1e-8 if method == "Shampoo" else 1e-6
    for p, q, r in zip(here[0], there[0], again[0], strict=True):
        np.testing.assert_allclose(q.detach().cpu().numpy(), p.detach().numpy(), atol=atol)
        np.testing.assert_allclose(r.detach().cpu().numpy(), p.detach().numpy(), atol=atol)
    assert there[1].reports == [None]


@pytest.mark.parametrize("places", ["hh", "dh", "hd", "dd", "pp"])
def test_products_in_pieces_of_arrays_that_stay_on_the_cpu(places):
    """h: NumPy, d: on the GPU, p: pinned memory of PyTorch. The result is where a is."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch has no GPU")
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-8, 9, s).astype(np.float32) for s in ((700, 60), (60, 900)))
    put = {
        "h": lambda x: x,
        "d": lambda x: torch.from_numpy(x).cuda(),
        "p": lambda x: torch.from_numpy(x).pin_memory(),
    }
    x, y = (put[place](array) for place, array in zip(places, (a, b), strict=True))
    got = gram.matmul_chunked(x, y, memory=700_000, device="cuda")
    assert type(got) is type(x)
    got = got.cpu().numpy() if isinstance(got, torch.Tensor) else got
    np.testing.assert_array_equal(got, a @ b)
    assert gram.workspace(gram.matmul_chunked, x, y, memory=700_000, device="cuda")[1] > 0
    with pytest.raises(ValueError, match="too small for one element"):
        gram.matmul_chunked(x, y, memory=8, device="cuda")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients_of_samples(library, dtype):
    """Of a layer of each kind, in every output, as the CPU makes them."""
    images, maps = draw(5, 4, 9, 8, dtype=dtype), draw(5, 6, 5, 4, seed=1, dtype=dtype)
    words = np.random.default_rng(2).integers(0, 7, (5, 11))
    lines, back = draw(5, 70, 20, seed=3, dtype=dtype), draw(5, 70, 12, seed=4, dtype=dtype)
    convolution = {"kernel_size": (3, 3), "stride": (2, 2), "padding": (1, 1), "groups": 2}
    for a, g, options in [
        (lines, back, {"kind": "linear"}),
        (lines, back, {"kind": "linear", "method": "ghost"}),
        (images, maps, {"kind": "convolution", **convolution}),
        (words, back[:, :11], {"kind": "embedding", "rows": 7, "bias": False}),
        (lines, lines[:, ::-1].copy(), {"kind": "layer_norm"}),
        (images, images[:, ::-1].copy(), {"kind": "group_norm", "groups": 2}),
    ]:
        for more in ({"output": "gradient"}, {"output": "norm"}, {"output": "sum", "clip": 3.0}):
            want = gram.sample_grad(a, g, **options, **more)
            got = gram.sample_grad(library.put(a), library.put(g), **options, **more)
            if more["output"] == "norm":
                want, got = (want,), (got,)
            for w, x in zip(want, got, strict=True):
                tolerance = 1e-4 if dtype == np.float32 else 1e-12
                np.testing.assert_allclose(library.get(x), w, rtol=tolerance, atol=tolerance)


def test_a_row_outside_of_the_table(library):
    """The device cannot refuse it: the sample's norm is NaN, and clipped sums leave it out."""
    words, g = np.array([[1, 2], [9, 1]]), draw(2, 2, 3)
    options = {"kind": "embedding", "rows": 4, "bias": False, "output": "sum", "clip": 1e9}
    got = gram.sample_grad(library.put(words), library.put(g), **options)
    want = gram.sample_grad(words[:1], g[:1], **options)
    norms = library.get(got[1])
    assert np.isnan(norms[1]) and np.isclose(norms[0], want[1][0])
    np.testing.assert_allclose(library.get(got[0]), want[0], rtol=1e-12)
