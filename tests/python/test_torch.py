"""test_torch.py - gram.torch: gradients by gradcheck, opcheck, torch.compile, vmap, on every device

Skipped without PyTorch 1.13; what came with 2.4 is skipped before it.
"""

import gram
import numpy as np
import pytest

torch = pytest.importorskip("torch", minversion="1.13.0a0")
gt = pytest.importorskip("gram.torch")
from torch.autograd import gradcheck, gradgradcheck  # noqa: E402

HAS_OPERATORS = hasattr(torch.library, "custom_op")
needs_operators = pytest.mark.skipif(not HAS_OPERATORS, reason="needs PyTorch 2.4")

DEVICES = ["cpu"]
if torch.cuda.is_available() and len(gram.devices()) > 1:
    DEVICES.append("cuda")


@pytest.fixture(params=DEVICES)
def device(request):
    torch.manual_seed(0)
    return request.param


def draw(*shape, device="cpu", dtype=torch.float64):
    return torch.randn(shape, dtype=torch.float64).to(device, dtype).requires_grad_()


def number(value, device="cpu"):
    return torch.tensor(value, dtype=torch.float64, device=device, requires_grad=True)


def symmetric(s):
    return (s + s.mT) / 2


def definite(s):
    return s @ s.mT + 3 * torch.eye(s.shape[-1], dtype=s.dtype, device=s.device)


def holds(check, f, inputs):
    """A check of derivatives; skipped for what a device does not offer."""
    try:
        assert check(f, inputs)
    except NotImplementedError as e:
        if inputs[0].is_cuda:
            pytest.skip(str(e))
        raise


@pytest.mark.parametrize("shapes", [[(5, 3), (4, 3)], [(2, 6, 4), (3, 4)]])
def test_gradient_at_p_infinity_is_that_of_pytorch(shapes, device):
    """Each of several largest differences has the whole gradient; 20 samples of cdist failed."""
    x, y = (torch.randn(s, dtype=torch.float64, device=device) for s in shapes)
    ties = torch.randint(0, 3, shapes[0], device=device).to(x.dtype)
    for a, b in ((x, y), (ties, ties[..., :4, :] + 1), (ties, ties)):
        grad = torch.randn(torch.cdist(a, b).shape, dtype=x.dtype, device=device)
        found = []
        for cdist in (torch.cdist, gt.cdist):
            p, q = a.clone().requires_grad_(), b.clone().requires_grad_()
            found.append(torch.autograd.grad(cdist(p, q, p=float("inf")), (p, q), grad))
        for one, other in zip(*found, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    x, y = x.requires_grad_(), y.requires_grad_()
    for name in ("laplace", "matern32", "lpq-laplace", "distance"):
        f = lambda x, y, b: gt.kernel(x, y, name, p=float("inf"), bandwidth=b)  # noqa: E731
        holds(gradcheck, f, (x, y, number(1.3)))


def test_samples_of_pytorch_of_cdist():
    """What PyTorch itself tries torch.cdist with: values, and gradients by finite differences."""
    methods = pytest.importorskip("torch.testing._internal.common_methods_invocations")
    (info,) = [op for op in methods.op_db if op.name == "cdist"]
    count = 0
    for sample in info.sample_inputs("cpu", torch.float64, requires_grad=True):
        y, *p = sample.args
        p = p[0] if p else 2.0
        if 0 in (*sample.input.shape, *y.shape):
            continue
        ours = gt.cdist(sample.input, y, p)
        torch.testing.assert_close(ours, torch.cdist(sample.input, y, p))
        grad = torch.randn(ours.shape, dtype=ours.dtype)
        if p > 0 and sample.input.requires_grad and y.requires_grad:
            of_ours = torch.autograd.grad(ours, (sample.input, y), grad)
            theirs = torch.cdist(sample.input, y, p)
            of_theirs = torch.autograd.grad(theirs, (sample.input, y), grad)
            torch.testing.assert_close(of_ours, of_theirs)
            count += 1
    assert count > 0


@pytest.mark.parametrize("root", [True, False])
@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
def test_gradients_of_distances(p, root, device):
    inputs = draw(5, 3, device=device), draw(4, 3, device=device)
    holds(gradcheck, lambda x, y: gt.cdist(x, y, p, root), inputs)
    holds(gradgradcheck, lambda x, y: gt.cdist(x, y, p, root), inputs)


KERNELS = (
    "laplace lpq-laplace product-laplace gaussian matern32 matern52 rational-quadratic linear "
    "polynomial sigmoid distance cosine"
).split()
OPTIONS = {"exponent": 1.4, "alpha": 1.7, "gamma": 0.3, "coef0": 0.5}


@pytest.mark.parametrize("name", KERNELS)
def test_gradients_of_kernels(name, device):
    def f(x, y, bandwidth, regularization):
        numbers = {"bandwidth": bandwidth, "regularization": regularization}
        return gt.kernel(x, y, name, **numbers, **OPTIONS)

    inputs = draw(4, 3, device=device), draw(3, 3, device=device), number(1.3), number(0.2)
    holds(gradcheck, f, inputs)
    holds(gradgradcheck, f, inputs)


@pytest.mark.parametrize("name", KERNELS)
def test_gradients_of_lengths(name, device):
    def f(x, y, lengths):
        return gt.kernel(x, y, name, lengths=lengths, **OPTIONS)

    def product(x, lengths, v):
        return gt.kernel_matmul(x, kernel=name, v=v, lengths=lengths, **OPTIONS)

    lengths = number([0.7, 1.4, 2.1], device)
    x, y = draw(4, 3, device=device), draw(3, 3, device=device)
    holds(gradcheck, f, (x, y, lengths))
    holds(gradgradcheck, f, (x, y, lengths))
    batch = number([[0.7, 1.4, 2.1], [1.1, 0.9, 0.8]], device)
    holds(gradcheck, f, (x, y, batch))
    holds(gradcheck, product, (x, lengths, draw(4, 2, device=device)))
    plain = [t.detach() for t in (x, y, lengths)]
    expected = gram.kernel(*plain[:2], name, lengths=plain[2], **_had(name))
    torch.testing.assert_close(f(*plain), expected, rtol=1e-12, atol=1e-12)
    assert f(plain[0], plain[1], -plain[2]).isnan().any()


def _had(name):
    return {n: OPTIONS[n] for n in gram._core.kernel_takes(name) if n in OPTIONS}


NUMBERS = {"exponent": 1.4, "alpha": 1.7, "gamma": 0.03, "coef0": 2.5, "degree": 3.0, "p": 1.6}


@pytest.mark.parametrize("name", KERNELS)
def test_every_number_of_a_kernel_gets_its_gradient(name, device):
    """A tensor that was given as p, exponent, ... had .grad None, and nothing said so."""
    euclidean = name in ("gaussian", "rational-quadratic")
    names = [n for n in NUMBERS if not (euclidean and n == "p")]
    x, y, v = draw(4, 3, device=device), draw(3, 3, device=device), draw(3, 2, device=device)
    f = lambda x, y, *n: gt.kernel(x, y, name, **dict(zip(names, n, strict=True)))  # noqa: E731
    holds(gradcheck, f, (x, y, *[number(NUMBERS[n]) for n in names]))
    names = [*NUMBERS, "outer_power"]
    batched = [number([w, w + 0.1], device) for w in (*NUMBERS.values(), 0.7)]
    holds(gradcheck, f, (x, y, *batched))
    g = lambda v, *n: gt.kernel_matmul(  # noqa: E731
        x, y, name, v=v, **dict(zip(names, n, strict=True))
    )
    holds(gradcheck, g, (v, *batched))


def test_every_other_number_gets_its_gradient(device):
    x, y = draw(4, 3, device=device), draw(3, 3, device=device)
    for root in (True, False):
        f = lambda x, y, p: gt.cdist(x, y, p, root)  # noqa: E731
        holds(gradcheck, f, (x, y, number([1.3, 2.5], device)))
    text = {"expression": "exp(-pow(s, b) * a)"}
    f = lambda x, a, b, p: gt.kernel(x, parameters={"a": a, "b": b}, p=p, **text)  # noqa: E731
    holds(gradcheck, f, (x, number(0.5), number([1.5, 1.2], device), number(1.5)))
    a, b, c, d = (draw(*s, device=device) for s in ((4, 5), (3, 4), (2, 4), (3, 5)))
    holds(gradcheck, gt.cdist_grad, (a, b, c, d, number([1.5, 2.5], device)))
    holds(gradcheck, gt.agop, (a, b, c, d, number(1.5)))
    f = lambda s, r: gt.matrix_power(definite(s), ridge=r)  # noqa: E731
    holds(gradcheck, f, (draw(3, 3, device=device), number([0.5, 0.7], device)))
    f = lambda x, f, alpha: gt.kron_matmul(x, [f, f], alpha=alpha)  # noqa: E731
    holds(gradcheck, f, (draw(2, 9, device=device), x[:3].detach(), number(0.3)))


def test_gradients_of_products_that_are_written_out(device):
    """kron, matmul_batched and syrk_ema had no gradients."""
    d = lambda *shape: draw(*shape, device=device)  # noqa: E731
    a, b, c = d(2, 2, 3), d(3, 2), d(1, 2)
    for check in (gradcheck, gradgradcheck):
        holds(check, lambda *f: gt.kron(f), (a, b, c))
        holds(check, lambda *f: gt.kron(f), (b,))
        f = lambda a, b, c, s, t: gt.matmul_batched(a, b, alpha=s, beta=t, c=c)  # noqa: E731
        holds(check, f, (a, b, d(2, 2), number([0.3, 2.0], device), number(0.5)))
        for transpose, n in ((False, 2), (True, 3)):
            options = {"transpose": transpose}
            f = lambda x, l, s, t: gt.syrk_ema(x, l, beta=s, alpha=t, **options)  # noqa: E731, B023
            holds(check, f, (a, d(2, n, n), number(0.3), number([0.5, 1.5], device)))
    torch.testing.assert_close(gt.kron([a[0], b, c]), torch.kron(torch.kron(a[0], b), c))
    x, l = torch.randn(3, 4), torch.eye(3)
    old = torch.from_numpy(gram.syrk_ema(x.numpy(), l.numpy().copy(), beta=0.9))
    torch.testing.assert_close(gt.syrk_ema(x, l, beta=0.9), old)
    assert l.equal(torch.eye(3))


def test_numbers_that_get_no_gradient_say_so():
    x, p = draw(4, 2), number(1.5)
    with pytest.raises(NotImplementedError, match="median_distance: p requires a gradient"):
        gt.median_distance(x, p)
    for asked, message in ((x, "p requires a gradient"), (p, "gradient by p cannot")):
        (grad,) = torch.autograd.grad(gt.kernel(x, p=p).sum(), asked, create_graph=True)
        with pytest.raises(NotImplementedError, match=message):
            grad.square().sum().backward()
    (grad,) = torch.autograd.grad(gt.kernel(x, p=p.detach()).sum(), x, create_graph=True)
    grad.square().sum().backward()
    arrays = gt.kernel(x, p=torch.tensor([1.5, 2.5], dtype=x.dtype)).sum()
    (grad,) = torch.autograd.grad(arrays, x, create_graph=True)
    with pytest.raises(NotImplementedError, match="p is an array"):
        grad.square().sum().backward()


@needs_operators
def test_numbers_in_compiled_and_mapped_calls():
    x = draw(4, 2)
    p = number([1.0, 2.0, 2.5])
    got = torch.func.vmap(lambda p: gt.cdist(x, p=p))(p)
    torch.testing.assert_close(got, torch.stack([gt.cdist(x, p=q) for q in (1.0, 2.0, 2.5)]))


def test_gradients_of_batches_and_of_one_set(device):
    bandwidth = number([1.0, 2.0], device)
    x, y = draw(2, 4, 3, device=device), draw(3, 3, device=device)
    f = lambda x, y, b: gt.kernel(x, y, "gaussian", bandwidth=b)  # noqa: E731
    holds(gradcheck, f, (x, y, bandwidth))
    holds(gradgradcheck, f, (x, y, bandwidth))
    for one in (
        lambda x: gt.kernel(x, kernel="matern52", p=1),
        lambda x: gt.cdist(x, root=False),
        lambda x: gt.kernel(x, expression="exp(-s * a)", of="sum", parameters={"a": 0.5}),
    ):
        holds(gradcheck, one, (y,))


@pytest.mark.parametrize("p", [0.5, 1, 1.5, 2, 3])
def test_gradients_are_finite_at_ties(p, device):
    x = torch.tensor([[1.0, 2, 3], [1, 2, 3], [1, 5, 3]], device=device, requires_grad=True)
    for f in (
        lambda x: gt.cdist(x, p=p),
        lambda x: gt.kernel(x, p=p),
        lambda x: gt.kernel(x, kernel="lpq-laplace", p=p, exponent=0.7),
    ):
        (grad,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
        assert torch.isfinite(grad).all()
        (again,) = torch.autograd.grad(grad.square().sum(), x)
        assert torch.isfinite(again).all()


def test_halves_and_single_precision(device):
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        x = draw(6, 3, device=device, dtype=torch.float64)
        low = x.detach().to(dtype).requires_grad_()
        d = gt.cdist(low)
        assert d.dtype == torch.float32
        d.sum().backward()
        assert low.grad.dtype == dtype
        gt.cdist(x).sum().backward()
        tolerance = {"rtol": 0.05, "atol": 0.05}
        torch.testing.assert_close(low.grad.to(x.dtype), x.grad, **tolerance)


def test_gradients_of_products_with_kernels(device):
    def f(x, y, v, bandwidth, regularization):
        numbers = {"bandwidth": bandwidth, "regularization": regularization}
        return gt.kernel_matmul(x, y, "matern32", v=v, **numbers)

    x, y = draw(5, 3, device=device), draw(4, 3, device=device)
    one = lambda x, v, r: gt.kernel_matmul(x, v=v, regularization=r)  # noqa: E731
    for check in (gradcheck, gradgradcheck):
        holds(check, f, (x, y, draw(4, 2, device=device), number(1.3), number(0.2)))
        holds(check, one, (x, draw(5, device=device), number(0.2)))


@pytest.mark.parametrize("name", ["laplace", "lpq-laplace", "polynomial", "distance", "cosine"])
def test_second_derivatives_of_products_with_kernels(name):
    torch.manual_seed(1)
    options = OPTIONS | ({"p": 1.5} if name != "polynomial" else {})
    f = lambda x, y, v: gt.kernel_matmul(x, y, name, v=v, **options)  # noqa: E731
    assert gradgradcheck(f, (draw(4, 3), draw(2, 3, 3), draw(3, 2)))


# The norms are used differently, so K(y, x) is not the transposed matrix of K(x, y).
NORMS = "exp(-s / c) * (1 + dot * norm_x) + norm_y * norm_y * s"


@pytest.mark.parametrize("of", ["distance", "product"])
def test_gradients_of_products_with_norms_that_are_not_exchangeable(of, device):
    options = {"expression": NORMS, "of": of, "parameters": {"c": 0.7}}
    x, y, v = (draw(*shape, device=device) for shape in ((5, 3), (4, 3), (4, 2)))

    def f(x, y, v):
        return gt.kernel_matmul(x, y, v=v, **options)

    def of_v(v, x, y):
        return torch.autograd.grad(f(x, y, v).square().sum(), v, create_graph=True)[0]

    holds(gradcheck, f, (x, y, v))
    holds(gradcheck, lambda x, v: gt.kernel_matmul(x, v=v, **options), (x, draw(5, device=device)))
    holds(gradcheck, of_v, (v, x, y))
    with pytest.raises(NotImplementedError, match="an expression has no second derivative"):
        gradgradcheck(f, (x, y, v))


def test_kernels_of_a_metric_are_refused(device):
    x = draw(4, 3, device=device)
    for words in ({"metric": "canberra"}, {"weights": torch.ones(3)}):
        for call in (gt.kernel, lambda x, **o: gt.kernel_matmul(x, v=x, **o)):
            with pytest.raises(ValueError, match="metric or weights are given"):
                call(x, **words)


def test_products_with_kernels_go_in_blocks(monkeypatch):
    from gram import _torch_products

    monkeypatch.setattr(_torch_products, "_BLOCK", 20)
    test_gradients_of_products_with_kernels("cpu")


@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
def test_gradients_of_cdist_grad_and_agop(p, device):
    shapes = (5, 4), (3, 5), (2, 5), (3, 4)
    inputs = tuple(draw(*shape, device=device) for shape in shapes)
    diagonal = lambda a, b, c, d: gt.agop(a, b, c, d, p, diagonal=True, points=7)  # noqa: E731
    for check in (gradcheck, gradgradcheck):
        holds(check, lambda a, b, c, d: gt.cdist_grad(a, b, c, d, p), inputs)
        holds(check, lambda a, b, c, d: gt.agop(a, b, c, d, p), inputs)
        holds(check, diagonal, inputs)


def test_second_derivatives_of_cdist_grad_in_batches():
    inputs = draw(2, 1, 3, 2), draw(2, 3), draw(2, 2, 3), draw(2, 2, 2)
    assert gradgradcheck(lambda a, b, c, d: gt.cdist_grad(a, b, c, d, 1.5), inputs)


MATRICES = {
    "solve_cholesky": lambda s, b: gt.solve_cholesky(definite(s), b),
    "solve_cholesky_vector": lambda s, b: gt.solve_cholesky(definite(s), b[:, 0], lower=False),
    "solve_lu": gt.solve_lu,
    "eigh_values": lambda s, b: gt.eigh(symmetric(s))[0],
    "eigh_vectors": lambda s, b: gt.eigh(symmetric(s))[1].abs(),
    "kron_matmul": lambda s, b: gt.kron_matmul(b.mT, [s[0, :2], b[:2]], alpha=2.0),
    "kron_matmul_left": lambda s, b: gt.kron_matmul(b, [s[:, :2, :2], b[:3, :2]], side="left"),
    "power_inverse_fourth": lambda s, b: gt.matrix_power(definite(s), ridge=0.1),
    "power_two_thirds": lambda s, b: gt.matrix_power(definite(s), 2, 3),
    "power_cube": lambda s, b: gt.matrix_power(definite(s), 3, 1),
    "power_as_a_number": lambda s, b: gt.matrix_power(definite(s), power=-0.75),
    "power_minus_five_halves": lambda s, b: gt.matrix_power(definite(s), -5, 2, lower=False),
}
ONCE = {
    "power_real": lambda s, b: gt.matrix_power(definite(s), power=-0.12345, ridge=0.1),
    "power_real_positive": lambda s, b: gt.matrix_power(definite(s), power=2.7182818),
    "power_floor": lambda s, b: gt.matrix_power(symmetric(s), power=-0.4142, floor=0.3),
    "power_floor_fraction": lambda s, b: gt.matrix_power(symmetric(s), -1, 2, floor=0.2, ridge=0.1),
    "eigh_largest": lambda s, b: gt.eigh(
        symmetric(s), vectors=False, select="largest", count=2
    ),
}


@pytest.mark.parametrize("name", [*MATRICES, *ONCE])
def test_gradients_of_matrix_functions(name, device):
    f = (MATRICES | ONCE)[name]
    inputs = draw(2, 4, 4, device=device), draw(4, 2, device=device)
    holds(gradcheck, f, inputs)
    if name in MATRICES:
        holds(gradgradcheck, f, inputs)


def test_powers_at_multiple_eigenvalues():
    zero = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
    two = 2 * torch.eye(3, dtype=torch.float64)
    for check in (gradcheck, gradgradcheck):
        assert check(lambda s: gt.matrix_power(two + symmetric(s), -1, 2), (zero,))
    values = gt.eigh(two + symmetric(zero))[1]
    assert torch.isfinite(torch.autograd.grad(values.sum(), zero)[0]).all()


def test_real_powers_and_floors_against_eigenvalues(device):
    """power= and floor= were unknown to gram.torch.matrix_power."""
    a = symmetric(draw(3, 6, 6, device=device)).detach()
    positive = definite(a)
    w, v = torch.linalg.eigh(positive)
    for power in (-0.12345, 0.4142, 2.7182818, -1 / 3):
        expected = v @ torch.diag_embed(w**power) @ v.mT
        torch.testing.assert_close(gt.matrix_power(positive, power=power), expected)
    w, v = torch.linalg.eigh(a)
    raised = (w.clamp(min=0) + 0.5).maximum(0.6 * (w[:, -1:].clamp(min=0) + 0.5))
    for words, power in (({"power": -0.3}, -0.3), ({}, -0.25)):
        expected = v @ torch.diag_embed(raised**power) @ v.mT
        found = gt.matrix_power(a, floor=0.6, ridge=0.5, **words)
        torch.testing.assert_close(found, expected)


def test_gradients_of_floors_at_multiple_eigenvalues():
    """Equal raised eigenvalues, and equal largest ones whose shares are one another's."""
    zero = torch.zeros(4, 4, dtype=torch.float64, requires_grad=True)
    for diagonal in ([1.0, 1.0, 1.0, 9.0], [-1.0, -1.0, 0.0, 4.0], [0.0, 0.0, 0.0, 0.5]):
        base = torch.diag(torch.tensor(diagonal, dtype=torch.float64))
        for power in (-0.7, 0.5, 1.3):

            def f(s, base=base, power=power):
                return gt.matrix_power(base + symmetric(s), power=power, floor=0.4)

            assert gradcheck(f, (zero,)), (diagonal, power)
    two = torch.diag(torch.tensor([0.0, 2.0, 2.0], dtype=torch.float64)).requires_grad_()
    trace = gt.matrix_power(two, power=1.5, floor=0.5).diagonal().sum()
    (g,) = torch.autograd.grad(trace, two)
    along = 1.5 * 2**0.5 + 0.5 * 1.5 * 1.0 / 2
    torch.testing.assert_close(g, torch.diag(torch.tensor([0.0, along, along]).double()))


def test_powers_and_floors_that_are_refused():
    a = definite(draw(3, 3))
    for words, message in (
        ({"power": 0.0}, "power is 0.0"),
        ({"power": 0.3, "numerator": 1}, "without numerator"),
        ({"floor": 0.1, "ridge": torch.ones(())}, "ridge is a tensor"),
        ({"floor": 2.0}, "floor is 2"),
    ):
        with pytest.raises(ValueError, match=message):
            gt.matrix_power(a, **words)
    (g,) = torch.autograd.grad(gt.matrix_power(a, power=0.314159).sum(), a, create_graph=True)
    with pytest.raises(RuntimeError, match="no autograd formula"):
        torch.autograd.grad(g.sum(), a)


def test_what_has_no_derivative_says_so():
    x = draw(4, 2)
    (grad,) = torch.autograd.grad(gt.cdist(x, p=float("inf")).sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="inf has no second derivative"):
        grad.sum().backward()
    with pytest.raises(NotImplementedError, match="has no gradient"):
        gt.kernel(x, output="weight").sum().backward()
    for options in ({"expression": "exp(-s)"}, {"outer_power": 1.0}):
        (grad,) = torch.autograd.grad(gt.kernel(x, **options).sum(), x, create_graph=True)
        with pytest.raises(NotImplementedError, match="no second derivative"):
            grad.square().sum().backward()
    s = definite(draw(3, 3))
    part = gt.eigh(s, vectors=False, select="largest", count=1)
    (grad,) = torch.autograd.grad(part.sum(), s, create_graph=True)
    with pytest.raises(RuntimeError, match="no autograd formula"):
        grad.sum().backward()
    assert not gt.median_distance(x).requires_grad
    with pytest.raises(ValueError, match="'value'"):
        gt.eigh(s, select="value")
    with pytest.raises(gram.LinAlgError):
        gt.solve_cholesky(-torch.eye(2), torch.ones(2))
    with pytest.raises(ValueError, match="columns"):
        gt.cdist(x, torch.ones(2, 3, dtype=x.dtype))


GAUSSIAN = ["gaussian", [1.0, 2.0, 1.0, 1.0, 1.0, 0.0, 3.0, 0.0], None, [0, 0], None, "distance"]
GAUSSIAN += [[""], [0.0], [""]]
LAPLACE = ["laplace", *GAUSSIAN[1:-1], ["", "p"]]


def operators(device):
    d = lambda *shape: draw(*shape, device=device)  # noqa: E731
    x, y, bandwidth, s = d(5, 3), d(4, 3), number(1.3, device), definite(d(2, 4, 4)).detach()
    a, b, c, z = d(5, 4), d(3, 5), d(2, 5), d(3, 4)
    plain = [t.detach() for t in (x, y, bandwidth)]
    s.requires_grad_()
    power = [torch.tensor([1.5, 2.5], dtype=torch.float64, device=device)]
    points = [t.detach() for t in (a, b, c, z)]
    return {
        "cdist": (x, y, None, 2.0, True),
        "kernel": (x, y, bandwidth, None, [], *GAUSSIAN, "value"),
        "kernel_vjp": (x, y, bandwidth, None, [], d(5, 4), *GAUSSIAN, ["x", "bandwidth"]),
        "kernel_matmul": (x, None, bandwidth, None, [], d(5, 2), *GAUSSIAN),
        "kernel_matmul_transposed": (x, None, bandwidth, None, [], d(5, 2), *GAUSSIAN),
        "kernel_matmul_vjp": (x, None, bandwidth, None, [], x, x, *GAUSSIAN, ["x", "bandwidth"]),
        "kernel_matmul_second": (
            *plain, None, [], *plain[:2], plain[0], None, plain[2], None, *GAUSSIAN,
        ),
        "cdist_grad": (a, b, c, z, None, 2.0),
        "cdist_grad_vjp": (a, b, c, z, d(2, 3, 4), None, 1.5),
        "cdist_grad_second": (*points, d(2, 3, 4).detach(), *points, 1.5),
        "agop": (a, b, c, z, None, 1.5, False, 0),
        "solve_cholesky": (s, d(4, 2), True),
        "solve_lu": (s, d(4, 2)),
        "eigh": (s, True, "all", 0, 0),
        "matrix_power": (s, -1, 4, "auto", True, 0.0),
        "matrix_real_power": (s, -0.3, "auto", True, 0.0, 0.1),
        "matrix_real_power_vjp": (s.detach(), d(4, 4).detach(), -0.3, True, 0.0, 0.1),
        "matrix_power_vjp": (s, d(4, 4), -1, 4, True, 0.0),
        "matrix_power_second": (s.detach(), plain[1] @ plain[1].mT, s.detach(), 1, 2, True, 0.0),
        "kron_matmul": (d(3, 6), [d(2, 3), d(3, 2)], "right", 1.0),
        "kron_matmul_vjp": (d(3, 6), [d(2, 3), d(3, 2)], d(3, 6), "right", 1.0),
        "kernel_number_vjp": (
            *plain, None, power, plain[0] @ plain[1].mT, *LAPLACE, ["p"],
        ),
        "kernel_matmul_number_vjp": (
            *plain, None, power, plain[0], plain[1], *LAPLACE, ["p"],
        ),
        "kron": ([d(3, 2), d(2, 3)],),
        "matmul_batched": (d(2, 3, 4), d(4, 3)),
        "syrk": (d(2, 3, 4), True),
        "median_distance": (plain[0], 2.0, True, 100, 0),
        "kernel_reduce": (
            x, y, bandwidth, None, [], y.detach(), y.detach()[:, 0], "softmax", 0.5, *GAUSSIAN,
        ),
        "kernel_reduce_vjp": (
            *plain, None, [], plain[0], plain[1], plain[1][:, 0], "softmax", 0.5, *GAUSSIAN,
            ["x", "v", "log_weights"],
        ),
        "nearest": (*plain[:2], 2, 2.0, False, None, None, None),
        "second_weight": (*plain, "laplace", [1.0, 2.0, 1.0, 1.0, 1.0, 0.0, 3.0]),
        "pair_slopes": (*plain[:2], *plain[:2], 1.5),
        "pair_sums": (*plain[:2], *plain[:2], a.detach(), a.detach(), 1.5),
    }  # fmt: skip


@needs_operators
@pytest.mark.parametrize("name", operators("cpu"))
def test_operators_are_what_pytorch_expects(name, device):
    arguments = operators(device)[name]
    try:
        torch.library.opcheck(getattr(torch.ops.gram, name).default, arguments)
    except Exception as e:
        if device == "cuda" and isinstance(e.__cause__, NotImplementedError):
            pytest.skip(str(e.__cause__))
        raise


@pytest.mark.parametrize("what", ["logsumexp", "softmax"])
@pytest.mark.parametrize("same", [False, True])
def test_reductions_have_the_gradients_of_the_matrix(what, same, device):
    x, y, v = (draw(*shape, device=device) for shape in ((7, 3), (5, 3), (5, 2)))
    y, v = (None, draw(7, 2, device=device)) if same else (y, v)
    logs = draw(v.shape[0], device=device)
    length, power = number(1.3, device), number(1.4, device)
    inputs = [x, *([] if same else [y]), v, logs, length, power]

    def reduce(f, x, *rest):
        y, (v, logs, length, power) = (None, rest) if same else (rest[0], rest[1:])
        options = {"bandwidth": length, "exponent": power, "regularization": 0.2}
        return f(x, y if same else y, v, logs, options)

    def lean(x, y, v, logs, options):
        v = {"v": v} if what == "softmax" else {}
        return gt.kernel_reduce(
            x, y, "lpq_laplace", what=what, scale=-1.5, log_weights=logs, **v, **options
        )

    def dense(x, y, v, logs, options):
        e = -1.5 * gt.kernel(x, y, "lpq_laplace", **options) + logs
        return torch.logsumexp(e, -1) if what == "logsumexp" else torch.softmax(e, -1) @ v

    got, wanted = reduce(lean, *inputs), reduce(dense, *inputs)
    torch.testing.assert_close(got, wanted)
    inputs = inputs if what == "softmax" else [t for t in inputs if t is not v]
    cotangent = torch.linspace(-1, 2, got.numel(), dtype=got.dtype, device=device)
    cotangent = cotangent.reshape(got.shape)
    for a, b in zip(
        torch.autograd.grad(got, inputs, cotangent),
        torch.autograd.grad(wanted, inputs, cotangent),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


def test_gradients_of_soft_minima(device):
    x, y, v, logs = (draw(*shape, device=device) for shape in ((4, 3), (5, 3), (5,), (2, 5)))
    f = lambda what, *v: lambda x, y, logs, *v: gt.kernel_reduce(  # noqa: E731
        x, y, "gaussian", what=what, v=v[0] if v else None, scale=-2.0, log_weights=logs
    )
    assert torch.autograd.gradcheck(f("logsumexp"), (x, y, logs))
    assert torch.autograd.gradcheck(f("softmax"), (x, y, logs, v))
    assert torch.autograd.gradgradcheck(f("logsumexp"), (x, y, logs))
    assert torch.autograd.gradgradcheck(f("softmax"), (x, y, logs, v))
    of_text = gt.kernel_reduce(x, y, expression="exp(-s)", what="logsumexp")
    (slope,) = torch.autograd.grad(of_text.sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="an expression has no second derivative"):
        torch.autograd.grad(slope.sum(), x)


def test_blocks_of_rows_have_the_gradients_of_all(monkeypatch, device):
    x, y, v = (draw(*shape, device=device) for shape in ((9, 3), (5, 3), (5, 2)))
    out = lambda: gt.kernel_reduce(x, y, what="softmax", v=v).square().sum()  # noqa: E731
    whole = torch.autograd.grad(out(), (x, y, v))
    monkeypatch.setattr("gram._torch_products._BLOCK", 10)
    for again in (False, True):  # by the library, and in blocks of rows
        found = torch.autograd.grad(out(), (x, y, v), create_graph=again)
        assert found[0].requires_grad == again
        for a, b in zip(found, whole, strict=True):
            torch.testing.assert_close(a, b)


def test_places_have_no_gradients(device):
    x = draw(6, 2, device=device)
    k = gt.kernel(x, None, "linear")
    for what, wanted in (("argmin", k.argmin(-1)), ("argmax", k.argmax(-1))):
        places = gt.kernel_reduce(x, kernel="linear", what=what)
        assert places.dtype == torch.int64 and not places.requires_grad
        torch.testing.assert_close(places, wanted)
    least = gt.kernel_reduce(x, kernel="linear", what="min")
    torch.testing.assert_close(least, k.detach().amin(-1))
    assert not least.requires_grad


def likelihood(x, y, length):
    k = gt.kernel(x, kernel="gaussian", bandwidth=length, regularization=0.1)
    return (y * gt.solve_cholesky(k, y)).sum() + gt.eigh(k)[0].log().sum()


@needs_operators
def test_compile_without_graph_breaks(device):
    if device == "cuda":
        pytest.skip("eigh of this backend may not be there")
    x, y, length = draw(20, 3), draw(20).detach(), number(1.5)
    compiled = torch.compile(likelihood, fullgraph=True, backend="aot_eager")
    eager = torch.autograd.grad(likelihood(x, y, length), (x, length))
    traced = torch.autograd.grad(compiled(x, y, length), (x, length))
    for a, b in zip(eager, traced, strict=True):
        torch.testing.assert_close(a, b)
    everything = torch.compile(
        lambda x, v: (
            gt.cdist(x, p=1.3).sum()
            + gt.kernel_matmul(x, v=v).sum()
            + gt.kernel(x, expression="exp(-s / a)", parameters={"a": 2.0}).sum()
            + gt.kron_matmul(v[None], [torch.ones(4, 2, dtype=v.dtype)] * 2).sum()
            + gt.median_distance(x)
        ),
        fullgraph=True,
        backend="aot_eager",
    )
    assert torch.isfinite(everything(draw(16, 3), draw(16)))


MAPPED = {
    "cdist": (lambda x, y: gt.cdist(x, y, 1.5), (4, 3), (5, 3)),
    "kernel": (lambda x, b: gt.kernel(x, bandwidth=b.square().sum() + 1), (4, 3), ()),
    "kernel_batched": (lambda x, y: gt.kernel(x, y), (4, 3), (2, 5, 3)),
    "kernel_matmul": (lambda x, v: gt.kernel_matmul(x, v=v), (4, 3), (4, 2)),
    "cdist_grad": (lambda a, b: gt.cdist_grad(a, b, b[:1], b[:, :4], 2), (6, 4), (3, 6)),
    "solve_cholesky": (lambda s, b: gt.solve_cholesky(definite(s), b), (4, 4), (4, 2)),
    "solve_lu": (gt.solve_lu, (4, 4), (4,)),
    "eigh": (lambda s, b: gt.eigh(symmetric(s))[0] * b, (4, 4), ()),
    "matrix_power": (lambda s, b: gt.matrix_power(definite(s)) * b, (4, 4), ()),
    "kron_matmul": (lambda x, f: gt.kron_matmul(x, [f, f.mT]), (2, 6), (2, 3)),
    "median_distance": (lambda x, b: gt.median_distance(x) + b, (4, 3), ()),
    "nearest": (lambda x, y: gt.nearest(x, y, count=2)[0], (4, 3), (5, 3)),
    "kernel_reduce": (
        lambda x, v: gt.kernel_reduce(x, what="softmax", v=v, scale=3.0), (4, 3), (4, 2),
    ),
}  # fmt: skip


@needs_operators
@pytest.mark.parametrize("dims", [(0, 0), (1, None), (None, 0)])
@pytest.mark.parametrize("name", MAPPED)
def test_vmap(name, dims):
    torch.manual_seed(0)
    f, *shapes = MAPPED[name]
    inputs = []
    for dim, shape in zip(dims, shapes, strict=True):
        mapped = shape if dim is None else (*shape[:dim], 3, *shape[dim:])
        inputs.append(draw(*mapped).detach())
    got = torch.func.vmap(f, in_dims=dims)(*inputs)
    for i in range(3):
        item = [t if d is None else t.select(d, i) for t, d in zip(inputs, dims, strict=True)]
        torch.testing.assert_close(got[i], f(*item))


@needs_operators
@pytest.mark.parametrize(
    "name", ["cdist", "kernel", "kernel_matmul", "cdist_grad", "solve_cholesky", "kron_matmul"]
)
def test_vmap_over_gradients(name):
    """The Jacobian from one gradient under vmap is that from one an output."""
    f, *shapes = MAPPED[name]
    inputs = tuple(draw(*shape) for shape in shapes)
    out = f(*inputs)
    rows = torch.eye(out.numel(), dtype=out.dtype).reshape(-1, *out.shape)
    got = torch.func.vmap(lambda g: torch.autograd.grad(out, inputs, g, retain_graph=True))(rows)
    expected = torch.autograd.functional.jacobian(f, inputs)
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a.reshape(b.shape), b)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_gradients_of_the_nearest_are_those_of_their_distances(p, device):
    x, y = draw(6, 3, device=device), draw(9, 3, device=device)
    distances, indices = gt.nearest(x, y, count=4, p=p)
    full = torch.cdist(x, y, p).gather(1, indices)
    torch.testing.assert_close(distances, full)
    weights = draw(6, 4, device=device).detach()
    got = torch.autograd.grad((weights * distances).sum(), (x, y))
    expected = torch.autograd.grad((weights * full).sum(), (x, y))
    torch.testing.assert_close(got, expected)
    missing = gt.nearest(x, y, count=12, p=p)
    assert torch.isinf(missing[0][:, 9:]).all() and (missing[1][:, 9:] == -1).all()
    assert all(g.isfinite().all() for g in torch.autograd.grad(missing[0][:, :9].sum(), (x, y)))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "metric",
    "minkowski seuclidean cosine correlation canberra braycurtis jensenshannon kullback-leibler "
    "hellinger chi2 haversine nan-euclidean".split(),
)
def test_gradients_of_the_nearest_by_a_metric(metric, weighted, device):
    if (metric == "haversine" and weighted) or (metric == "seuclidean" and not weighted):
        pytest.skip("no such weights")
    k = 2 if metric == "haversine" else 4
    draws = [torch.rand(m, k, dtype=torch.float64, device=device) + 0.1 for m in (5, 8)]
    weights = torch.linspace(0.5, 2, k, dtype=torch.float64, device=device) if weighted else None
    x, y = (t.requires_grad_() for t in draws)
    options = {"count": 3, "metric": metric, "weights": weights}
    plain = gt.nearest(x.detach(), y.detach(), **options)
    distances, indices = gt.nearest(x, y, **options)
    assert torch.equal(indices, plain[1])
    torch.testing.assert_close(distances.detach(), plain[0])
    assert torch.autograd.gradcheck(lambda x, y: gt.nearest(x, y, **options)[0], (x, y))


def test_gradients_of_equal_rows_by_a_metric(device):
    x = (torch.rand(6, 4, dtype=torch.float64, device=device) + 0.1).requires_grad_()
    for metric in ("canberra", "jensenshannon", "hellinger", "chi2", "nan-euclidean"):
        (grad,) = torch.autograd.grad(gt.nearest(x, count=2, metric=metric)[0].sum(), x)
        assert grad.isfinite().all()
    assert not gt.nearest(x, count=2, metric="hamming")[0].requires_grad


def test_views_and_lazily_negated_tensors(device):
    x = torch.randn(8, 6, dtype=torch.float64, device=device)
    views = x[::2, ::3].mT, x.T[:, :3], x.expand(2, 8, 6)
    for view in views:
        expected = gram.cdist(view.cpu().numpy())
        np.testing.assert_allclose(gt.cdist(view).cpu().numpy(), expected, atol=1e-12)
    negated = torch._neg_view(x)
    torch.testing.assert_close(gt.kernel(negated, x, "linear"), -(x @ x.mT))
    with pytest.raises((TypeError, ValueError)):
        gt.cdist((x * 8).long())


def test_tensors_without_data():
    meta = torch.empty(8, 6, device="meta")
    if HAS_OPERATORS:
        assert gt.cdist(meta).shape == (8, 8)
        return
    with pytest.raises(NotImplementedError, match="gram.torch.cdist: .* PyTorch 2.4 or newer"):
        gt.cdist(meta)
    with torch._subclasses.FakeTensorMode(), pytest.raises(NotImplementedError, match="2.4"):
        gt.cdist(torch.ones(2, 2))
    with pytest.raises(NotImplementedError, match="per_sample_norms: needs PyTorch 2.4"):
        gt.per_sample_norms(torch.nn.Linear(2, 1), None, torch.ones(1, 2), torch.ones(1))
