#!/usr/bin/env python3
"""compare_optimizer_peers.py - steps of Shampoo and SOAP beside other packages' on a GPU, one run

    compare_optimizer_peers.py build/libgram.so [--layers 12] [--block 1024] [--peers FOLDER]

Peers, where they can be imported (FOLDER is put in front of the path): distributed_shampoo
(facebookresearch/optimizers), DASH (ista-daslab-optimizers) and pytorch_optimizer.  The shapes are
those of a transformer of 124 million parameters (compare_optimizers_cuda.py), f32, blocks of 1024,
epsilon 1e-6, random gradients, no first moment.  DASH takes no matrix with rests on both sides and
none that is narrower than a block: for it blocks are of 768 and vectors are left out, and so they
are of its rows of gram.
Milliseconds of a step that takes roots, of one that does not, and of ten of which one does; then
the third direction of one block of 768 x 768, normalised, relative to eigendecompositions in f64.
"""

import argparse
import importlib.util
import sys
import traceback
import types

import compare_optimizers_cuda as own
import torch
from gram_device import DeviceGram

BETA, EPSILON, SIDE = 0.95, 1e-6, 768


class Absent(types.ModuleType):
    """What a package imports and this comparison does not use."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *arguments, **options: None


def dash(block, method, every):
    """The package's own file imports compiled extensions of its other optimizers: left out."""
    for name in ("wandb", "gpustat", "timm", "psutil", "ista_daslab_cuda_tools"):  # fmt: skip
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            sys.modules[name] = Absent(name)
    if "ista_daslab_optimizers" not in sys.modules:
        spec = importlib.util.find_spec("ista_daslab_optimizers")
        package = types.ModuleType("ista_daslab_optimizers")
        package.__path__ = list(spec.submodule_search_locations)
        sys.modules["ista_daslab_optimizers"] = package
    from ista_daslab_optimizers.dash import dash_gpu, types as kinds
    from ista_daslab_optimizers.dash.dash_config import DashConfig

    config = DashConfig(
        beta_G=0.0, beta_LR=BETA, beta_graft=BETA, eps_inv_root=EPSILON,
        inv_root_method=kinds.DashInverseRootMethodType.from_string(method), inv_root_freq=every,
        use_bias_correction=False, start_prec_step=1, block_size=block, newton_steps=30,
        algo_one_dim=kinds.DashAlgoOneDim.SHAMPOO)  # fmt: skip

    class Stepper:
        def __init__(self, parameters):
            self.optimizer = dash_gpu.DashGpu(parameters, lr=1.0, weight_decay=0.0, config=config)
            self.config = config

        def every(self, every):
            config.inv_root_freq = every

        step = property(lambda self: self.optimizer.step)

    return Stepper


def distributed(block, method, every):
    from distributed_shampoo import DistributedShampoo
    from distributed_shampoo.preconditioner import matrix_functions_types as kinds
    from distributed_shampoo.shampoo_types import RootInvShampooPreconditionerConfig

    roots = kinds.EigenConfig() if method == "evd" else kinds.CoupledNewtonConfig()

    class Stepper:
        def __init__(self, parameters):
            self.optimizer = DistributedShampoo(
                parameters, lr=1.0, betas=(0.0, BETA), epsilon=EPSILON, use_bias_correction=False,
                max_preconditioner_dim=block, precondition_frequency=every,
                start_preconditioning_step=1,
                preconditioner_config=RootInvShampooPreconditionerConfig(
                    amortized_computation_config=roots))  # fmt: skip

        def every(self, every):
            for group in self.optimizer.param_groups:
                group["precondition_frequency"] = every
            for holder in vars(self.optimizer).values():
                for item in holder if isinstance(holder, list) else ():
                    for value in item.values() if isinstance(item, dict) else ():
                        if hasattr(value, "_precondition_frequency"):
                            value._precondition_frequency = every

        step = property(lambda self: self.optimizer.step)

    return Stepper


def scalable(block, method, every):
    from pytorch_optimizer import ScalableShampoo

    class Stepper:
        def __init__(self, parameters):
            self.optimizer = ScalableShampoo(
                parameters, lr=1.0, betas=(0.0, BETA), start_preconditioning_step=1,
                preconditioning_compute_steps=every, block_size=block, nesterov=False,
                no_preconditioning_for_layers_with_dim_gt=10**6, shape_interpretation=False,
                matrix_eps=EPSILON,
                graft_type=0, use_svd=method == "evd")  # fmt: skip

        def every(self, every):
            self.optimizer.preconditioning_compute_steps = every

        step = property(lambda self: self.optimizer.step)

    return Stepper


PEERS = [
    ("DASH, coupled Newton", dash, "cn"),
    ("DASH, eigh", dash, "evd"),
    ("distributed_shampoo, coupled Newton", distributed, "cn"),
    ("distributed_shampoo, eigh", distributed, "evd"),
    ("pytorch_optimizer ScalableShampoo, Schur-Newton", scalable, "cn"),
]
OWN = [("coupled Newton", own.NEWTON), ("minimax", own.MINIMAX), ("eigh", own.EIGH)]


def options_of(block, root, every):
    return {"beta1": 0, "beta2": BETA, "block": block, "epsilon": EPSILON, "root": root,
            "refresh": every, "start": 1, "bias_correction": 0, "learning_rate": 1.0,
            "graft": 0}  # fmt: skip


def tell(name, values):
    print(f"{name}: " + ", ".join(f"{k} {v:.4g}" for k, v in values.items()), flush=True)


def tensors(shapes, device):
    torch.manual_seed(0)
    return [torch.randn(s, device=device) for s in shapes], [
        torch.randn(s, device=device) for s in shapes
    ]


def leaves(parameters, gradients):
    copies = [torch.nn.Parameter(p.clone()) for p in parameters]
    for p, g in zip(copies, gradients):
        p.grad = g.clone()
    return copies


def times(step, every):
    """With roots, without, and ten with one."""
    step()
    with_roots = own.timed(step, 1)
    every(10**6)
    step()
    without = own.timed(step, 3)
    return {"roots": with_roots, "none": without, "of 10": (with_roots + 9 * without) / 10}


def gradients_of(device):
    """Drawn before a peer draws numbers of its own."""
    torch.manual_seed(3)
    return [torch.randn(SIDE, SIDE, device=device) for _ in range(3)]


def direction(stepper, device):
    """The third step's change of one block, of length 1."""
    p = torch.nn.Parameter(torch.zeros(SIDE, SIDE, device=device))
    gradients = gradients_of(device)
    optimizer = stepper([p])
    for gradient in gradients:
        p.grad = gradient
        before = p.detach().clone()
        optimizer.step()
    moved = (before - p.detach()).double()
    return moved / moved.norm()


def expected(device):
    left = right = 0
    for g in gradients_of(device):
        g = g.double()
        left, right = (BETA * f + (1 - BETA) * s for f, s in ((left, g @ g.mT), (right, g.mT @ g)))
    root = []
    for factor in (left, right):
        values, vectors = torch.linalg.eigh(factor)
        root.append((vectors * (values.clamp(min=0) + EPSILON) ** -0.25) @ vectors.mT)
    moved = root[0] @ g @ root[1]
    return moved / moved.norm()


class Gram:
    """The library as the peers are."""

    def __init__(self, gram, root, block):
        self.gram, self.root, self.block = gram, root, block

    def __call__(self, parameters):
        p = parameters[0]
        p.grad = torch.zeros_like(p)
        shampoo = own.Shampoo(
            self.gram, [p.detach()], [p.grad], **options_of(self.block, self.root, 1)
        )
        gradient = p.grad  # whose memory the optimizer reads

        def step():
            gradient.copy_(p.grad)
            shampoo.step()
            torch.cuda.synchronize()

        return types.SimpleNamespace(step=step, kept=shampoo)


def run_own(gram, shapes, block, roots, truth, kind):
    for name, root in roots:
        shampoo = own.Shampoo(gram, *tensors(shapes, "cuda"), **options_of(block, root, 1))
        taken = times(shampoo.step, lambda n, s=shampoo: s.change(refresh=n, start=1))
        shampoo.close()
        torch.cuda.empty_cache()
        error = (direction(Gram(gram, root, block), "cuda") - truth).norm().item()
        tell(f"gram, {name}{kind}", {**taken, "error": error})


def run_peer(name, make, method, shapes, block, truth):
    try:
        stepper = make(block, method, 1)
        tell(name, {"error": (direction(stepper, "cuda") - truth).norm().item()})
        optimizer = stepper(leaves(*tensors(shapes, "cuda")))
        tell(name, times(optimizer.step, optimizer.every))
    except Exception as e:
        print(f"{name}: {type(e).__name__}: {str(e)[:200]}", flush=True)
        traceback.print_tb(e.__traceback__, limit=-2, file=sys.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--peers")
    parser.add_argument("--only", default="", help="a part of the names of peers; none: no peer")
    arguments = parser.parse_args()
    sys.path[:0] = [arguments.peers] if arguments.peers else []
    gram = DeviceGram(arguments.library)
    shapes = own.SHAPES[:2] + own.LAYER * arguments.layers + own.SHAPES[-2:]
    matrices = [s for s in shapes if len(s) == 2 and s != (1024, 768)]
    print(torch.__version__, torch.cuda.get_device_name(), f"{arguments.layers} layers", flush=True)
    truth = expected("cuda")
    if arguments.only in ("", "none"):
        run_own(gram, shapes, own.BLOCK, OWN, truth, "")
        run_own(gram, matrices, 768, OWN[:2], truth, ", matrices in blocks of 768")
    for name, make, method in PEERS:
        if arguments.only not in name:
            continue
        of_dash = make is dash
        run_peer(name, make, method, matrices if of_dash else shapes, 768 if of_dash else own.BLOCK,
                 truth)  # fmt: skip
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
