"""test_kermac.py - gram.compat.kermac and gram.compat.torch against PyTorch, on every device"""

import gram
import pytest

torch = pytest.importorskip("torch", minversion="1.13.0a0")
from gram.compat import kermac  # noqa: E402
from gram.compat.torch import cdist as torch_cdist  # noqa: E402

DEVICES = ["cpu"]
if torch.cuda.is_available() and len(gram.devices()) > 1:
    DEVICES.append("cuda")


@pytest.fixture(params=DEVICES)
def device(request):
    torch.manual_seed(0)
    return request.param


def draw(*shape, device, dtype=torch.float32):
    return torch.randn(shape, device=device, dtype=dtype)


@pytest.mark.parametrize("p", [0.0, 1.0, 1.3, 2.0, float("inf")])
def test_cdist_of_torch(p, device):
    x, y = draw(3, 20, 6, device=device), draw(12, 6, device=device)
    torch.testing.assert_close(torch_cdist(x, y, p), torch.cdist(x, y, p), rtol=1e-4, atol=1e-4)
    for a, b in ((x.half(), y.half()), (x[..., :0], y[:, :0])):
        try:
            expected = torch.cdist(a, b, p)
        except RuntimeError:
            with pytest.raises(RuntimeError):
                torch_cdist(a, b, p)
        else:
            torch.testing.assert_close(torch_cdist(a, b, p), expected)
    grads = []
    for f in (torch_cdist, torch.cdist):
        z = y.clone().requires_grad_()
        f(x, z, p).sum().backward()
        grads.append(z.grad)
    torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-4)
    with pytest.raises(RuntimeError):
        torch_cdist(x, y[:, 1:], p)


@pytest.mark.parametrize("turned", range(8))
@pytest.mark.parametrize("p", [1.0, 1.3, 2.0])
def test_cdist_in_every_layout(p, turned, device):
    def layout(t, bit):
        return t.mT.contiguous().mT if turned >> bit & 1 else t

    a = layout(draw(2, 50, 17, device=device), 0)
    b = layout(draw(2, 40, 17, device=device), 1)
    out = layout(draw(2, 50, 40, device=device), 2)
    assert kermac.cdist(a, b, out=out, p=p, try_to_align=True) is out
    torch.testing.assert_close(out, torch.cdist(a, b, p), rtol=1e-4, atol=1e-4)
    one = kermac.cdist(a[0], b[0], p=p, skip_epilogue=True)
    assert one.shape == (1, 50, 40)
    torch.testing.assert_close(one[0], torch.cdist(a[0], b[0], p) ** p, rtol=1e-3, atol=1e-3)
    again = kermac.cdist(a[0], b[0], p=p)  # skip_epilogue leaves nothing behind
    torch.testing.assert_close(again[0], torch.cdist(a[0], b[0], p), rtol=1e-4, atol=1e-4)


def test_kernels_by_descriptor(device):
    a, b = draw(3, 20, 4, device=device), draw(1, 20, 4, device=device)
    length = torch.tensor([0.5, 1.0, 2.0], device=device)
    k = kermac.run_kernel(kermac.kernel_descriptor_laplace_l1, a, b, bandwidth=length)
    expected = torch.exp(-torch.cdist(a, b, 1) / length[:, None, None])
    torch.testing.assert_close(k, expected, rtol=1e-4, atol=1e-5)
    gaussian = kermac.KernelDescriptor(
        kermac.InnerOperator.DIFF, kermac.PowerType.SQUARE, kermac.PowerType.NOOP,
        kermac.KernelType.GAUSSIAN,
    )  # fmt: skip
    k = kermac.run_kernel(
        gaussian, b, b, bandwidth=2.0, regularization=0.25, regularization_offset_x=1
    )
    expected = torch.exp(-torch.cdist(b, b) ** 2 / 8)[0]
    diagonal = torch.arange(19, device=device)
    expected[diagonal, diagonal + 1] = 1.25
    torch.testing.assert_close(k[0], expected, rtol=1e-4, atol=1e-5)
    lpq = kermac.KernelDescriptor(
        kermac.InnerOperator.DIFF, kermac.PowerType.POW, kermac.PowerType.POW,
        kermac.KernelType.LAPLACE,
    )  # fmt: skip
    k = kermac.run_kernel(lpq, a, b, inner_p=1.5, outer_p=0.8 / 1.5, bandwidth=3.0)
    expected = torch.exp(-torch.cdist(a, b, 1.5) ** 0.8 / 3)
    torch.testing.assert_close(k, expected, rtol=1e-4, atol=1e-5)
    dots = kermac.run_kernel(kermac.kernel_descriptor_mma, a, b)
    torch.testing.assert_close(dots, a @ b.mT, rtol=1e-4, atol=1e-4)
    norms = kermac.run_kernel(kermac.kernel_descriptor_p_norm, a, b, p=3.0)
    torch.testing.assert_close(norms, torch.cdist(a, b, 3.0), rtol=1e-4, atol=1e-4)


def test_gradients(device):
    a, b = draw(2, 30, 12, device=device), draw(2, 5, 30, device=device)
    c, d = draw(2, 3, 30, device=device), draw(2, 5, 12, device=device)
    difference = d[:, :, None] - b[..., None]  # l, n, k, m
    for p in (1.0, 1.4, 2.0):
        terms = difference.sign() * difference.abs() ** (p - 1)
        expected = torch.einsum("lok,lkm,lnkm->lonm", c, a, terms)
        got = kermac.cdist_grad(a, b, c, d, p=p)
        torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-3)
    for p, scale in ((1.0, -0.5), (1.4, -0.3)):
        near = torch.exp(scale * difference.abs() ** p)
        s = near.sum(1)
        got = kermac.cdist_expadd(b.mT.contiguous(), d.mT.contiguous(), p=p, scale=scale)
        torch.testing.assert_close(got, s, rtol=1e-4, atol=1e-4)
        slope = 2 * (0.1 + s)[:, None] * near * scale * p
        slope = slope * difference.sign() * difference.abs() ** (p - 1)
        expected = torch.einsum("lok,lkm,lnkm->lonm", c, a, slope)
        got = kermac.cdist_grad_expadd(a, b, c, d, p=p, q=2.0, c0=0.1, scale=scale)
        torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-3)


def test_linalg(device):
    a = draw(4, 7, 7, device=device)
    a = a @ a.mT + 7 * torch.eye(7, device=device)
    b = draw(4, 2, 7, device=device)
    for solve in (kermac.linalg.solve_cholesky, kermac.linalg.solve_lu):
        x, factor_infos, solve_infos = solve(a, b, check_errors=True)
        torch.testing.assert_close(x @ a, b, rtol=1e-3, atol=1e-3)
        assert not factor_infos.any() and not solve_infos.any()
        c, e = a.clone(), b.clone()
        assert solve(c, e, overwrite_a=True, overwrite_b=True)[0] is e
        torch.testing.assert_close(e, x)
    try:
        values, vectors, infos = kermac.linalg.eigh(a)
    except NotImplementedError:
        assert device == "cuda"
    else:
        torch.testing.assert_close(vectors * values[:, None] @ vectors.mT, a, rtol=1e-3, atol=1e-3)
        assert not infos.any()
    a[1] = -a[1]
    with pytest.raises(ValueError, match="items failed"):
        kermac.linalg.solve_cholesky(a, b, check_errors=True)


def test_what_is_refused(device):
    a = draw(20, 4, device=device)
    for wrong, kind in (
        ((a[:, ::2], a[:, ::2]), ValueError),
        ((a[None].expand(2, 20, 4), a[None, None]), ValueError),
        ((a.long(), a), TypeError),
        ((a, 3), TypeError),
        ((a.expand(2, 20, 4).contiguous(), a.expand(3, 20, 4).contiguous()), ValueError),
    ):
        with pytest.raises(kind, match="kermac.cdist"):
            kermac.cdist(*wrong)
    with pytest.raises(ValueError, match="needs a bandwidth"):
        kermac.run_kernel(kermac.kernel_descriptor_laplace_l2, a, a)
    with pytest.raises(ValueError, match="takes no bandwidth"):
        kermac.run_kernel(kermac.kernel_descriptor_l2_norm, a, a, bandwidth=1.0)
    with pytest.raises(ValueError, match="POW needs a number"):
        kermac.run_kernel(kermac.kernel_descriptor_p_norm, a, a)
    with pytest.raises(TypeError, match="expected a number"):
        kermac.cdist(a, a, p="2")
    with pytest.raises(ValueError, match="out has shape"):
        kermac.cdist(a, a, out=a)


def test_installed_as_kermac(monkeypatch):
    import sys

    for name in ("kermac", "kermac.linalg"):
        monkeypatch.setitem(sys.modules, name, None)
    kermac.install()
    import kermac as theirs
    from kermac.linalg import solve_lu

    assert theirs is kermac and solve_lu is kermac.linalg.solve_lu
