"""peers/distributed_shampoo.py - Shampoo of facebookresearch/optimizers"""

from core.place import NotOffered
from core.shared import shampoo_directions, shampoo_steps
from distributed_shampoo import DistributedShampoo
from distributed_shampoo.preconditioner import matrix_functions_types as kinds
from distributed_shampoo.shampoo_types import RootInvShampooPreconditionerConfig

NAME, PACKAGES, DEVICES = "distributed_shampoo", ["distributed-shampoo"], ("cpu", "cuda")
ROOTS = {"coupled Newton": kinds.CoupledNewtonConfig, "eigh": kinds.EigenConfig}


def optimizer(q, parameters, root, every):
    config = RootInvShampooPreconditionerConfig(amortized_computation_config=ROOTS[root]())
    return DistributedShampoo(
        parameters, lr=1.0, betas=(0.0, q.beta), epsilon=q.epsilon, use_bias_correction=False,
        max_preconditioner_dim=q.block, precondition_frequency=every,
        start_preconditioning_step=1, preconditioner_config=config)  # fmt: skip


def step(q):
    if q.method != "Shampoo":
        raise NotOffered(q.method)
    return shampoo_steps(q, optimizer, ROOTS)


def direction(q):
    return shampoo_directions(q, optimizer, ROOTS)


CALLS = {"step": step, "direction": direction}
