"""test_bad_tensors.py - tensors of PyTorch and JAX that cannot be meant

An exception that says what to do, never a crash, never a wrong sign.
"""

import gram
import numpy as np
import pytest
from drawing import draw


@pytest.fixture
def torch():
    return pytest.importorskip("torch", minversion="2.4")


@pytest.fixture
def jax():
    return pytest.importorskip("jax", minversion="0.6")


BAD_TENSORS = {
    "gradient": (
        lambda torch: torch.ones(3, 2, requires_grad=True),
        r"requires a gradient, which is not recorded; pass {}.detach\(\)",
    ),
    "negated": (
        lambda torch: torch._neg_view(torch.ones(3, 2)),
        r"is a negated view; pass {}.resolve_neg\(\)",
    ),
    "imaginary part of a conjugate": (
        lambda torch: torch.ones(3, 2, dtype=torch.complex64).conj().imag,
        r"is a negated view; pass {}.resolve_neg\(\)",
    ),
    "complex": (lambda torch: torch.ones(3, 2) * 1j, "has dtype torch.complex64, expected float32"),
    "conjugate": (
        lambda torch: (torch.ones(3, 2) * 1j).conj(), "has dtype torch.complex64, expected float32",
    ),
    "truth values": (lambda torch: torch.ones(3, 2) > 0, "has dtype torch.bool, expected float32"),
    "meta": (lambda torch: torch.ones(3, 2, device="meta"), "has no memory|cannot be read"),
    "fake": (lambda torch: fake(torch), "has no memory: it is a fake or meta tensor"),
    "sparse": (lambda torch: torch.eye(3, 2).to_sparse(), "cannot be read as an array of the CPU"),
    "quantized": (
        lambda torch: torch.quantize_per_tensor(torch.ones(3, 2), 0.1, 0, torch.qint8),
        "cannot be read as an array of the CPU",
    ),
}  # fmt: skip


def fake(torch):
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        return torch.ones(3, 2)


@pytest.mark.parametrize("kind", BAD_TENSORS)
@pytest.mark.filterwarnings("ignore")
def test_tensors_that_are_refused(kind, torch):
    make, message = BAD_TENSORS[kind]
    good = torch.ones(3, 2)
    with pytest.raises(TypeError, match="gram.cdist: x " + message.format("x")):
        gram.cdist(make(torch))
    with pytest.raises(TypeError, match="gram.cdist: y " + message.format("y")):
        gram.cdist(good, make(torch))
    with pytest.raises(TypeError, match="gram.kernel: out " + message.format("out")):
        gram.kernel(good, good[:2], out=make(torch))


def test_numbers_that_require_a_gradient(torch):
    length = torch.tensor(2.0, requires_grad=True)
    with pytest.raises(TypeError, match=r"bandwidth requires a gradient.* bandwidth.detach\(\)"):
        gram.kernel(torch.ones(3, 2), bandwidth=length)
    x = torch.ones(3, 2, requires_grad=True)
    with torch.no_grad(), pytest.raises(TypeError, match="detach"):
        gram.cdist(x)
    assert gram.cdist(x.detach()).shape == (3, 3)


def test_negated_views_keep_their_sign_once_they_are_resolved(torch):
    z = torch.complex(torch.from_numpy(draw(4, 3)), torch.from_numpy(draw(4, 3, seed=1)))
    got = gram.kernel(z.conj().imag.resolve_neg(), z.imag, "linear")
    torch.testing.assert_close(got, -z.imag @ z.imag.mT)
    torch.testing.assert_close(gram.kernel(z.conj().real, z.real, "linear"), z.real @ z.real.mT)


def test_a_tensor_that_is_mapped(torch):
    with pytest.raises(TypeError, match="cannot be read"):
        torch.func.vmap(gram.cdist)(torch.ones(2, 3, 2))


def test_arrays_of_jax_are_not_written(jax):
    out = jax.numpy.zeros((3, 3))
    for x in (jax.numpy.ones((3, 2)), np.ones((3, 2), np.float32)):
        with pytest.raises(TypeError, match="out cannot be written, because arrays of JAX"):
            gram.cdist(x, out=out)
    assert not out.any()
    with pytest.raises(TypeError, match="x does not say on which device it is"):
        jax.jit(gram.cdist)(jax.numpy.ones((3, 2)))
