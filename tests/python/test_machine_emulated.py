"""test_machine_emulated.py - kernel machines with the emulation of CUDA beside the CPU"""

import gram
import numpy as np
from emulated_tensors import cuda

__all__ = ["cuda"]  # a fixture

GIVEN = {"p": 2.0, "q": 1.0, "bandwidth": 2.0, "regularization": 0.1, "seed": 1, "dtype": "float64"}


def table(n):
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, (n, 2))
    return x, np.column_stack([np.sin(3 * x[:, 0]) + x[:, 1], 100 * x[:, 0] * x[:, 1]])


def test_centres_learn_from_weighted_rows(cuda):
    x, y = table(120)
    options = {**GIVEN, "centres": 12, "iterations": -1, "leaf_rows": 80}
    weights = np.where(np.arange(120) % 3, 1.5, 0.01)
    found = [
        gram.Machine.fit(x, y[:, 0], weights=weights, device=device, **options).predict(x)
        for device in ("cpu", "cuda")
    ]
    np.testing.assert_allclose(*found, atol=1e-6)


def test_leaves_are_the_same_without_some_rows(cuda):
    """What a leaf says of rows that are left out comes from its factorization on the device."""
    x, y = table(1250)
    options = {**GIVEN, "iterations": -1, "leaf_rows": 400, "ensemble": 1, "target_transform": "none"}
    here, there = (
        gram.Machine.fit(x, y[:, 0], device=device, **options) for device in ("cpu", "cuda")
    )
    assert here.description["held_out"]["rows"] == 50
    scores = [m.description["held_out"]["score"] for m in (here, there)]
    np.testing.assert_allclose(*scores, rtol=1e-6)
    assert here.description["temperature"] == there.description["temperature"]
    np.testing.assert_allclose(here.predict(x[:50]), there.predict(x[:50]), atol=1e-6)


def test_several_targets(cuda):
    x, y = table(50)
    options = {**GIVEN, "search": -1, "iterations": 1}
    found = [gram.Machine.fit(x, y, device=device, **options) for device in ("cpu", "cuda")]
    np.testing.assert_allclose(found[0].predict(x), found[1].predict(x), rtol=1e-6, atol=1e-6)
    on_device = found[0].predict(x, device="cuda")
    np.testing.assert_allclose(found[0].predict(x), on_device, rtol=1e-9, atol=1e-9)
    ends = found[0].predict_interval(x, 0.8, device="cuda")
    np.testing.assert_allclose(found[0].predict_interval(x, 0.8), ends, rtol=1e-9, atol=1e-9)
