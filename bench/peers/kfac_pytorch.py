"""peers/kfac_pytorch.py - the package kfac-pytorch; a folder of it may be on PYTHONPATH"""

import importlib.metadata

import torch

try:
    importlib.metadata.version("kfac-pytorch")
except importlib.metadata.PackageNotFoundError:  # a folder has no version, which it asks for
    told = importlib.metadata.version
    importlib.metadata.version = lambda name: "of a folder" if "kfac" in name else told(name)

from kfac.preconditioner import KFACPreconditioner  # noqa: E402

NAME, PACKAGES, DEVICES = "kfac-pytorch", ["kfac-pytorch"], ("cpu", "cuda")


def training(q):
    class Package:
        def __init__(self, model, method):
            self.sgd = torch.optim.SGD(model.parameters(), lr=q.rate, momentum=q.momentum)
            self.kfac = KFACPreconditioner(
                model, factor_update_steps=1, inv_update_steps=q.refresh, damping=q.damping,
                factor_decay=q.decay, kl_clip=q.kl_clip, lr=q.rate, compute_method=method)

        def step(self):
            self.kfac.step()
            self.sgd.step()

    return q.ways({method: lambda model, m=method: Package(model, m)
                   for method in ("inverse", "eigen")})  # fmt: skip


CALLS = {"training": training}
