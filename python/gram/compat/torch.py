"""torch.cdist with its gradients, computed by libgram for every p, as accurately for points that
are close to each other as for others."""

import torch

import gram.torch

__all__ = ["cdist"]


def cdist(x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    """The same as torch.cdist: distances (..., m, n) of x1 (..., m, k) and x2 (..., n, k), whose
    batches broadcast.

    compute_mode is accepted but has no effect, since results are accurate also for points that are
    close to each other.  Dtypes other than float32 and float64, and k = 0, are passed to PyTorch.
    Raises RuntimeError as PyTorch does.

    >>> cdist(torch.zeros(1, 2), torch.ones(1, 2), p=1.0).item()
    2.0
    """
    ours = x1.dtype == x2.dtype and x1.dtype in (torch.float32, torch.float64)
    if not ours or x1.shape[-1:] == (0,):
        return torch.cdist(x1, x2, p, compute_mode)
    if min(x1.dim(), x2.dim()) < 2 or x1.shape[-1] != x2.shape[-1] or p < 0:
        return torch.cdist(x1, x2, p, compute_mode)  # which says what is wrong
    return gram.torch.cdist(x1, x2, p)
