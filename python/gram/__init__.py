"""Gram matrices: distances, kernels, their gradients, solves, and kernel machines.

Functions take arrays of NumPy, PyTorch, CuPy, JAX, or of anything with the buffer protocol or
DLPack, and return arrays of the same library.  See help(gram.cdist), and docs/guide/python.md.
"""

from gram import _threads, cache
from gram._core import (
    Communicator,
    LinAlgError,
    Module,
    Pending,
    __version__,
    agop,
    best_device,
    cdist,
    cdist_grad,
    devices,
    eigh,
    eigh_kernel,
    get_threads,
    info,
    kernel,
    kernel_matmul,
    kernel_vjp,
    kfac_factors,
    kron,
    kron_diagonal,
    kron_logdet,
    kron_matmul,
    kron_matmul_multi,
    kron_matmul_part,
    kron_matmul_vjp,
    kron_solve,
    kron_trace,
    matmul_batched,
    matmul_chunked,
    matrix_power,
    median_distance,
    memory_info,
    natural_gradient,
    nccl_id,
    sample_grad,
    set_threads,
    solve_cholesky,
    solve_lu,
    syrk_ema,
    tune,
    tune_eigh,
    tune_kron,
)


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
_MODULES = ("compat", "gpytorch", "jax", "machine", "optim", "plot", "sklearn", "torch")

__all__ = [
    "Communicator",
    "LinAlgError",
    "Machine",
    "Module",
    "Pending",
    "Shape",
    "__version__",
    "agop",
    "best_device",
    "cache",
    "cdist",
    "cdist_grad",
    "devices",
    "eigh",
    "eigh_kernel",
    "eigh_many",
    "eigh_multi",
    "get_threads",
    "info",
    "kernel",
    "kernel_matmul",
    "kernel_vjp",
    "kfac_factors",
    "kron",
    "kron_diagonal",
    "kron_logdet",
    "kron_matmul",
    "kron_matmul_multi",
    "kron_matmul_part",
    "kron_matmul_vjp",
    "kron_solve",
    "kron_trace",
    "matmul_batched",
    "matmul_chunked",
    "matrix_power",
    "matrix_power_many",
    "median_distance",
    "memory_info",
    "natural_gradient",
    "nccl_id",
    "sample_grad",
    "set_threads",
    "solve_cholesky",
    "solve_lu",
    "syrk_ema",
    "tune",
    "tune_eigh",
    "tune_kron",
    "workspace",
]

_threads.watch()
