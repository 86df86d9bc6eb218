"""peers/dash.py - DASH's Shampoo (ista-daslab-optimizers) on a GPU

It takes no matrix with rests on both sides and none that is narrower than a block.  Its own file
imports compiled extensions of its other optimizers, which this comparison leaves out.
"""

import importlib.util
import sys
import types

from core.place import NotOffered
from core.shared import shampoo_directions, shampoo_steps

NAME, PACKAGES, DEVICES = "DASH", ["ista-daslab-optimizers"], ("cuda",)


class Absent(types.ModuleType):
    """What the package imports and this comparison does not use."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *arguments, **options: None


def load():
    for name in ("wandb", "gpustat", "timm", "psutil", "ista_daslab_cuda_tools"):
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            sys.modules[name] = Absent(name)
    spec = importlib.util.find_spec("ista_daslab_optimizers")
    if spec is None:
        raise ImportError("no ista_daslab_optimizers")
    package = types.ModuleType("ista_daslab_optimizers")
    package.__path__ = list(spec.submodule_search_locations)
    sys.modules["ista_daslab_optimizers"] = package


load()

from ista_daslab_optimizers.dash import dash_gpu  # noqa: E402
from ista_daslab_optimizers.dash import types as kinds  # noqa: E402
from ista_daslab_optimizers.dash.dash_config import DashConfig  # noqa: E402

ROOTS = {"coupled Newton": "cn", "eigh": "evd"}


def optimizer(q, parameters, root, every):
    config = DashConfig(
        beta_G=0.0, beta_LR=q.beta, beta_graft=q.beta, eps_inv_root=q.epsilon,
        inv_root_method=kinds.DashInverseRootMethodType.from_string(ROOTS[root]),
        inv_root_freq=every, use_bias_correction=False, start_prec_step=1, block_size=q.block,
        newton_steps=30, algo_one_dim=kinds.DashAlgoOneDim.SHAMPOO)  # fmt: skip
    return dash_gpu.DashGpu(parameters, lr=1.0, weight_decay=0.0, config=config)


def step(q):
    if q.method != "Shampoo" or any(len(s) < 2 or min(s) < q.block for s in q.shapes):
        raise NotOffered("matrices of whole blocks alone")
    return shampoo_steps(q, optimizer, ROOTS)


def direction(q):
    return shampoo_directions(q, optimizer, ROOTS)


CALLS = {"step": step, "direction": direction}
