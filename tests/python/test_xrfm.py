"""test_xrfm.py - xRFM, unchanged, on gram.compat.kermac: on every device

Skipped without xrfm (PyPI) and PyTorch.
"""

import gram
import pytest

torch = pytest.importorskip("torch", minversion="2.4")
from gram.compat import kermac  # noqa: E402

kermac.install()  # before xrfm looks for kermac
pytest.importorskip("xrfm")
from xrfm import xRFM  # noqa: E402
from xrfm.rfm_src import kernels  # noqa: E402

DEVICES = ["cpu"]
if torch.cuda.is_available() and len(gram.devices()) > 1:
    DEVICES.append("cuda")
# What they compute with kermac, and what they compute with PyTorch.
PAIRS = {
    "l1": (
        kernels.KermacProductLaplaceKernel(bandwidth=3.0, exponent=1.0),
        kernels.ProductLaplaceKernel(bandwidth=3.0, exponent=1.0),
    ),
    "product, 1.4": (
        kernels.KermacProductLaplaceKernel(bandwidth=3.0, exponent=1.4),
        kernels.ProductLaplaceKernel(bandwidth=3.0, exponent=1.4),
    ),
    "lpq": (
        kernels.KermacLpqLaplaceKernel(bandwidth=3.0, q=1.0, p=1.5),
        kernels.LpqLaplaceKernel(bandwidth=3.0, q=1.0, p=1.5),
    ),
}


@pytest.fixture(params=DEVICES)
def device(request):
    torch.manual_seed(0)
    return request.param


def test_they_found_ours():
    assert kernels.kermac is kermac


@pytest.mark.parametrize("name", PAIRS)
def test_kernels_and_gradients_are_those_of_pytorch(name, device):
    ours, theirs = PAIRS[name]
    x, z = (torch.randn(n, 6, device=device) for n in (40, 30))
    weights = torch.randn(2, 40, device=device)
    m = torch.rand(6, 6, device=device) / 6
    m = m @ m.T + torch.eye(6, device=device)
    for mat in (None, torch.rand(6, device=device) + 0.5, m):
        got = ours.get_kernel_matrix(x, z, mat)
        torch.testing.assert_close(got, theirs.get_kernel_matrix(x, z, mat), rtol=1e-4, atol=1e-5)
        got = ours.get_function_grads(x, z, weights, mat)
        # Of several functions PyTorch 2.15 gets all but the first wrong: cdist's gradient in vmap.
        expected = torch.cat([theirs.get_function_grads(x, z, w[None], mat) for w in weights])
        torch.testing.assert_close(got.reshape(expected.shape), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kernel", ["l1", "lpq"])
def test_a_fit(kernel, device):
    x = torch.randn(400, 5, device=device)
    y = (x[:, 0] * x[:, 1] + x[:, 0]).reshape(-1, 1)
    if device == "cpu":  # where xRFM takes kermac only where it is told to
        kernel = PAIRS[kernel][0]
    model = {"kernel": kernel, "bandwidth": 5.0, "exponent": 1.0, "diag": False, "norm_p": 1.5}
    fit = {"reg": 1e-3, "iters": 2, "verbose": False}
    m = xRFM(rfm_params={"model": model, "fit": fit}, device=device, verbose=False)
    m.fit(x[:250], y[:250], x[250:300], y[250:300])
    predicted = torch.as_tensor(m.predict(x[300:])).cpu().reshape(-1, 1)
    error = (predicted - y[300:].cpu()).square().mean() / y.var().cpu()
    assert error < 0.3
