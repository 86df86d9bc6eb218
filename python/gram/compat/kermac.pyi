import dataclasses
import enum
import types
from collections.abc import Iterable
from typing import Any, NoReturn, TypeAlias

import torch

Number: TypeAlias = float | torch.Tensor | None

__version__: str
kernel_descriptor_laplace_l1: KernelDescriptor
kernel_descriptor_laplace_l2: KernelDescriptor
kernel_descriptor_p_norm: KernelDescriptor
kernel_descriptor_l1_norm: KernelDescriptor
kernel_descriptor_l2_norm: KernelDescriptor
kernel_descriptor_mma: KernelDescriptor
linalg: types.ModuleType

class InnerOperator(enum.Enum):
    DIFF = 0
    DOT = 1

class PowerType(enum.Enum):
    NOOP = 0
    ABS = 1
    SQUARE = 2
    SQRT = 3
    POW = 4

class Symmetry(enum.Enum):
    NonSymmetric = 0
    Symmetric = 1

class KernelType(enum.Enum):
    NONE = 0
    LAPLACE = 1
    GAUSSIAN = 2

@dataclasses.dataclass(frozen=True)
class KernelDescriptor:
    inner_operator: InnerOperator
    inner_power: PowerType
    outer_power: PowerType
    kernel_type: KernelType

class Majorness(enum.Enum):
    COL_MAJOR = 0
    ROW_MAJOR = 1

class Alignment(enum.Enum):
    ALIGN_1 = 0
    ALIGN_4 = 1

class TensorStats:
    shape: tuple[int, int, int]
    majorness: Majorness
    alignment: Alignment
    num_batches: int
    batch_stride: int
    leading_dimension_stride: int
    def __init__(self, tensor: torch.Tensor) -> None: ...

def tensor_stats(tensor: torch.Tensor) -> TensorStats: ...

class CudaTimer:
    def __init__(self) -> None: ...
    def start(self) -> None: ...
    def stop(self) -> float: ...

def ceil_div(x: float, d: float) -> int: ...
def cdist(
    a: torch.Tensor,
    b: torch.Tensor,
    out: torch.Tensor | None = None,
    p: float = 2.0,
    skip_epilogue: bool = False,
    try_to_align: bool = False,
    debug: bool = False,
) -> torch.Tensor: ...
def run_kernel(
    kernel_descriptor: KernelDescriptor,
    a: torch.Tensor,
    b: torch.Tensor,
    out: torch.Tensor | None = None,
    p: Number = None,
    inner_p: Number = None,
    outer_p: Number = None,
    bandwidth: Number = None,
    epsilon: Number = None,
    regularization: Number = None,
    regularization_offset_x: int = 0,
    regularization_offset_y: int = 0,
    try_to_align: bool = False,
    debug: bool = False,
) -> torch.Tensor: ...
def pre_compile_descriptors(
    device: str | torch.device,
    descriptors: Iterable[KernelDescriptor],
    try_to_align: bool = False,
    debug: bool = False,
) -> None: ...

class ModuleCache:
    def __init__(self, debug: bool = False) -> None: ...
    def compile_and_cache_functions(
        self, device: Any, function_names: Any, debug: bool = False
    ) -> NoReturn: ...
    def get_function(self, device: Any, function_name: Any, debug: bool = False) -> NoReturn: ...

def cdist_grad(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    d: torch.Tensor,
    out: torch.Tensor | None = None,
    p: float = 2.0,
    eps: float = 1e-8,
    debug: bool = False,
) -> torch.Tensor: ...
def cdist_expadd(
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    p: float,
    lengthscale: float | None = None,
    scale: float | None = None,
    out: torch.Tensor | None = None,
    debug: bool = False,
) -> torch.Tensor: ...
def cdist_grad_expadd(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    d: torch.Tensor,
    *,
    p: float,
    q: float,
    c0: float,
    scale: float | None = None,
    lengthscale: float | None = None,
    eps: float = 1e-8,
    s_km: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    debug: bool = False,
) -> torch.Tensor: ...

class FillMode(enum.Enum):
    LOWER = 0
    UPPER = 1

def solve_cholesky(
    a: torch.Tensor,
    b: torch.Tensor,
    fill_mode: FillMode = FillMode.LOWER,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_errors: bool = False,
    debug: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]: ...
def solve_lu(
    a: torch.Tensor,
    b: torch.Tensor,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_errors: bool = False,
    debug: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]: ...
def eigh(
    a: torch.Tensor,
    fill_mode: FillMode = FillMode.LOWER,
    overwrite_a: bool = False,
    check_errors: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]: ...
def install() -> None: ...
