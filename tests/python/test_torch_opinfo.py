"""test_torch_opinfo.py - gram.torch.cdist on the samples that PyTorch tests its own cdist with

They are part of PyTorch's internals: skipped where they cannot be imported.
"""

import sys
import types
import unittest

import pytest

torch = pytest.importorskip("torch", minversion="2.4")
gt = pytest.importorskip("gram.torch")


@pytest.fixture(scope="module", name="cdist")
def fixture_cdist():
    """PyTorch's description of cdist.  Its module wants expecttest for one base class alone."""
    stand_in = "expecttest" not in sys.modules
    try:
        import expecttest  # noqa: F401
    except ImportError:
        module = types.ModuleType("expecttest")
        module.TestCase = unittest.TestCase
        sys.modules["expecttest"] = module
    else:
        stand_in = False
    try:
        methods = pytest.importorskip("torch.testing._internal.common_methods_invocations")
    finally:
        if stand_in:
            del sys.modules["expecttest"]
    return next(op for op in methods.op_db if op.name == "cdist")


def samples(cdist, dtype, grad):
    torch.manual_seed(0)
    for s in cdist.sample_inputs("cpu", dtype, requires_grad=grad):
        y, *p = s.args
        yield s, s.input, y, p[0] if p else s.kwargs.get("p", 2.0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["f64", "f32"])
def test_values_of_pytorchs_samples(cdist, dtype):
    count = 0
    for s, x, y, p in samples(cdist, dtype, False):
        torch.testing.assert_close(gt.cdist(x, y, p=p), cdist(x, *s.args, **s.kwargs))
        count += 1
    assert count > 100


def test_gradients_of_pytorchs_samples(cdist):
    """At p = infinity the gradient was once another than PyTorch's: 20 of 240 failed."""
    powers = set()
    for _, x, y, p in samples(cdist, torch.float64, True):
        assert torch.autograd.gradcheck(lambda x, y, p=p: gt.cdist(x, y, p=p), (x, y)), (x.shape, p)
        powers.add(p)
    assert float("inf") in powers and len(powers) > 3
