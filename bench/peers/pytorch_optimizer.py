"""peers/pytorch_optimizer.py - SOAP and ScalableShampoo of pytorch_optimizer"""

import pytorch_optimizer
from core.place import NotOffered
from core.tables import Call

NAME, PACKAGES, DEVICES = "pytorch_optimizer", ["pytorch_optimizer"], ("cpu", "cuda")


def shampoo(q, parameters, every, block):
    return pytorch_optimizer.ScalableShampoo(
        parameters, lr=1.0, betas=(0.0, q.beta), start_preconditioning_step=1,
        preconditioning_compute_steps=every, block_size=block, nesterov=False,
        no_preconditioning_for_layers_with_dim_gt=10**6, shape_interpretation=False,
        matrix_eps=q.epsilon, graft_type=0, use_svd=False)  # fmt: skip


def step(q):
    if q.method == "SOAP":
        optimizer = pytorch_optimizer.SOAP(q.leaves(), precondition_frequency=10)
        return {"SOAP, of 10": q.steps(optimizer, 10)}
    if q.method != "Shampoo":
        raise NotOffered(q.method)
    ways = {"Schur-Newton, every step": (1, 1), "no roots": (10**6, 1),
            "Schur-Newton, of 10": (10, 10)}  # fmt: skip
    return {name: q.steps(shampoo(q, q.leaves(), every, q.block), count)
            for name, (every, count) in ways.items()}  # fmt: skip


def direction(q):
    return {"Schur-Newton": Call(q.moved(lambda ps: shampoo(q, ps, 1, q.block).step))}


CALLS = {"step": step, "direction": direction}
