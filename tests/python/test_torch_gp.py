"""test_torch_gp.py - determinants and likelihoods of gram.torch, and their gradients

Skipped without PyTorch 1.13.
"""

import json
import math
import os
import pathlib
import subprocess
import sys

import gram
import pytest

torch = pytest.importorskip("torch", minversion="1.13.0a0")
gt = pytest.importorskip("gram.torch")
from torch.autograd import gradcheck  # noqa: E402

DEVICES = ["cpu"]
if torch.cuda.is_available() and len(gram.devices()) > 1:
    DEVICES.append("cuda")
SOURCE = pathlib.Path(os.environ.get("GRAM_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
TIGHT = {"probes": 200, "steps": 300, "tolerance": 1e-7}


def check_estimates(found, exact):
    """Gradients to numbers are means over many points, those to points have the noise of each."""
    for one, other in zip(found, exact, strict=True):
        if other.dim() == 2:
            cosine = (one * other).sum() / (one.norm() * other.norm())
            assert cosine.item() > 0.7
        else:
            assert ((one - other).norm() < 0.05 * other.norm() + 0.2).item()


@pytest.fixture(params=DEVICES)
def device(request):
    torch.manual_seed(0)
    return request.param


def draw(*shape, device="cpu", dtype=torch.float64):
    return torch.randn(shape, dtype=torch.float64).to(device, dtype).requires_grad_()


def number(value, device="cpu"):
    return torch.tensor(value, dtype=torch.float64, device=device, requires_grad=True)


def density(x, y, lengths, noise, amplitude):
    """By PyTorch alone, of the Matern kernel with nu = 5/2."""
    d = torch.cdist(x / lengths, x / lengths) * math.sqrt(5)
    k = (1 + d + d * d / 3) * torch.exp(-d)
    a = amplitude * k + noise * torch.eye(len(x), dtype=x.dtype, device=x.device)
    columns = y.reshape(len(x), -1)
    quadratic = (columns * torch.linalg.solve(a, columns)).sum()
    logdet = columns.shape[1] * (torch.logdet(a) + len(x) * math.log(2 * math.pi))
    return -0.5 * (quadratic + logdet)


def test_gradients_of_a_factorisation(device):
    inputs = draw(6, 2, device=device), draw(6, 2, device=device)
    numbers = draw(2, device=device).abs().detach().add(0.5).requires_grad_()
    scalars = number(0.3, device), number(1.7, device)

    def likelihood(x, y, lengths, noise, amplitude):
        return gt.log_marginal_likelihood(
            x, y, "matern52", lengths=lengths, noise=noise, amplitude=amplitude
        )

    assert gradcheck(likelihood, (*inputs, numbers, *scalars))
    torch.testing.assert_close(
        likelihood(*inputs, numbers, *scalars), density(*inputs, numbers, *scalars)
    )

    def logdet(x, bandwidth, r, alpha):
        return gt.kernel_logdet(
            x, "rational-quadratic", bandwidth=bandwidth, regularization=r, alpha=alpha
        )

    assert gradcheck(logdet, (inputs[0], number(1.3, device), *scalars))


@pytest.mark.parametrize("targets", [0, 2])
def test_a_likelihood_by_products(targets, device):
    x = draw(150, 3, device=device)
    y = draw(150, targets, device=device) if targets else draw(150, device=device)
    lengths = torch.tensor([1.0, 1.5, 2.5], dtype=torch.float64, device=device)
    given = [x, y, lengths.requires_grad_(), number(0.5, device), number(2.0, device)]
    report = {}
    found = gt.log_marginal_likelihood(
        x, y, "matern52", lengths=given[2], noise=given[3], amplitude=given[4], method="cg",
        report=report, **TIGHT,
    )  # fmt: skip
    exact = density(*given)
    columns = max(1, targets)
    assert abs(found - exact).item() < 3 * columns * report["standard_error"] < 3 * columns
    assert report["method"] == "cg" and report["solve"]["residual"] <= 1e-7
    of_exact = torch.autograd.grad(exact, given)
    of_found = torch.autograd.grad(found, given)
    check_estimates(of_found, of_exact)
    torch.testing.assert_close(of_found[1], of_exact[1], rtol=1e-4, atol=1e-5)


def test_a_loose_solve_has_an_error_of_second_order(device):
    x, y = draw(300, 2, device=device).detach(), draw(300, device=device).detach()
    options = {"kernel": "gaussian", "noise": 0.05, "method": "cg", "rank": 20}
    loose, tight = (
        gt.log_marginal_likelihood(x, y, **options, tolerance=t, probes=8).item()
        for t in (1e-2, 1e-9)
    )
    assert abs(loose - tight) < 0.02 * abs(tight)


def test_determinants_by_products(device):
    x = draw(120, 3, device=device)
    bandwidth, r, alpha = (number(v, device) for v in (1.2, 3.0, 2.0))
    given = x, bandwidth, r, alpha
    words = {"kernel": "rational-quadratic", "bandwidth": bandwidth, "regularization": r}
    exact = gt.kernel_logdet(x, alpha=alpha, **words)
    torch.testing.assert_close(exact, gt.kernel(x, alpha=alpha, **words).logdet())
    report = {}
    found = gt.kernel_logdet(x, alpha=alpha, method="cg", report=report, **TIGHT, **words)
    assert abs(found - exact).item() < 3 * report["standard_error"] < 3
    again = gt.kernel_logdet(x, alpha=alpha, method="cg", seed=5, **TIGHT, **words)
    assert again.item() != found.item()
    check_estimates(torch.autograd.grad(found, given), torch.autograd.grad(exact, given))


@pytest.mark.parametrize("method", ["cholesky", "cg"])
def test_single_precision_and_nothing(method, device):
    x, y = (draw(*s, device=device, dtype=torch.float32) for s in ((80, 3), (80,)))
    options = {"kernel": "gaussian", "noise": 0.3, "method": method}
    value = gt.log_marginal_likelihood(x, y, **options)
    assert value.dtype == torch.float32 and value.shape == ()
    grads = torch.autograd.grad(value, (x, y))
    assert all(g.dtype == torch.float32 and g.isfinite().all() for g in grads)
    assert gt.log_marginal_likelihood(x[:0], y[:0], **options).item() == 0
    assert gt.kernel_logdet(x[:0], method=method).item() == 0


def test_training_finds_the_length(device):
    x = torch.linspace(0, 20, 200, dtype=torch.float64, device=device)[:, None]
    y = torch.sin(x[:, 0])
    logs = torch.tensor([-1.0, -1.0], dtype=torch.float64, device=device, requires_grad=True)
    adam = torch.optim.Adam([logs], lr=0.2)
    values = []
    for _ in range(25):
        adam.zero_grad()
        length, noise = logs.exp()
        loss = -gt.log_marginal_likelihood(
            x, y, "gaussian", bandwidth=length, noise=noise, method="cg", probes=8
        )
        loss.backward()
        adam.step()
        values.append(loss.item())
    assert values[-1] < values[0] - 100 and 0.8 < logs[0].exp().item() < 4


def test_what_is_refused():
    x, y = torch.zeros(3, 2), torch.zeros(3)
    wrong = {
        "x is torch.float16 of shape (3, 2)": lambda: gt.kernel_logdet(x.half()),
        "shape (2, 3, 2), expected a matrix": lambda: gt.kernel_logdet(x.expand(2, 3, 2)),
        "method is 'lu'": lambda: gt.kernel_logdet(x, method="lu"),
        "bandwidth has the shape (2,)": lambda: gt.kernel_logdet(x, bandwidth=torch.ones(2)),
        "y is torch.float32 of shape (2,)": lambda: gt.log_marginal_likelihood(x, y[:2], noise=1),
        "noise has the shape (2,)": lambda: gt.log_marginal_likelihood(
            x, y, noise=torch.ones(2), bandwidth=1.0
        ),
        "regularization is given": lambda: gt.log_marginal_likelihood(
            x, y, noise=1, regularization=1
        ),
    }
    for words, call in wrong.items():
        with pytest.raises(ValueError) as e:
            call()
        assert words in str(e.value)
    with pytest.raises(gram.LinAlgError, match="leading minor of order 1 is not positive"):
        gt.kernel_logdet(x, regularization=-2.0)
    with pytest.raises(gram.LinAlgError, match="not positive definite"):
        gt.kernel_logdet(x, regularization=-2.0, method="cg")


def test_the_script_that_measures():
    command = [sys.executable, SOURCE / "bench" / "gp.py", "60", "90", "--repeat", "1", "--exact"]
    for method, bound in (("cholesky", 1e-4), ("cg", 0.5)):
        more = ["--libraries", "gram,none", "--method", method]
        done = subprocess.run([*command, *more], capture_output=True, text=True, check=True)
        told = [json.loads(line) for line in done.stdout.splitlines()]
        assert [line["n"] for line in told] == [60, 60, 90, 90]
        assert all("failed" in line for line in told[1::2])
        assert all(line["error"]["gradients"] < bound for line in told[::2])
