"""Gram matrices: distances, kernels, their gradients, solves, and kernel machines.

Functions take arrays of NumPy, PyTorch, CuPy, JAX, or of anything with the buffer protocol or
DLPack, and return arrays of the same library.  See help(gram.cdist), and docs/guide/python.md.
"""

from gram import _core, _threads, cache
from gram._core import Communicator, LinAlgError, Module, Pending, __version__

# Of the extension, which has functions without a docstring for the modules of this package.
_FUNCTIONS = {
    name: value
    for name, value in vars(_core).items()
    if isinstance(value, type(_core.cdist)) and value.__doc__
}
globals().update(_FUNCTIONS)


def __getattr__(name):
    """Machine, lists, and modules for other packages are loaded when they are first asked for."""
    if name == "Machine":
        from gram.machine import Machine

        return Machine
    if name in _MANY:
        from gram import _many

        return getattr(_many, name)
    if name in _WORKSPACE:
        from gram import _workspace

        return getattr(_workspace, name)
    if name in _MODULES:
        import importlib

        return importlib.import_module(f"gram.{name}")
    raise AttributeError(f"module 'gram' has no attribute {name!r}")


_MANY = ("eigh_many", "eigh_multi", "matrix_power_many")
_WORKSPACE = ("Shape", "workspace")
_MODULES = (
    "compat", "distributed", "fit", "gpytorch", "jax", "kernels", "machine", "optim", "plot",
    "sklearn", "torch",
)  # fmt: skip

__all__ = sorted(
    [
        "Communicator",
        "LinAlgError",
        "Machine",
        "Module",
        "Pending",
        "Shape",
        "__version__",
        "cache",
        "eigh_many",
        "eigh_multi",
        "matrix_power_many",
        "workspace",
        *_FUNCTIONS,
    ]
)

_threads.watch()
