"""peers/gpytorch.py - GPyTorch's own kernels"""

import gpytorch

NAME, PACKAGES, DEVICES = "GPyTorch", ["gpytorch", "torch"], ("cpu", "cuda")


def gp_step(q):
    return q.trainer(gpytorch.kernels)


CALLS = {"gp_step": gp_step}
