"""Gram matrices: distances, kernels, their gradients, solves, and kernel machines.

Functions take arrays of NumPy, PyTorch, CuPy, JAX, or of anything with the buffer protocol or
DLPack, and return arrays of the same library.  See help(gram.cdist), and docs/python.md.
"""

from gram import _threads, cache
from gram._core import (
    Communicator,
    LinAlgError,
    Module,
    Pending,
    __version__,
    agop,
    agop_workspace,
    best_device,
    cdist,
    cdist_grad,
    cdist_grad_workspace,
    cdist_workspace,
    devices,
    eigh,
    eigh_kernel,
    eigh_kernel_workspace,
    eigh_workspace,
    get_threads,
    info,
    kernel,
    kernel_matmul,
    kernel_matmul_workspace,
    kernel_vjp,
    kernel_vjp_workspace,
    kernel_workspace,
    kfac_factors,
    kfac_factors_workspace,
    kron,
    kron_diagonal,
    kron_diagonal_workspace,
    kron_logdet,
    kron_logdet_workspace,
    kron_matmul,
    kron_matmul_multi,
    kron_matmul_multi_workspace,
    kron_matmul_part,
    kron_matmul_vjp,
    kron_matmul_vjp_workspace,
    kron_matmul_workspace,
    kron_solve,
    kron_solve_workspace,
    kron_trace,
    kron_workspace,
    matmul_batched,
    matmul_batched_workspace,
    matmul_chunked,
    matmul_chunked_workspace,
    matrix_power,
    matrix_power_workspace,
    median_distance,
    median_distance_workspace,
    memory_info,
    natural_gradient,
    natural_gradient_workspace,
    nccl_id,
    sample_grad,
    sample_grad_workspace,
    set_threads,
    solve_cholesky,
    solve_cholesky_workspace,
    solve_lu,
    solve_lu_workspace,
    syrk_ema,
    syrk_ema_workspace,
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
_WORKSPACE = ("Shape", "eigh_multi_workspace", "workspace")
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
    "agop_workspace",
    "best_device",
    "cache",
    "cdist",
    "cdist_grad",
    "cdist_grad_workspace",
    "cdist_workspace",
    "devices",
    "eigh",
    "eigh_kernel",
    "eigh_kernel_workspace",
    "eigh_many",
    "eigh_multi",
    "eigh_multi_workspace",
    "eigh_workspace",
    "get_threads",
    "info",
    "kernel",
    "kernel_matmul",
    "kernel_matmul_workspace",
    "kernel_vjp",
    "kernel_vjp_workspace",
    "kernel_workspace",
    "kfac_factors",
    "kfac_factors_workspace",
    "kron",
    "kron_diagonal",
    "kron_diagonal_workspace",
    "kron_logdet",
    "kron_logdet_workspace",
    "kron_matmul",
    "kron_matmul_multi",
    "kron_matmul_multi_workspace",
    "kron_matmul_part",
    "kron_matmul_vjp",
    "kron_matmul_vjp_workspace",
    "kron_matmul_workspace",
    "kron_solve",
    "kron_solve_workspace",
    "kron_trace",
    "kron_workspace",
    "matmul_batched",
    "matmul_batched_workspace",
    "matmul_chunked",
    "matmul_chunked_workspace",
    "matrix_power",
    "matrix_power_many",
    "matrix_power_workspace",
    "median_distance",
    "median_distance_workspace",
    "memory_info",
    "natural_gradient",
    "natural_gradient_workspace",
    "nccl_id",
    "sample_grad",
    "sample_grad_workspace",
    "set_threads",
    "solve_cholesky",
    "solve_cholesky_workspace",
    "solve_lu",
    "solve_lu_workspace",
    "syrk_ema",
    "syrk_ema_workspace",
    "tune",
    "tune_eigh",
    "tune_kron",
    "workspace",
]

_threads.watch()
