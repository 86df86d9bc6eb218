"""Second-order optimizers for PyTorch, and for plain arrays.

Shampoo, SOAP, Muon, KFAC and EKFAC are torch.optim.Optimizer; transform gives the first three as
an optax-style pair of functions over arrays of NumPy, or of anything with the buffer protocol or
DLPack.  All arithmetic is the library's (gram_optimizer_*, gram_kfac_* in gram.h), on the CPU with
gram.set_threads threads, and of parameters on a GPU there.  The classes take PyTorch
1.13 or newer.

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
    """Shampoo, SOAP or Muon as functions without a state of their own, after optax.

    method is "shampoo", "soap" or "muon"; options are the arguments of gram.optim.Shampoo, SOAP and
    Muon (but process_group), with their defaults; lr may be a function of the number of the step,
    which counts from 0.

    transform(...).init(params) gives a State, .update(grads, state, params) gives (updates, state),
    where params + updates are the next parameters. params and grads are an array, or lists, tuples
    and dicts of arrays, nested as one likes; None as a gradient leaves its parameter alone (and its
    update is None), of any shapes, (), (n,), (m, n), ...  Updates are of the library of the
    gradients and of their dtype; float32 where that is float16 or bfloat16.  A State holds NumPy
    arrays, is a tree of JAX too, can be pickled, and is never changed: an update makes a new one.
    Not inside of jax.jit.

    Raises what the classes do: ValueError for numbers and shapes that cannot be, TypeError for what
    is no array, NotImplementedError for arrays on a GPU, gram.LinAlgError where a gradient is not
    finite (not_finite="raise") or roots fail again and again.  Sources: gram.optim.Shampoo and the
    others name them.

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

    power is any number but 0 (-0.25: the inverse fourth root of Shampoo); eps, absolute, at least
    0; method as of gram.matrix_power: "eigh" in double, or, for fractions k / q with whole k and q
    up to 64, the iterations "auto", "coupled-newton", "newton-schulz" and "minimax".  Negative
    eigenvalues count as 0 if they are no larger than rounding or eps; with floor > 0 all that are
    below floor times the largest are raised to that.  Array, dtype and batch as gram.matrix_power
    has them.

    Raises gram.LinAlgError for matrices that are not semidefinite (without floor) or not finite,
    ValueError for a power of 0 and for iterations with a power that is no such fraction.

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
