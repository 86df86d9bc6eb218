"""Second-order optimizers for PyTorch, and for plain arrays.

Shampoo, SOAP, Muon, KFAC and EKFAC are subclasses of torch.optim.Optimizer.  transform gives the
first three as a pair of functions in the style of optax, for arrays of NumPy, or of anything with
the buffer protocol or DLPack.  The C library does all arithmetic (gram/optimizer.h, gram/layers.h):
on the CPU with gram.set_threads threads, and on the GPU for parameters there.  The classes need
PyTorch 1.13 or newer.

>>> import numpy as np, gram.optim
>>> rule = gram.optim.transform("shampoo", lr=0.1, betas=(0.9, 0.99))
>>> w = np.array([[3.0, -2.0], [1.0, 4.0]])
>>> state = rule.init(w)
>>> for _ in range(100):
...     updates, state = rule.update(2 * w, state, w)
...     w = w + updates
>>> bool(np.abs(w).max() < 0.3)
True
"""

from fractions import Fraction

from gram import _core
from gram._optim_options import check_numbers, core_options
from gram._optim_transform import State, Transform

__all__ = [
    "EKFAC",
    "KFAC",
    "Muon",
    "SOAP",
    "Shampoo",
    "State",
    "Transform",
    "matrix_inverse_root",
    "transform",
]


def __getattr__(name):
    """The classes for PyTorch are loaded when they are first asked for."""
    if name in ("Muon", "SOAP", "Shampoo"):
        from gram import _optim_torch

        return getattr(_optim_torch, name)
    if name in ("EKFAC", "KFAC"):
        from gram import _kfac

        return getattr(_kfac, name)
    raise AttributeError(f"module 'gram.optim' has no attribute {name!r}")


def transform(method, **options):
    """Shampoo, SOAP or Muon as pure functions, in the style of optax.

    method is "shampoo", "soap" or "muon".  options are the arguments of gram.optim.Shampoo, SOAP
    and Muon (except process_group), with their defaults.  lr may be a function of the number of the
    step, which counts from 0.

    transform(...).init(params) returns a State, and .update(grads, state, params) returns (updates,
    state), where params + updates are the next parameters.  params and grads are an array, or
    nested lists, tuples and dicts of arrays, of any shapes, (), (n,), (m, n), ...  A gradient that
    is None leaves its parameter unchanged, and its update is None.  Updates are arrays of the
    library of the gradients, with their dtype, or float32 for float16 and bfloat16.  A State holds
    NumPy arrays, is also a tree of JAX, can be pickled, and is immutable: an update returns a new
    one.  These functions do not work inside of jax.jit.

    Raises the errors of the classes: ValueError for numbers and shapes that are not possible,
    TypeError for arguments that are not arrays, NotImplementedError for arrays on a GPU, and
    gram.LinAlgError if a gradient is not finite (not_finite="raise") or if roots fail repeatedly.
    Sources: those of gram.optim.Shampoo and the other classes.

    >>> import numpy as np, gram.optim
    >>> rule = gram.optim.transform("muon", lr=0.1)
    >>> params = {"weight": np.ones((2, 3), np.float32)}
    >>> updates, state = rule.update({"weight": np.eye(2, 3, dtype=np.float32)},
    ...                              rule.init(params), params)
    >>> updates["weight"].shape
    (2, 3)
    """
    lr = options.pop("lr", None)
    given = core_options(method, options, "gram.optim.transform")
    if not callable(lr):
        check_numbers({"lr": lr}, "gram.optim.transform")
    if lr is None:
        lr = _core.optimizer_defaults(method)["learning_rate"]
    return Transform(given, lr)


def matrix_inverse_root(a, power=-0.25, eps=1e-8, *, method="eigh", floor=0.0, out=None):
    """(a + eps I)^power of symmetric positive semidefinite matrices a (..., n, n).

    power is any number except 0 (-0.25 is the inverse fourth root of Shampoo), and eps is an
    absolute number of at least 0.  method is that of gram.matrix_power: "eigh" in double or, for
    fractions k / q with whole k and q up to 64, the iterations "auto", "coupled-newton",
    "newton-schulz" and "minimax".  Negative eigenvalues count as 0 if they are not larger than
    rounding or eps.  With floor > 0, all eigenvalues below floor times the largest are raised to
    that value.  Arrays, dtypes and batches are the same as gram.matrix_power has.

    Raises gram.LinAlgError for matrices that are not semidefinite (without floor) or not finite,
    and ValueError for a power of 0, and for iterations with a power that is not such a fraction.

    >>> import numpy as np, gram.optim
    >>> gram.optim.matrix_inverse_root(np.diag([16.0, 81.0])).diagonal().round(3).tolist()
    [0.5, 0.333]
    """
    fraction = Fraction(power).limit_denominator(64)
    if abs(float(fraction) - power) <= 1e-9:
        power = float(fraction)
    return _core.matrix_power(
        a, power=power, method=method, ridge=float(eps), floor=float(floor), out=out
    )
