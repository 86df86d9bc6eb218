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


# ---- The calls that kermac's five example programs make, on smaller problems ---------------------


def test_program_cdist(device):
    timer = kermac.CudaTimer()
    for p, skip in ((1.0, False), (1.3, True), (2.0, False)):
        a = draw(2, 16, 60, device=device).permute(0, 2, 1)
        b, c = draw(2, 50, 16, device=device), draw(2, 60, 50, device=device)
        timer.start()
        out = kermac.cdist(a, b, p=p, out=c, skip_epilogue=skip, try_to_align=True, debug=False)
        assert out is c and timer.stop() > 0
        expected = torch.cdist(a, b, p=p) ** (p if skip else 1)
        torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-4)


def test_program_cdist_grad(device):
    a, b = draw(2, 10, 30, device=device), draw(2, 32, 10, device=device)
    c, d = draw(2, 16, 10, device=device), draw(2, 32, 30, device=device)
    out = torch.zeros(2, 16, 32, 30, device=device)
    p = torch.full((1,), 2.0, device=device)
    got = kermac.cdist_grad(a, b, c, d, out=out, p=p, debug=False)
    difference = d[:, :, None] - b[..., None]
    expected = torch.einsum("lok,lkm,lnkm->lonm", c, a, difference)
    assert got is out
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-3)


def test_program_build_a_kernel(device, capsys):
    a, b, out = (draw(*s, device=device) for s in ((40, 24), (30, 24), (40, 30)))
    gaussian = kermac.KernelDescriptor(
        inner_operator=kermac.InnerOperator.DIFF, inner_power=kermac.PowerType.POW,
        outer_power=kermac.PowerType.POW, kernel_type=kermac.KernelType.GAUSSIAN,
    )  # fmt: skip
    descriptors = [
        kermac.kernel_descriptor_l1_norm, kermac.kernel_descriptor_l2_norm,
        kermac.kernel_descriptor_p_norm, kermac.kernel_descriptor_laplace_l1,
        kermac.kernel_descriptor_laplace_l2, kermac.kernel_descriptor_mma, gaussian,
    ]  # fmt: skip
    kermac.pre_compile_descriptors(
        device=torch.device(device), descriptors=descriptors, try_to_align=False, debug=True
    )
    said = capsys.readouterr().out
    assert said.count("(Kermac Debug) Compiling: ") == len(descriptors)
    d1, d2, dp = (torch.cdist(a, b, p=p) for p in (1.0, 2.0, 1.3))
    for descriptor, words, expected in (
        (descriptors[4], {"bandwidth": 10.0, "epsilon": 1e-5}, (-d2 / 10).exp()),
        (descriptors[3], {"bandwidth": 10.0}, (-d1 / 10).exp()),
        (descriptors[0], {}, d1),
        (descriptors[1], {}, d2),
        (gaussian, {"inner_p": 1.3, "outer_p": 1 / 1.3, "bandwidth": 10.0}, (-dp / 200).exp()),
        (descriptors[5], {}, a @ b.T),
    ):
        got = kermac.run_kernel(
            descriptor, a, b, out=out, try_to_align=False, debug=True, **words
        )
        assert got is out
        torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-4)
        assert "(Kermac Debug) run_kernel: (1, 40, 24) (1, 30, 24)" in capsys.readouterr().out


def test_program_broadcast_kernel(device):
    data = draw(30, 6, device=device)
    d = kermac.KernelDescriptor(
        kermac.InnerOperator.DIFF, kermac.PowerType.SQUARE, kermac.PowerType.SQRT,
        kermac.KernelType.LAPLACE,
    )  # fmt: skip
    length = torch.tensor([10.0, 20.0], device=device)
    got = kermac.run_kernel(
        d, data, data, bandwidth=length, regularization=10.0, regularization_offset_x=3,
        regularization_offset_y=1,
    )  # fmt: skip
    expected = torch.exp(-torch.cdist(data, data) / length[:, None, None])
    expected.diagonal(2, -2, -1).fill_(11.0)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)
    power = kermac.KernelDescriptor(
        kermac.InnerOperator.DIFF, kermac.PowerType.POW, kermac.PowerType.POW,
        kermac.KernelType.LAPLACE,
    )  # fmt: skip
    p = torch.tensor([0.5, 0.6, 0.7, 2.0], device=device)
    ridge = torch.tensor([1e-3, 1e-2, 1e-1, 1.0], device=device)
    got = kermac.run_kernel(
        power, data, data, p=p, bandwidth=torch.tensor(10.0, device=device), regularization=ridge
    )
    for item in range(4):
        expected = torch.exp(-torch.cdist(data, data, p=p[item].item()) / 10)
        expected.diagonal().fill_(1 + ridge[item])
        torch.testing.assert_close(got[item], expected, rtol=1e-3, atol=1e-4)


def test_program_linalg(device):
    timer = kermac.CudaTimer()
    data, labels = draw(3, 40, 8, device=device), draw(3, 5, 40, device=device)
    k = torch.zeros(3, 40, 40, device=device)
    k = kermac.run_kernel(
        kernel_descriptor=kermac.kernel_descriptor_laplace_l2, a=data, b=data, out=k,
        bandwidth=10.0, debug=False,
    )  # fmt: skip
    w, v, infos = kermac.linalg.eigh(a=k.clone(), overwrite_a=True, check_errors=False)
    torch.testing.assert_close(v * w[:, None] @ v.mT, k, rtol=1e-3, atol=1e-3)
    assert not infos.any()
    for solve in (kermac.linalg.solve_cholesky, kermac.linalg.solve_lu):
        b = labels.clone()
        x, factor_infos, solve_infos = solve(
            a=k.clone(), b=b, overwrite_a=True, overwrite_b=True, check_errors=False, debug=False
        )
        assert x is b and not factor_infos.any() and not solve_infos.any()
        torch.testing.assert_close(x @ k, labels, rtol=1e-2, atol=1e-2)
    assert timer.stop() > 0


# ---- What was missing or meant something else ----------------------------------------------------


def test_regularization_alone_is_batched(device):
    x = draw(12, 3, device=device)
    ridge = torch.tensor([0.5, 2.0], device=device)
    got = kermac.run_kernel(
        kermac.kernel_descriptor_laplace_l2, x, x, bandwidth=3.0, regularization=ridge
    )
    expected = torch.exp(-torch.cdist(x, x) / 3).expand(2, 12, 12).clone()
    expected.diagonal(0, -2, -1).copy_(1 + ridge[:, None])
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("column_major", [False, True])
@pytest.mark.parametrize("lower", [False, True])
def test_fill_mode_is_the_triangle_that_cusolver_sees(lower, column_major, device):
    a = draw(2, 6, 6, device=device)
    a = a @ a.mT + 6 * torch.eye(6, device=device)
    half = a.triu() if lower != column_major else a.tril()  # the other half holds zeros
    if column_major:
        half = half.mT.contiguous().mT
    mode = kermac.linalg.FillMode.LOWER if lower else kermac.linalg.FillMode.UPPER
    b = draw(2, 3, 6, device=device)
    x, infos, _ = kermac.linalg.solve_cholesky(half, b, fill_mode=mode)
    assert not infos.any()
    torch.testing.assert_close(x @ a, b, rtol=1e-3, atol=1e-3)
    w, v, _ = kermac.linalg.eigh(half, fill_mode=mode)
    torch.testing.assert_close(v * w[:, None] @ v.mT, a, rtol=1e-3, atol=1e-3)


def test_eigh_in_place_uses_the_memory_of_a(device):
    a = draw(2, 9, 9, device=device)
    a = a + a.mT
    given = a.clone()
    w, v, infos = kermac.linalg.eigh(given, overwrite_a=True)
    assert v.data_ptr() == given.data_ptr() and not infos.any()
    torch.testing.assert_close(v * w[:, None] @ v.mT, a, rtol=1e-3, atol=1e-3)


def test_every_name_of_kermac_is_there(device):
    for name in (
        "cdist cdist_grad KernelDescriptor run_kernel PowerType InnerOperator KernelType Symmetry "
        "kernel_descriptor_laplace_l1 kernel_descriptor_laplace_l2 kernel_descriptor_p_norm "
        "kernel_descriptor_l1_norm kernel_descriptor_l2_norm kernel_descriptor_mma "
        "pre_compile_descriptors Majorness Alignment FillMode CudaTimer ceil_div TensorStats "
        "tensor_stats ModuleCache"
    ).split():
        assert name in kermac.__all__ and hasattr(kermac, name), name
    d = kermac.kernel_descriptor_laplace_l2
    assert (d._inner_operator, d._inner_power) == (d.inner_operator, d.inner_power)
    assert (d._outer_power, d._kernel_type) == (d.outer_power, d.kernel_type)
    t = draw(3, 8, 20, device=device)
    stats = kermac.tensor_stats(t.mT)
    assert stats.shape == (3, 20, 8) and stats.majorness is kermac.Majorness.COL_MAJOR
    assert (stats.num_batches, stats.batch_stride, stats.leading_dimension_stride) == (3, 160, 20)
    if t.data_ptr() % 16 == 0:
        assert stats.alignment is kermac.Alignment.ALIGN_4
    assert kermac.tensor_stats(t[0]).alignment is kermac.Alignment.ALIGN_1
    with pytest.raises(ValueError, match="kermac.tensor_stats: tensor has strides"):
        kermac.tensor_stats(t[:, ::2, ::2])
    assert kermac.ceil_div(9, 4) == 3
    with pytest.raises(NotImplementedError, match="launched only by its functions"):
        kermac.ModuleCache().get_function(0, "cute_build_kernel")
