"""torch.cdist by libgram, with its gradients, for every p and near points as exact as far ones."""

import torch

import gram.torch

__all__ = ["cdist"]


def cdist(x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    """torch.cdist: distances of x1 (..., m, k) and x2 (..., n, k); batches broadcast.

    compute_mode is taken and not needed: nothing is lost where points are near.  What libgram does
    not take goes to PyTorch: other dtypes and k = 0.  Raises RuntimeError as PyTorch does.

    >>> cdist(torch.zeros(1, 2), torch.ones(1, 2), p=1.0).item()
    2.0
    """
    ours = x1.dtype == x2.dtype and x1.dtype in (torch.float32, torch.float64)
    if not ours or x1.shape[-1:] == (0,):
        return torch.cdist(x1, x2, p, compute_mode)
    if min(x1.dim(), x2.dim()) < 2 or x1.shape[-1] != x2.shape[-1] or p < 0:
        return torch.cdist(x1, x2, p, compute_mode)  # which says what is wrong
    return gram.torch.cdist(x1, x2, p)
