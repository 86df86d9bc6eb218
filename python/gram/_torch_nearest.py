"""gram.torch.nearest: the search as an operator, and distances that have gradients."""

import torch
from gram import _core
from gram._torch_kernels import result_type
from gram._torch_register import operator


def _shapes(x, y, count, p, exclude_self, radius, metric, weights):
    other = x if y is None else y
    batch = torch.broadcast_shapes(x.shape[:-2], other.shape[:-2])
    if weights is not None:
        batch = torch.broadcast_shapes(batch, weights.shape[:-1])
    shape = (*batch, x.shape[-2], count)
    return x.new_empty(shape, dtype=result_type(x)), x.new_empty(shape, dtype=torch.int64)


@operator(
    "(Tensor x, Tensor? y, int count, float p, bool exclude_self, float? radius, str? metric,"
    " Tensor? weights) -> (Tensor, Tensor)",
    cores={0: 2, 1: 2, 7: 1},
    shapes=_shapes,
)
def nearest(x, y, count, p, exclude_self, radius, metric, weights):
    other = None if y is None else y.detach()
    options = {"count": count, "exclude_self": exclude_self, "radius": radius}
    if metric in (None, "minkowski"):
        options["p"] = p
    if weights is not None:
        options["weights"] = weights.detach()
    return _core.nearest(x.detach(), other, metric=metric, **options)


def _ratio(a, b):
    """a / b, 0 where b is 0, without a NaN in gradients."""
    zero = b == 0
    return torch.where(zero, 0, a / torch.where(zero, 1, b))


def _root(s):
    """The root, with the gradient 0 where it is 0."""
    zero = s <= 0
    return torch.where(zero, 0, torch.where(zero, 1, s).sqrt())


def _minkowski(a, b, w, p):
    d = a - b
    if p == 0:
        return ((d != 0) * w).sum(-1).to(d.dtype)
    return torch.linalg.vector_norm(d * (w > 0 if p == torch.inf else w ** (1 / p)), p, dim=-1)


def _seuclidean(a, b, w):
    return torch.linalg.vector_norm((a - b) / w.sqrt(), dim=-1)


def _cosine(a, b, w):
    return 1 - (w * a * b).sum(-1) / ((w * a * a).sum(-1) * (w * b * b).sum(-1)).sqrt()


def _correlation(a, b, w):
    a, b = (t - (w * t).sum(-1, keepdim=True) / w.sum(-1, keepdim=True) for t in (a, b))
    return _cosine(a, b, w)


def _canberra(a, b, w):
    return (w * _ratio((a - b).abs(), a.abs() + b.abs())).sum(-1)


def _braycurtis(a, b, w):
    return (w * (a - b).abs()).sum(-1) / (w * (a + b).abs()).sum(-1)


def _jensenshannon(a, b, w):
    a, b = (t / t.sum(-1, keepdim=True) for t in (a, b))
    middle = (a + b) / 2
    return _root((_kullback_leibler(a, middle, w) + _kullback_leibler(b, middle, w)) / 2)


def _kullback_leibler(a, b, w):
    zero = a == 0
    terms = torch.where(zero, 1, a) * torch.where(zero, 1, a / b).log()
    return (w * torch.where(zero, 0, terms)).sum(-1)


def _hellinger(a, b, w):
    return torch.linalg.vector_norm((_root(a) - _root(b)) * (w / 2).sqrt(), dim=-1)


def _chi2(a, b, w):
    return (w * _ratio((a - b) ** 2, a + b)).sum(-1)


def _haversine(a, b, w):
    del w
    sines = ((a - b) / 2).sin() ** 2
    cosines = a[..., 0].cos() * b[..., 0].cos()
    return 2 * torch.asin(_root(sines[..., 0] + cosines * sines[..., 1]).clamp(max=1))


def _nan_euclidean(a, b, w):
    missing = a.isnan() | b.isnan()
    there = torch.where(missing, 0, w)
    d = torch.where(missing, 0, a - b)
    return _root(w.sum(-1) / there.sum(-1) * (there * d * d).sum(-1))


# The distances that have gradients; those of Hamming and Jaccard are 0 almost everywhere.
_DISTANCES = {
    "seuclidean": _seuclidean,
    "cosine": _cosine,
    "correlation": _correlation,
    "canberra": _canberra,
    "braycurtis": _braycurtis,
    "jensenshannon": _jensenshannon,
    "kullback-leibler": _kullback_leibler,
    "hellinger": _hellinger,
    "chi2": _chi2,
    "haversine": _haversine,
    "nan-euclidean": _nan_euclidean,
}


def has_gradients(metric):
    return metric in (None, "minkowski") or metric in _DISTANCES


def differentiable(x, y, indices, p, metric=None, weights=None):
    """The distances of the pairs that indices names, made of operations that have gradients."""
    m, count = indices.shape[-2:]
    y = x if y is None else y
    batch = indices.shape[:-2]
    x, y = (t.to(result_type(t)).expand(*batch, *t.shape[-2:]) for t in (x, y))
    places = indices.clamp(min=0).reshape(*batch, m * count, 1)
    rows = y.gather(-2, places.expand(*batch, m * count, y.shape[-1]))
    rows = rows.reshape(*batch, m, count, y.shape[-1])
    w = x.new_ones(x.shape[-1]) if weights is None else weights.detach().to(x.dtype)
    w = w[..., None, None, :]
    a = x.unsqueeze(-2).expand(rows.shape)
    if metric in (None, "minkowski"):
        found = _minkowski(a, rows, w, p)
    else:
        found = _DISTANCES[metric](a, rows, w.expand(rows.shape))
    return torch.where(indices < 0, torch.inf, found)
