"""test_sample_grad.py - gram.sample_grad and gram.kfac_factors against einsum in NumPy"""

import gram
import numpy as np
import pytest


def draw(*shape, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def patches(a, kernel, stride, padding, dilation):
    """(N, positions, C * kernel) of a 2-d convolution, one element after the other."""
    n, c, height, width = a.shape
    padded = np.pad(a, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    size = [
        (x + 2 * p - d * (k - 1) - 1) // s + 1
        for x, p, d, k, s in zip((height, width), padding, dilation, kernel, stride, strict=True)
    ]
    out = np.zeros((n, *size, c, *kernel))
    for y in range(size[0]):
        for x in range(size[1]):
            for i in range(kernel[0]):
                for j in range(kernel[1]):
                    row, col = y * stride[0] + i * dilation[0], x * stride[1] + j * dilation[1]
                    out[:, y, x, :, i, j] = padded[:, :, row, col]
    return out.reshape(n, size[0] * size[1], -1)


def norms(*gradients):
    return np.sqrt(sum((g.reshape(len(g), -1) ** 2).sum(1) for g in gradients))


@pytest.mark.parametrize("positions", [(), (7,), (3, 2)])
def test_linear(positions):
    a, g = draw(5, *positions, 4), draw(5, *positions, 3, seed=1)
    rows, flat = a.reshape(5, -1, 4), g.reshape(5, -1, 3)
    weight, bias = np.einsum("nso,nsi->noi", flat, rows), flat.sum(1)
    found = gram.sample_grad(a, g)
    np.testing.assert_allclose(found[0], weight, atol=1e-13)
    np.testing.assert_allclose(found[1], bias, atol=1e-13)
    for method in ("auto", "ghost", "blocks"):
        norm = gram.sample_grad(a, g, output="norm", method=method)
        np.testing.assert_allclose(norm, norms(weight, bias), rtol=1e-12)
    alone = gram.sample_grad(a, g, bias=False)
    assert len(alone) == 1 and alone[0].shape == weight.shape
    np.testing.assert_allclose(gram.sample_grad(a, g, scale=-2.0)[0], -2 * weight, atol=1e-12)


def test_clipped_sums():
    a, g = draw(6, 4), draw(6, 3, seed=1)
    weight, bias = g[:, :, None] * a[:, None, :], g
    long = norms(weight, bias)
    c = np.minimum(1, 2.0 / (long + 1e-6))
    assert (c < 1).any()
    found = gram.sample_grad(a, g, output="sum", clip=2.0)
    np.testing.assert_allclose(found[0], np.einsum("n,noi->oi", c, weight), atol=1e-13)
    np.testing.assert_allclose(found[1], c @ bias, atol=1e-13)
    np.testing.assert_allclose(found[2], long, rtol=1e-13)
    given = gram.sample_grad(a, g, output="sum", coefficients=c)
    np.testing.assert_allclose(given[0], found[0], atol=1e-13)
    a[2] = np.nan
    clipped = gram.sample_grad(a, g, output="sum", clip=2.0)
    assert np.isfinite(clipped[0]).all() and np.isnan(clipped[2][2])
    c[2] = 0
    np.testing.assert_allclose(
        clipped[0], np.einsum("n,noi->oi", c, np.nan_to_num(weight)), atol=1e-13
    )


def test_convolution_in_groups():
    shape = {"kernel_size": (3, 2), "stride": (2, 1), "padding": (1, 0), "dilation": (1, 2)}
    a = draw(3, 4, 6, 7)
    rows = patches(a, *shape.values())
    g = draw(3, 6, 3, 5, seed=1)
    flat, half = g.reshape(3, 6, -1), rows.shape[2] // 2
    weight = np.concatenate(
        [
            np.einsum("nop,npi->noi", flat[:, :3], rows[..., :half]),
            np.einsum("nop,npi->noi", flat[:, 3:], rows[..., half:]),
        ],
        axis=1,
    )
    found = gram.sample_grad(a, g, "convolution", groups=2, **shape)
    assert found[0].shape == (3, 6, 2, 3, 2)
    np.testing.assert_allclose(found[0].reshape(3, 6, -1), weight, atol=1e-12)
    factors = gram.kfac_factors(a, g, "convolution", groups=2, bias=False, **shape)
    first = rows[..., :half].reshape(-1, half)
    np.testing.assert_allclose(factors[0][0], first.T @ first / len(first), atol=1e-13)
    np.testing.assert_allclose(
        factors[1][1], np.einsum("nop,nqp->oq", flat[:, 3:], flat[:, 3:]) / 3, atol=1e-13
    )


def test_embedding():
    rows, g = np.array([[1, 1, 0], [2, 3, 3]]), draw(2, 3, 5)
    weight = np.zeros((2, 4, 5))
    for n in range(2):
        for s in range(3):
            if rows[n, s] != 3:
                weight[n, rows[n, s]] += g[n, s]
    found = gram.sample_grad(rows, g, "embedding", rows=4, padding_row=3)
    assert len(found) == 1
    np.testing.assert_allclose(found[0], weight, atol=1e-14)
    a, b = gram.kfac_factors(rows, g, "embedding", rows=4, padding_row=3)
    np.testing.assert_allclose(a, np.array([1, 2, 1, 0]) / 6)
    counted = g[rows != 3]
    np.testing.assert_allclose(b, counted.T @ counted / 2, atol=1e-14)


def test_normalisations():
    a, g = draw(3, 4, 6), draw(3, 4, 6, seed=1)
    x = (a - a.mean(-1, keepdims=True)) / np.sqrt(a.var(-1, keepdims=True) + 1e-5)
    found = gram.sample_grad(a, g, "layer_norm")
    np.testing.assert_allclose(found[0], (g * x).sum(1), atol=1e-13)
    pairs = a.reshape(3, 2, -1)
    x = (pairs - pairs.mean(-1, keepdims=True)) / np.sqrt(pairs.var(-1, keepdims=True) + 0.1)
    found = gram.sample_grad(a, g, "group_norm", groups=2, epsilon=0.1)
    np.testing.assert_allclose(found[0], (g * x.reshape(a.shape)).sum(-1), atol=1e-13)
    np.testing.assert_allclose(found[1], g.sum(-1), atol=1e-13)


def test_factors():
    a, g = draw(5, 3, 4), draw(5, 3, 2, seed=1)
    ones = np.concatenate([a, np.ones((5, 3, 1))], axis=-1)
    rows, grads = ones.reshape(-1, 5), g.reshape(-1, 2)
    found = gram.kfac_factors(a, g, scale=3.0)
    np.testing.assert_allclose(found[0], rows.T @ rows / 15, atol=1e-14)
    np.testing.assert_allclose(found[1], 9 * grads.T @ grads / 5, atol=1e-13)
    mean, total = ones.mean(1), g.sum(1)
    reduced = gram.kfac_factors(a, g, setting="reduce")
    np.testing.assert_allclose(reduced[0], mean.T @ mean / 5, atol=1e-14)
    np.testing.assert_allclose(reduced[1], total.T @ total / 5, atol=1e-13)
    before = [f.copy() for f in found]
    gram.kfac_factors(a, g, setting="reduce", keep=0.75, out=found)
    for new, old, other in zip(found, before, reduced, strict=True):
        np.testing.assert_allclose(new, 0.75 * old + 0.25 * other, atol=1e-13)
    (only,) = gram.kfac_factors(None, g)
    np.testing.assert_allclose(only, grads.T @ grads / 5, atol=1e-14)


def test_refusals():
    a, g = draw(2, 4), draw(2, 3)
    for wrong, words in (
        ({"kind": "convolution"}, "activations has 2 dimensions"),
        ({"kind": "dense"}, "kind"),
        ({"output": "all"}, "output"),
        ({"clip": -1.0}, "clip"),
        ({"coefficients": draw(3)}, "coefficients"),
        ({"kind": "embedding", "rows": 3}, "dtype f64"),
    ):
        with pytest.raises(ValueError, match=words):
            gram.sample_grad(a, g, **wrong)
    with pytest.raises(ValueError, match="gradients is None"):
        gram.sample_grad(a, None)
    with pytest.raises(ValueError, match="keep is given without out"):
        gram.kfac_factors(a, g, keep=0.5)
    with pytest.raises(ValueError, match="a normalisation"):
        gram.kfac_factors(a, draw(2, 4), "layer_norm")
    with pytest.raises(ValueError, match="kernel_size has 4 numbers"):
        gram.sample_grad(a, g, "convolution", kernel_size=(1, 1, 1, 1))
    host, device = gram.workspace(gram.sample_grad, a, g, output="sum", clip=1.0)
    assert host > 0 and device == 0
    assert gram.workspace(gram.kfac_factors, a, g)[0] > 0
