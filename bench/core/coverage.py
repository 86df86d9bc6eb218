"""core/coverage.py - that every function of the Python package has a row, or a reason"""

import fnmatch
import importlib

MODULES = [
    "", "compat.scipy", "compat.sklearn", "compat.torch", "compat.kermac", "optim", "sklearn"
]  # fmt: skip
# What has no row, and why.
REASONS = {
    "Shape workspace": "asks for a number of bytes",
    "LinAlgError Machine Module Pending __version__ cache devices best_device memory_info info "
    "get_threads set_threads": "computes nothing, or what the caller brings",
    "tune tune_eigh": "measures candidates, for as long as they take",
    "eigh_multi": "for several devices: bench/bench_eigh_multi.c",
    "Communicator kron_matmul_multi kron_matmul_part nccl_id":
        "for several processes: bench/bench_kron_mpi.c, bench/bench_kron_nccl.c",
    "optim.State optim.Transform": "data",
    "krr_path": "no other package has it of a kernel matrix: gram bench krr_path",
    "krr_samples": "solves of krr_solve, and products with the features",
    "krr_variance": "as many solves of krr_solve as there are blocks of points",
    "krr_solve": "has a script of its own, bench/krr.py",
    "solve_operator logdet_operator eigh_operator": "the time is that of the caller's products",
    "kernel_logdet": "an estimate, whose time is that of kernel_matmul: steps times probes columns",
    "sklearn.GaussianProcessRegressor": "factorisations, products and gradients, which have rows",
    "sklearn.KNeighborsTransformer": "a call of nearest, which has rows",
    "compat.kermac.run_kernel compat.kermac.cdist_grad compat.kermac.cdist_expadd "
    "compat.kermac.cdist_grad_expadd compat.kermac.linalg":
        "calls of functions that have rows, under another name",
    "compat.kermac.Alignment compat.kermac.CudaTimer compat.kermac.Majorness "
    "compat.kermac.ModuleCache compat.kermac.Symmetry compat.kermac.TensorStats "
    "compat.kermac.ceil_div compat.kermac.pre_compile_descriptors compat.kermac.tensor_stats "
    "compat.kermac.FillMode compat.kermac.InnerOperator compat.kermac.KernelDescriptor "
    "compat.kermac.KernelType compat.kermac.PowerType compat.kermac.install "
    "compat.kermac.kernel_descriptor_*": "names and tables",
}  # fmt: skip


def names():
    for module in MODULES:
        path = "gram." + module if module else "gram"
        for name in importlib.import_module(path).__all__:
            yield f"{module}.{name}" if module else name


def missing(table):
    """What has neither, as a message; None: nothing."""
    known = {name for rows in table.values() for row in rows for name in row.operation.covers}
    patterns = [p for group in REASONS for p in group.split()]
    left = [n for n in names()
            if n not in known and not any(fnmatch.fnmatchcase(n, p) for p in patterns)]  # fmt: skip
    return f"no row and no reason: {', '.join(left)}" if left else None
