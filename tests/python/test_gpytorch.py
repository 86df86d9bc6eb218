"""test_gpytorch.py - gram.gpytorch: the numbers of GPyTorch's own kernels, and no stored matrix

Skipped without GPyTorch 1.14.
"""

import pytest

torch = pytest.importorskip("torch", minversion="2.4")
gpytorch = pytest.importorskip("gpytorch", minversion="1.14")
from linear_operator import operators, settings  # noqa: E402

gg = pytest.importorskip("gram.gpytorch")
import gram.torch  # noqa: E402


def draw(*shape):
    torch.manual_seed(sum(shape))
    return torch.randn(shape, dtype=torch.float64)


PAIRS = {
    "rbf": (gg.RBFKernel, gpytorch.kernels.RBFKernel, {}),
    "rbf of every coordinate": (gg.RBFKernel, gpytorch.kernels.RBFKernel, {"ard_num_dims": 3}),
    "matern 1/2": (gg.MaternKernel, gpytorch.kernels.MaternKernel, {"nu": 0.5}),
    "matern 3/2": (gg.MaternKernel, gpytorch.kernels.MaternKernel, {"nu": 1.5}),
    "matern 5/2": (gg.MaternKernel, gpytorch.kernels.MaternKernel, {"nu": 2.5}),
}


@pytest.fixture(params=PAIRS)
def pair(request):
    ours, theirs, options = PAIRS[request.param]
    kernels = ours(**options).double(), theirs(**options).double()
    for kernel in kernels:
        kernel.lengthscale = torch.linspace(0.8, 1.3, kernel.lengthscale.shape[-1])
    return kernels


def test_points_far_from_the_origin_keep_their_digits():
    """In float32, x / lengthscale alone rounded away what tells them apart."""
    x = (torch.rand(6, 3) * 2 + 10000).requires_grad_()
    for ours, theirs in (
        (gg.RBFKernel(ard_num_dims=3), gpytorch.kernels.RBFKernel(ard_num_dims=3)),
        (gg.MaternKernel(ard_num_dims=3), gpytorch.kernels.MaternKernel(ard_num_dims=3)),
    ):
        for kernel in (ours, theirs.double()):
            kernel.lengthscale = torch.tensor([[0.7, 1.1, 1.9]])
        found = ours(x).to_dense()
        expected = theirs(x.double()).to_dense()
        torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
        grads = [
            torch.autograd.grad(k.square().sum(), of.raw_lengthscale)[0].double()
            for k, of in ((found, ours), (expected, theirs))
        ]
        torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-4)


def test_an_operator_with_lengths():
    x, lengths = draw(6, 3), torch.tensor([0.7, 1.1, 1.9]).double().requires_grad_()
    operator = gg.KernelOperator(x, x, kernel="matern52", lengths=lengths)
    expected = gram.torch.kernel(x, kernel="matern52", lengths=lengths)
    v = draw(6, 2)
    torch.testing.assert_close(operator @ v, expected @ v)
    torch.testing.assert_close(operator[1:3].to_dense(), expected[1:3])
    ours = torch.autograd.grad((operator @ v).square().sum(), lengths)[0]
    theirs = torch.autograd.grad((expected @ v).square().sum(), lengths)[0]
    torch.testing.assert_close(ours, theirs)


def both(pair, f):
    """What f finds of both kernels, and the gradients of its sum to lengthscale and points."""
    found = []
    for kernel in pair:
        x, y = draw(6, 3).requires_grad_(), draw(5, 3).requires_grad_()
        value = f(kernel, x, y)
        kernel.zero_grad()
        value.sum().backward()
        grads = [kernel.raw_lengthscale.grad, x.grad, y.grad]
        found.append([value.detach(), *[g for g in grads if g is not None]])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-7)


def test_kernels_are_those_of_gpytorch(pair):
    v = draw(5, 2)
    both(pair, lambda kernel, x, y: kernel(x, y).to_dense().square())
    both(pair, lambda kernel, x, y: (kernel(x, y) @ v).square())
    both(pair, lambda kernel, x, y: kernel(x, y)[1:4, ::2].to_dense())
    both(pair, lambda kernel, x, y: kernel(x[:5], y).mT @ v)
    both(pair, lambda kernel, x, y: (kernel(x[:5], y, diag=True)).square())
    x = draw(2, 6, 3)
    ours, theirs = (kernel(x) @ draw(6, 2) for kernel in pair)
    torch.testing.assert_close(ours, theirs)


class Model(gpytorch.models.ExactGP):
    def __init__(self, x, y, kernel):
        super().__init__(x, y, gpytorch.likelihoods.GaussianLikelihood())
        self.mean = gpytorch.means.ConstantMean()
        self.kernel = kernel
        self.double()
        self.likelihood.noise = 0.2

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


def likelihood_and_gradients(model):
    model.train()
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    value = mll(model(*model.train_inputs), model.train_targets)
    model.zero_grad()
    value.backward()
    return [value.detach(), *[p.grad for p in model.parameters()]]


@pytest.mark.parametrize("largest", [800, 0], ids=["cholesky", "conjugate gradients"])
def test_a_gaussian_process(pair, largest):
    """The probes of the stochastic logarithm of the determinant are the same for both."""
    x, y, new = draw(30, 3), draw(30), draw(7, 3)
    found = []
    for kernel in pair:
        model = Model(x, y, gpytorch.kernels.ScaleKernel(kernel))
        torch.manual_seed(0)
        with settings.max_cholesky_size(largest), settings.cg_tolerance(1e-8):
            with settings.num_trace_samples(5):
                learned = likelihood_and_gradients(model)
            model.eval()
            with torch.no_grad():
                p = model.likelihood(model(new))
                found.append([*learned, p.mean, p.variance])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_products_store_no_matrix(monkeypatch):
    """Where it would be larger than is allowed; single elements and diagonals are made anew."""
    plain = gram.torch.kernel

    def refuse(x, y=None, *args, **options):
        assert y is not None and 1 in (x.shape[-2], y.shape[-2]), "the matrix is stored"
        return plain(x, y, *args, **options)

    monkeypatch.setattr(gram.torch, "kernel", refuse)
    monkeypatch.setattr(gg.max_stored_bytes, "_global_value", 50 * 50 * 8 - 1)
    kernel = gg.RBFKernel().double()
    x = draw(50, 2).requires_grad_()
    (kernel(x) @ draw(50, 3)).square().sum().backward()
    assert torch.isfinite(x.grad).all() and kernel.raw_lengthscale.grad.isfinite().all()
    with torch.no_grad(), settings.max_cholesky_size(0):
        b = draw(50)
        a = kernel(x).add_diagonal(torch.tensor(1.0, dtype=torch.float64))
        with settings.max_preconditioner_size(0), settings.cg_tolerance(1e-10):
            found = a.solve(b)
        dense = torch.exp(-((x[:, None] - x[None]) ** 2).sum(-1) / 2 / kernel.lengthscale**2)
        expected = torch.linalg.solve(dense + torch.eye(50), b)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_samples_of_the_prior():
    x = draw(7, 2)
    operator = gg.KernelOperator(x, x, kernel="matern52", bandwidth=1.3)
    found = operator.zero_mean_mvn_samples(3000)
    assert found.shape == (3000, 7)
    products = found[:, :, None] * found[:, None]
    errors = products.std(0) / 3000**0.5
    assert ((products.mean(0) - operator.to_dense()).abs() <= 5.5 * errors).all()
    torch.manual_seed(1)
    first = operator.zero_mean_mvn_samples(2)
    torch.manual_seed(1)
    assert torch.equal(operator.zero_mean_mvn_samples(2), first)
    recorded = gg.KernelOperator(*2 * [x.clone().requires_grad_()], kernel="matern52")
    assert recorded.zero_mean_mvn_samples(2).requires_grad


def test_small_matrices_are_stored():
    """A step of training on them is then what GPyTorch does with its own kernels."""
    x, other = draw(6, 2), draw(4, 2)
    kernel = gg.MaternKernel(nu=1.5).double()
    theirs = gpytorch.kernels.MaternKernel(nu=1.5).double()
    for second in (None, other):
        stored = kernel(x, second).evaluate_kernel()
        assert isinstance(stored, operators.DenseLinearOperator)
        torch.testing.assert_close(stored.to_dense(), theirs(x, second).to_dense())
        with gg.max_stored_bytes(stored.numel() * 8 - 1):
            made = kernel(x, second).evaluate_kernel()
        assert isinstance(made, gg.KernelOperator)
        torch.testing.assert_close(made.to_dense(), stored.to_dense())


def test_symmetric_products_take_one_set(monkeypatch):
    """Where no gradient is asked for: half of the work."""
    seen, plain = [], gram.torch.kernel_matmul
    note = lambda x, y, **options: (seen.append(y is None), plain(x, y, **options))[1]  # noqa: E731
    monkeypatch.setattr(gram.torch, "kernel_matmul", note)
    x = draw(5, 2)
    matrix = gg.KernelOperator(x, x, kernel="laplace")
    with gg.max_stored_bytes(0):
        torch.testing.assert_close(matrix @ draw(5), gram.torch.kernel(x) @ draw(5))
        assert seen == [True]
        gg.KernelOperator(x, x.clone(), kernel="laplace") @ draw(5)
        assert seen == [True, False]


def count_kernels(monkeypatch):
    """The shapes of the matrices that gram.torch.kernel is asked for."""
    seen, plain = [], gram.torch.kernel

    def note(x, y=None, *args, **options):
        found = plain(x, y, *args, **options)
        seen.append(tuple(found.shape))
        return found

    monkeypatch.setattr(gram.torch, "kernel", note)
    return seen


def test_a_small_matrix_is_made_once(monkeypatch):
    seen = count_kernels(monkeypatch)
    x, v = draw(6, 2), draw(6, 2)
    matrix = gg.KernelOperator(x, x, kernel="gaussian")
    for _ in range(3):
        torch.testing.assert_close(matrix._matmul(v), torch.exp(-torch.cdist(x, x) ** 2 / 2) @ v)
    assert seen == [(6, 6)]  # of all products of a solve
    x.requires_grad_()
    (gg.KernelOperator(x, x, kernel="gaussian") @ v).sum().backward()
    assert seen == [(6, 6)] * 2  # of another operator, once too
    torch.testing.assert_close(
        x.grad, torch.autograd.grad((gram.torch.kernel(x, kernel="gaussian") @ v).sum(), x)[0]
    )


@pytest.mark.parametrize("name", ["gaussian", "matern32", "laplace", "polynomial"])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_rows_for_pivoted_cholesky_are_no_batches_of_tiny_matrices(monkeypatch, name, batch):
    x, y = draw(*batch, 7, 3).requires_grad_(), (draw(*batch, 7, 3) + 0.3).requires_grad_()
    rows, columns = torch.tensor([4, 4, 4, 0, 6]), torch.tensor([0, 2, 4, 6, 6])
    index = (torch.tensor([0, 1, 1, 0, 1]), rows, columns) if batch else (rows, columns)
    seen = count_kernels(monkeypatch)
    for other in (y, x):
        matrix = gg.KernelOperator(x, other, kernel=name)
        wanted = gram.torch.kernel(x, other, name)
        seen.clear()
        for f in (lambda k: k[index], lambda k: k.diagonal(dim1=-1, dim2=-2)):
            a, b = f(matrix), f(wanted)
            torch.testing.assert_close(a, b)
            if a.requires_grad:
                grads = [torch.autograd.grad(t.square().sum(), [x, other], retain_graph=True)
                         for t in (a, b)]  # fmt: skip
                torch.testing.assert_close(*grads)
        assert name == "polynomial" or all(len(shape) == 2 for shape in seen), seen


@pytest.mark.parametrize("batch", [(), (2,)])
def test_one_set_has_one_gradient(monkeypatch, batch):
    """The sum of those to both sides is found in one pass."""
    x, left, right = draw(*batch, 6, 3).requires_grad_(), draw(*batch, 6, 2), draw(*batch, 6, 2)
    matrix = gg.KernelOperator(x, x, kernel="matern52")
    found = matrix._bilinear_derivative(left, right)
    loss = (left * (gram.torch.kernel(x, x, "matern52") @ right)).sum()
    torch.testing.assert_close(found[0], torch.autograd.grad(loss, x)[0])
    assert found[1] is None
    other = draw(*batch, 5, 3).requires_grad_()
    found = gg.KernelOperator(x, other, kernel="matern52")._bilinear_derivative(
        left, right[..., :5, :]
    )
    loss = (left * (gram.torch.kernel(x, other, "matern52") @ right[..., :5, :])).sum()
    torch.testing.assert_close(found, torch.autograd.grad(loss, (x, other)))


def test_laplace_kernel():
    kernel = gg.LaplaceKernel(p=1, exponent=0.7).double()
    x, y = draw(6, 3), draw(5, 3)
    expected = torch.exp(-((torch.cdist(x, y, p=1) / kernel.lengthscale) ** 0.7))
    torch.testing.assert_close(kernel(x, y).to_dense(), expected)


@pytest.mark.parametrize("batch", [(), (2,)])
def test_kronecker_operator(batch):
    factors = [draw(*batch, 2, 3).requires_grad_(), draw(4, 4).requires_grad_()]
    ours = gg.KroneckerOperator(*factors)
    theirs = operators.KroneckerProductLinearOperator(*factors)
    for f in (
        lambda k: k @ draw(12, 2),
        lambda k: k @ (draw(2, 12, 1) if batch else draw(12)),
        lambda k: k.mT @ draw(8, 2),
        lambda k: k.to_dense(),
        lambda k: k[..., :3, 4:].to_dense(),
    ):
        a, b = f(ours), f(theirs)
        torch.testing.assert_close(a, b)
        grads = [torch.autograd.grad(t.square().sum(), factors) for t in (a, b)]
        torch.testing.assert_close(*grads)
    square = [s @ s.mT + torch.eye(s.shape[-2]) for s in (draw(3, 3), draw(4, 4))]
    ours, theirs = gg.KroneckerOperator(*square), operators.KroneckerProductLinearOperator(*square)
    torch.testing.assert_close(ours.solve(draw(12, 2)), theirs.solve(draw(12, 2)))
    torch.testing.assert_close(ours.logdet(), theirs.logdet())


def test_a_grid():
    axes = [torch.linspace(0, 1, n, dtype=torch.float64) for n in (4, 5)]
    found = []
    for on_grid in (True, False):
        kernel = gg.GridKernel([gg.RBFKernel(), gg.MaternKernel()], axes).double()
        points = kernel.points()
        if not on_grid:
            monkey = pytest.MonkeyPatch()
            monkey.setattr(kernel, "points", lambda: points + 1)
        assert isinstance(kernel(points).evaluate_kernel(), gg.KroneckerOperator) == on_grid
        model = Model(points, draw(20), kernel)
        learned = likelihood_and_gradients(model)
        model.eval()
        with torch.no_grad():
            p = model(draw(3, 2))
        found.append([*learned, p.mean, p.variance])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(kernel(points, diag=True), torch.ones(20, dtype=torch.float64))


@pytest.mark.parametrize("method", ["cholesky", "cg"])
@pytest.mark.parametrize("scaled", [False, True])
def test_an_objective_by_the_same_solves(method, scaled):
    """That of GPyTorch by a factorisation, with its gradients and priors."""
    x, y, found = draw(60, 3), draw(60), []
    options = {"method": method, "probes": 400, "tolerance": 1e-8}
    for mll in (
        lambda *parts: gg.MarginalLogLikelihood(*parts, **options),
        gpytorch.mlls.ExactMarginalLogLikelihood,
    ):
        kernel = gg.MaternKernel(nu=2.5, ard_num_dims=3)
        kernel.register_prior("p", gpytorch.priors.GammaPrior(2.0, 1.0), "lengthscale")
        model = Model(x, y, gpytorch.kernels.ScaleKernel(kernel) if scaled else kernel)
        value = mll(model.likelihood, model)(model(x), y)
        value.backward()
        found.append([value.detach(), *[p.grad for p in model.parameters()]])
    close = 1e-6 if method == "cholesky" else 0.03
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=close, atol=close)


def test_what_is_refused():
    x = draw(3, 1)
    model = Model(x, draw(3), gpytorch.kernels.LinearKernel())
    with pytest.raises(ValueError, match="the covariance is that of LinearKernel"):
        gg.MarginalLogLikelihood(model.likelihood, model)(model(x), draw(3))
    with pytest.raises(TypeError, match="bandwidth is a tensor"):
        gg.KernelOperator(x, x, bandwidth=torch.ones(1))
    with pytest.raises(ValueError, match="nu is 2"):
        gg.MaternKernel(nu=2)
    with pytest.raises(ValueError, match="one kernel per axis"):
        gg.GridKernel([], [])
    with pytest.raises(NotImplementedError, match="last_dim_is_batch"):
        gg.RBFKernel().forward(x, x, last_dim_is_batch=True)
