"""test_bits.py - distances and neighbours of rows of packed bits: those of SciPy on the bits"""

import gram
import numpy as np
import pytest
import scipy.spatial.distance

METRICS = ["hamming", "jaccard"]


def draw(rows, bits, seed=0, share=0.4):
    """Bits, with a row of none, one of all and two equal ones."""
    found = np.random.default_rng([seed, rows, bits]).random((rows, bits)) < share
    if rows > 4:
        found[1], found[2], found[4] = False, True, found[3]
    return found


def packed(bits, dirty=False):
    """As np.packbits; dirty: what the last byte has behind the bits is set."""
    found = np.packbits(bits, axis=-1)
    if dirty and bits.shape[-1] % 8:
        found[..., -1] |= 0xFF >> bits.shape[-1] % 8
    return found


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("bits", [1, 2, 7, 8, 9, 31, 32, 33, 63, 64, 65, 991, 993, 5000])
def test_distances_are_those_of_the_bits(metric, bits):
    a, b = draw(30, bits), draw(19, bits, 1)
    wanted = scipy.spatial.distance.cdist(a, b, metric)
    for dirty in (False, True):
        x, y = packed(a, dirty), packed(b, dirty)
        found = gram.cdist(x, y, metric=metric, bits=bits)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, wanted, rtol=2e-7)
    np.testing.assert_array_equal(found, gram.cdist(a * 1.0, b * 1.0, metric=metric).astype("f"))
    own = gram.cdist(packed(a), metric=metric, bits=bits)
    np.testing.assert_allclose(own, scipy.spatial.distance.cdist(a, a, metric), rtol=2e-7)
    assert not own.diagonal().any() and own[3, 4] == 0
    condensed = gram.cdist(packed(a), metric=metric, bits=bits, condensed=True)
    np.testing.assert_array_equal(condensed, own[np.triu_indices(len(a), 1)])


@pytest.mark.parametrize("metric", METRICS)
def test_layouts_and_batches(metric):
    a, b = draw(40, 77), draw(20, 77, 1)
    x, y = packed(a), packed(b)
    wanted = gram.cdist(x, y, metric=metric, bits=77)
    doubled, turned = (lambda x: np.repeat(x, 2, 1)[:, ::2]), (lambda x: x[::-1].copy()[::-1])
    for f in (np.asfortranarray, doubled, turned):
        np.testing.assert_array_equal(gram.cdist(f(x), f(y), metric=metric, bits=77), wanted)
    out = np.full((40, 20), 7, np.float32)
    assert gram.cdist(x, y, metric=metric, bits=77, out=out) is out
    both = gram.cdist(x.reshape(2, 20, -1), y, metric=metric, bits=77)
    np.testing.assert_array_equal(both.reshape(40, 20), wanted)
    assert max(gram.workspace(gram.cdist, x, y, metric=metric, bits=77)) > 0
    assert gram.cdist(x[:0], y, metric=metric, bits=77).shape == (0, 20)


@pytest.mark.parametrize("metric", METRICS)
def test_neighbours(metric):
    a, b = draw(60, 130), draw(2100, 130, 1)
    distances, indices = gram.nearest(packed(a), packed(b), count=7, metric=metric, bits=130)
    wanted = gram.cdist(packed(a), packed(b), metric=metric, bits=130)
    order = np.argsort(wanted, axis=1, kind="stable")[:, :7]
    np.testing.assert_array_equal(indices, order)
    np.testing.assert_array_equal(distances, np.take_along_axis(wanted, order, 1))
    counts = np.empty(60, np.int64)
    gram.nearest(packed(a), count=0, metric=metric, bits=130, radius=0.405, counts=counts)
    own = gram.cdist(packed(a), metric=metric, bits=130)
    np.testing.assert_array_equal(counts, (own <= 0.405).sum(1))


def test_what_is_refused():
    x = packed(draw(5, 20))
    for wrong, error, words in (
        (lambda: gram.cdist(x, metric="hamming", bits=25), ValueError, "3 columns, expected 4"),
        (lambda: gram.cdist(x, metric="hamming", bits=16), ValueError, "3 columns, expected 2"),
        (lambda: gram.cdist(x, metric="hamming", bits=0), ValueError, "bits is 0"),
        (lambda: gram.cdist(x, metric="cosine", bits=20), ValueError, "bits is 20 with the kind"),
        (lambda: gram.cdist(x, bits=20), ValueError, "metric"),
        (lambda: gram.cdist(x * 1.0, metric="jaccard", bits=20), ValueError, "f64, expected u8"),
        (lambda: gram.cdist(x, x * 1.0, metric="jaccard", bits=20), ValueError, "y has dtype f64"),
        (lambda: gram.cdist(x, metric="jaccard", bits=20, weights=[1.0, 1, 1]), ValueError,
         "weights"),
        (lambda: gram.cdist(x, metric="jaccard", bits=20, out=np.empty((5, 5))), ValueError,
         "out has dtype f64, expected f32"),
        (lambda: gram.cdist(x.tolist(), metric="jaccard", bits=20), ValueError, "expected u8"),
        (lambda: gram.nearest(x, count=1, bits=20), ValueError, "metric"),
    ):  # fmt: skip
        with pytest.raises(error, match=words):
            wrong()


def test_bytes_are_numbers_without_bits():
    x = packed(draw(6, 40))
    np.testing.assert_array_equal(gram.cdist(x, p=1), gram.cdist(x.astype(float), p=1))
