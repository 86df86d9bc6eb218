"""test_bad_input.py - what cannot be meant: an exception that says so, and no output written"""

import gram
import numpy as np
import pytest

X = np.arange(6.0).reshape(3, 2)


def aligned(offset):
    memory = np.zeros(3 * 2 * 8 + 8, np.uint8)
    return memory[offset : offset + 48].view(np.float64).reshape(3, 2)


PACKED = np.zeros((3, 2), [("tag", "u1"), ("value", "f8")])


class Fake:
    """Says that it is an array of a GPU."""

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, **options):
        raise BufferError("it is not")


@pytest.mark.parametrize(
    "x, exception, message",
    [
        ([[1.0], [2.0, 3.0]], ValueError, "x cannot be converted to an array"),
        ([["a"]], TypeError, "x is of type list and has elements of dtype <U1, expected numbers"),
        (None, TypeError, "x is of type NoneType"),
        ("text", TypeError, "x is of type str"),
        (3.0, TypeError, "x is of type float"),
        (b"bytes", TypeError, "x has elements of format 'B'"),
        (X.astype(object), TypeError, "x has dtype object, expected float32"),
        (X.astype(complex), TypeError, "x has dtype complex128"),
        (X.astype("U"), TypeError, "x has dtype <U"),
        (X.astype(np.longdouble), TypeError, "x has dtype (long|float96|float128)"),
        (X.astype("M8[s]"), TypeError, "x"),
        (X.astype(">f8"), ValueError, "byte order of another machine.*newbyteorder"),
        (np.ma.masked_equal(X, 2), TypeError, r"masked elements; pass x.filled\(value\)"),
        (aligned(1), ValueError, "not aligned.*pass a copy"),
        (PACKED["value"], ValueError, "not aligned|stride of .* pass a copy"),
        (X[0], ValueError, "x has 1 dimensions, expected 2 to 8"),
        (np.float64(1), ValueError, "x is of type|x has 0 dimensions"),
        (Fake(), TypeError, "x cannot be exported by DLPack"),
    ],
)
def test_x(x, exception, message):
    with pytest.raises((exception, NotImplementedError) if isinstance(x, Fake) else exception) as e:
        gram.cdist(x)
    assert e.match(message)


def test_the_reason_of_another_library_is_kept():
    class Stubborn(Fake):
        def __dlpack_device__(self):
            return 1, 0

    with pytest.raises(TypeError) as e:
        gram.cdist(Stubborn())
    assert isinstance(e.value.__cause__, BufferError) and "it is not" in str(e.value.__cause__)


def read_only(shape):
    out = np.full(shape, 7.0)
    out.flags.writeable = False
    return out


@pytest.mark.parametrize(
    "out, exception, message",
    [
        (read_only((3, 3)), ValueError, "out is read-only"),
        (np.full((3, 2), 7.0), ValueError, "out is 3 by 2, expected 3 by 3"),
        (np.full((3, 3), 7, np.float32), ValueError, "out has dtype f32, expected f64"),
        (np.full((1, 3, 3, 1), 7.0), ValueError, "out"),
        (np.broadcast_to(np.full(3, 7.0), (3, 3)), ValueError, "out is read-only"),
        (np.lib.stride_tricks.as_strided(np.full(5, 7.0), (3, 3), (8, 8)), ValueError, "out"),
        (np.full((3, 3), 7.0, ">f8"), ValueError, "out has the byte order"),
        ([[0.0] * 3] * 3, TypeError, "out is of type list"),
    ],
)
def test_out(out, exception, message):
    with pytest.raises(exception, match=message):
        gram.cdist(X, out=out)
    assert (np.asarray(out) == 7).all() or isinstance(out, list)


def test_out_that_is_an_input():
    x = np.arange(9.0).reshape(3, 3)
    with pytest.raises(ValueError, match="out overlaps x|out"):
        gram.cdist(x, out=x)
    assert x.ravel().tolist() == list(range(9))


@pytest.mark.parametrize(
    "arguments, named, exception, message",
    [
        ((), {}, TypeError, "needs the argument 'x'"),
        ((X, X, 2, True, None, 5), {}, TypeError, "at most 5 positional arguments, got 6"),
        ((X,), {"x": X}, TypeError, "got 'x' twice"),
        ((X,), {"norm": 3}, TypeError, "no argument 'norm'"),
        ((X,), {"metric": 3}, TypeError, "metric is 3, expected a str"),
        ((X,), {"metric": "manhatten"}, ValueError, "metric is 'manhatten', expected"),
        ((X,), {"p": "2"}, TypeError, "p is '2', expected a number or an array"),
        ((X,), {"p": None}, TypeError, "p is of type NoneType"),
        ((X,), {"p": -1}, ValueError, "p is -1, expected at least 0"),
        ((X,), {"p": float("nan")}, ValueError, "p is nan"),
        ((X,), {"p": 10**400}, OverflowError, "int"),
        ((X,), {"p": np.array([1, -2.0])}, ValueError, "p"),
        ((X,), {"p": [1, "2"]}, TypeError, "p is of type list .*expected numbers"),
        ((X,), {"root": "no"}, TypeError, "root is 'no', expected True or False"),
        ((X, X[:, :1]), {}, ValueError, "x has 2 columns but y has 1"),
        ((X, X.astype(np.float32)), {}, ValueError, "y has dtype f32, expected that of x, f64"),
        ((np.ones((2, 3, 2)), np.ones((3, 3, 2))), {}, ValueError, "does not broadcast"),
    ],
)
def test_arguments(arguments, named, exception, message):
    with pytest.raises(exception, match=message):
        gram.cdist(*arguments, **named)


@pytest.mark.parametrize(
    "named, exception, message",
    [
        ({"kernel": "rbf"}, ValueError, "kernel is 'rbf', expected one of laplace, .*gaussian"),
        ({"kernel": 3}, TypeError, "kernel is 3, expected a str"),
        ({"kernel": "gauss\0ian"}, ValueError, "null character"),
        ({"bandwidth": 0}, ValueError, "bandwidth is 0"),
        ({"bandwidth": "1"}, TypeError, "bandwidth is '1'"),
        ({"kernel": "gaussian", "p": 1}, ValueError, "Euclidean"),
        ({"kernel": "cosine", "expression": "s"}, ValueError, "kernel and expression"),
        ({"expression": "exp(-s"}, ValueError, "expression"),
        ({"expression": "a * s", "parameters": {"b": 1}}, ValueError, "a"),
        ({"expression": "a * s", "parameters": [1]}, TypeError, "parameters is .*a dict"),
        ({"expression": "s", "parameters": {3: 1}}, TypeError, "name in parameters"),
        ({"expression": "s", "parameters": dict.fromkeys("abcdefghi", 1)}, TypeError, "at most 8"),
        ({"p": np.array([-1.0])}, ValueError, "p is -1"),
        ({"parameter": "a"}, ValueError, "parameter is 'a', expected a name with output"),
        ({"output": "parameter-derivative"}, ValueError, "parameter is None, expected a name"),
        (
            {"expression": "s", "output": "parameter-derivative", "parameter": "b"},
            ValueError,
            "parameter is 'b', expected a name in parameters",
        ),
        ({"row_offset": 1.5}, TypeError, "row_offset is 1.5, expected a whole number"),
        ({"output": "gradient"}, ValueError, "expected one of value, weight"),
        ({"of": "words"}, ValueError, "expected one of distance, sum, product"),
        ({"kernel": "gaussian", "gamma": 0.1}, ValueError, "gaussian has no .* width is bandwidth"),
        ({"kernel": "laplace", "exponent": 2}, ValueError, "exponent is given, but .* laplace"),
        ({"kernel": "laplace", "alpha": np.array(2.0)}, ValueError, "alpha is given"),
        ({"kernel": "linear", "p": 1}, ValueError, "p is given, but the kernel linear"),
        ({"kernel": "cosine", "bandwidth": 2}, ValueError, "bandwidth is given"),
        ({"kernel": "product-laplace", "p": 1}, ValueError, "p is given"),
        ({"expression": "s * gamma", "gamma": 2}, ValueError, "give it in parameters"),
        ({"expression": "s", "of": "product", "p": 1}, ValueError, "it is of the product"),
        ({"parameters": {"a": 1}}, ValueError, "parameters are given without an expression"),
    ],
)
def test_kernel_arguments(named, exception, message):
    with pytest.raises(exception, match=message):
        gram.kernel(X, **named)


def test_other_arguments():
    a = np.ones((3, 3))
    with pytest.raises(TypeError, match="needs the argument 'grad'"):
        gram.kernel_vjp(X)
    with pytest.raises(ValueError, match="wrt has 'x' twice"):
        gram.kernel_vjp(X, grad=a, wrt=("x", "x"))
    with pytest.raises(ValueError, match="wrt is empty"):
        gram.kernel_vjp(X, grad=a, wrt=())
    with pytest.raises(TypeError, match="wrt is 3"):
        gram.kernel_vjp(X, grad=a, wrt=(3,))
    with pytest.raises(TypeError, match="expected a tuple of 2 arrays"):
        gram.kernel_vjp(X, grad=a, wrt=("x", "y"), out=X.copy())
    with pytest.raises(TypeError, match="needs the argument 'v'"):
        gram.kernel_matmul_vjp(X, grad=a)
    with pytest.raises(TypeError, match="needs the argument 'grad'"):
        gram.kernel_matmul_vjp(X, v=a)
    with pytest.raises(ValueError, match="grads.y is given, expected NULL, because y is NULL"):
        gram.kernel_matmul_vjp(X, v=X, grad=X, wrt="y")
    with pytest.raises(TypeError, match="needs the argument 'what'"):
        gram.kernel_reduce_vjp(X, grad=a)
    with pytest.raises(ValueError, match="what is 'max', expected one of logsumexp, softmax"):
        gram.kernel_reduce_vjp(X, what="max", grad=a)
    with pytest.raises(TypeError, match="what='logsumexp' takes no v"):
        gram.kernel_reduce_vjp(X, what="logsumexp", v=X, grad=a)
    with pytest.raises(ValueError, match="wrt has 'v', but there is none"):
        gram.kernel_reduce_vjp(X, what="logsumexp", grad=X[:, 0], wrt="v")
    with pytest.raises(ValueError, match="grad has 2 elements, expected 3"):
        gram.kernel_reduce_vjp(X, what="logsumexp", grad=X[:2, 0])
    with pytest.raises(ValueError, match="accumulate needs out"):
        gram.agop(a, X.T, a, X.T, accumulate=True)
    with pytest.raises(ValueError, match="pivots"):
        gram.solve_lu(a, X, factor=a.copy())
    with pytest.raises(ValueError, match="a is 3 by 2|a has|square"):
        gram.solve_lu(X, X)
    with pytest.raises(ValueError, match="info"):
        gram.solve_cholesky(np.eye(3), X, info=np.zeros(2, np.int32))
    with pytest.raises(NotImplementedError):
        gram.tune(X)


@pytest.mark.parametrize("select", ["largest", "smallest", "index"])
def test_a_part_of_a_spectrum_without_its_size(select):
    """It gave empty arrays."""
    for call in (
        lambda **o: gram.eigh(np.eye(3), **o),
        lambda **o: gram.eigh(np.eye(3), vectors=False, **o),
        lambda **o: gram.workspace(gram.eigh, np.eye(3), **o),
        lambda **o: gram.eigh_many([np.eye(3)], **o),
        lambda **o: gram.eigh_multi(np.eye(3), devices=["cpu"], **o),
        lambda **o: gram.eigh_kernel(X, **o),
    ):
        for more in ({}, {"count": None}):
            with pytest.raises(ValueError, match=f"select is '{select}', but count"):
                call(select=select, **more)
    with pytest.raises(ValueError, match="gram.eigh_kernel: select is 'largest', but count"):
        gram.eigh_kernel(X)
    assert gram.eigh(np.eye(3), select=select, count=0, vectors=False).shape == (0,)
    values = gram.eigh(np.diag([1.0, 2, 3]), select="value", range=(1.5, 9), vectors=False,
                       found=np.zeros((), np.int64))  # fmt: skip
    assert values[:2].tolist() == [2, 3]


def test_messages_have_the_names_of_python():
    x = np.ones((4, 2))
    for call, message in (
        (lambda: gram.Machine.fit(x, x[:, 0], q=3.0), r"^gram\.Machine\.fit: q is 3"),
        (lambda: gram.Machine.load(__file__), r"^gram\.Machine\.load: "),
        (lambda: gram.tune_eigh(np.eye(3), driver="jacobi"), r"^gram\.tune_eigh: driver"),
        (lambda: gram.eigh(np.eye(3), select="largest", count=4), r"^gram\.eigh: count is 4"),
        (lambda: gram.kernel(x, expression="s *"), r"^gram\.kernel: expression ends after"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_memory_that_is_not_there():
    x = np.broadcast_to(np.float32(1), (2**24, 1))
    with pytest.raises((MemoryError, ValueError)):
        gram.cdist(np.broadcast_to(np.float32(1), (2**20, 2**24, 1)), x)


def o(*shape):
    return np.ones(shape)


def shape_of(result):
    return [np.shape(r) for r in result] if isinstance(result, tuple) else np.shape(result)


EMPTY = {
    "cdist": (lambda: gram.cdist(o(0, 3), o(2, 3)), (0, 2)),
    "kernel": (lambda: gram.kernel(o(3, 2), o(0, 2)), (3, 0)),
    "kernel_vjp": (
        lambda: gram.kernel_vjp(o(0, 3), o(2, 3), grad=o(0, 2), wrt=("x", "y")), [(0, 3), (2, 3)],
    ),
    "kernel_matmul_vjp": (
        lambda: gram.kernel_matmul_vjp(o(0, 3), o(2, 3), v=o(2, 4), grad=o(0, 4), wrt=("x", "v")),
        [(0, 3), (2, 4)],
    ),
    "kernel_reduce_vjp": (
        lambda: gram.kernel_reduce_vjp(
            o(0, 3), o(2, 3), what="softmax", v=o(2, 4), grad=o(0, 4), wrt=("x", "v", "log_weights")
        ),
        [(0, 3), (2, 4), (2,)],
    ),
    "kernel_matmul": (lambda: gram.kernel_matmul(o(3, 2), o(0, 2), v=o(0, 4)), (3, 4)),
    "kernel_reduce": (lambda: gram.kernel_reduce(o(0, 2), o(3, 2), what="min"), (0,)),
    "cdist_grad": (lambda: gram.cdist_grad(o(4, 0), o(3, 4), o(2, 4), o(3, 0)), (2, 3, 0)),
    "agop": (lambda: gram.agop(o(0, 5), o(3, 0), o(2, 0), o(3, 5)), (3, 3)),
    "median_distance": (lambda: gram.median_distance(o(0, 2, 3)), (0,)),
    "nearest": (lambda: gram.nearest(o(0, 2), o(3, 2), count=2), [(0, 2), (0, 2)]),
    "solve_cholesky": (lambda: gram.solve_cholesky(o(0, 0), o(0, 2)), (0, 2)),
    "solve_lu": (lambda: gram.solve_lu(o(3, 0, 0), o(3, 0, 1)), (3, 0, 1)),
    "eigh": (lambda: gram.eigh(o(0, 3, 3)), [(0, 3), (0, 3, 3)]),
    "eigh_kernel": (lambda: gram.eigh_kernel(o(0, 2), count=0), [(0,), (0, 0)]),
    "eigh_operator": (
        lambda: gram.eigh_operator(np.copy, o(0, 2), count=0), [(0,), (0, 0)],
    ),
    "kernel_logdet": (lambda: gram.kernel_logdet(o(0, 2)), [(), ()]),
    "logdet_operator": (lambda: gram.logdet_operator(np.copy, o(0, 2)), [(), ()]),
    "solve_operator": (lambda: gram.solve_operator(np.copy, o(0, 2)), (0, 2)),
    "matrix_power": (lambda: gram.matrix_power(o(0, 0)), (0, 0)),
    "krr_path": (lambda: gram.krr_path(o(0, 0), o(0, 2), [1.0]), (1, 0, 2)),
    "krr_solve": (lambda: gram.krr_solve(o(0, 2), o(0, 3), ridge=1.0), (0, 3)),
    "krr_samples": (lambda: gram.krr_samples(o(0, 2), o(0), z=o(3, 2), ridge=1.0, count=0), (3, 0)),
    "krr_variance": (lambda: gram.krr_variance(o(0, 2), o(3, 2), ridge=1.0), (3,)),
    "kron": (lambda: gram.kron([o(0, 2), o(3, 2)]), (0, 4)),
    "kron_matmul": (lambda: gram.kron_matmul(o(2, 0), [o(0, 2), o(2, 3)]), (2, 6)),
    "kron_matmul_vjp": (
        lambda: gram.kron_matmul_vjp(o(0, 2), [o(2, 3)], grad=o(0, 3)), [(0, 2), (2, 3)],
    ),
    "kron_solve": (lambda: gram.kron_solve([np.eye(2)], o(0, 2)), (0, 2)),
    "kron_logdet": (lambda: gram.kron_logdet([o(0, 0)]), [(), ()]),
    "kron_diagonal": (lambda: gram.kron_diagonal([o(0, 0)]), (0,)),
    "matmul_batched": (lambda: gram.matmul_batched(o(2, 0), o(0, 3)), (2, 3)),
    "matmul_chunked": (lambda: gram.matmul_chunked(o(2, 0), o(0, 3)), (2, 3)),
    "natural_gradient": (lambda: gram.natural_gradient(o(0, 3), o(3), 1.0), (3,)),
    "syrk_ema": (lambda: gram.syrk_ema(o(2, 0), 0 * o(2, 2)), (2, 2)),
    "sample_grad": (lambda: gram.sample_grad(o(0, 2), o(0, 3)), [(0, 3, 2), (0, 3)]),
    "kfac_factors": (lambda: gram.kfac_factors(o(0, 2), o(0, 3)), [(3, 3), (3, 3)]),
}  # fmt: skip


@pytest.mark.parametrize("name", EMPTY)
def test_sizes_of_zero(name):
    """Empty sums are 0 and empty results have their shape."""
    run, shape = EMPTY[name]
    result = run()
    assert shape_of(result) == shape
    sums = {"kernel_matmul", "agop", "kron_matmul", "matmul_batched", "matmul_chunked", "syrk_ema"}
    if name in sums:
        assert not result.any()
