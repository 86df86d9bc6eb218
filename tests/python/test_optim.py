"""test_optim.py - gram.optim over arrays: against the formulas once more in NumPy, and its states

What needs PyTorch is in test_optim_torch.py.
"""

import pickle
import threading

import gram
import numpy as np
import optim_reference
import pytest

import gram.optim

SHAPES = [(5, 3), (4,), (), (3, 2, 4), (1, 6, 1), (2, 3, 2, 2), (0, 3)]


def draw(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def follow(method, shape, options, reference, steps=12):
    """The parameters after steps of a rule and of its reference, both from the same gradients."""
    rule = gram.optim.transform(method, **options)
    w = expected = draw(shape)
    state = rule.init(w)
    for step in range(steps):
        g = draw(shape, step + 1)
        updates, state = rule.update(g + np.tanh(w), state, w)
        expected = reference.step(expected, g + np.tanh(expected))
        w = w + updates
    return w, expected


SHAMPOOS = {
    "sums": {"eps": 1e-3},
    "averages": {"betas": (0.9, 0.95), "eps": 1e-4},
    "filter": {"betas": (0.9, 0.95), "beta3": 0.8, "eps": 1e-4, "bias_correction": False},
    "no moment": {"betas": (0.0, 0.9), "eps": 1e-3},
    "seldom": {"betas": (0.9, 0.99), "eps": 1e-4, "refresh": 4, "start": 3},
    "staggered": {"eps": 1e-3, "refresh": 3, "start": 2, "block": 2, "merge": False,
                  "stagger": True},
    "statistics of some steps": {"betas": (0.9, 0.9), "eps": 1e-4, "statistics": 3, "start": 2},
    "momentum": {"eps": 1e-3, "momentum": 0.9, "dampening": 0.2},
    "nesterov": {"eps": 1e-3, "momentum": 0.9, "nesterov": True},
    "decay": {"eps": 1e-3, "weight_decay": 0.1},
    "l2": {"eps": 1e-3, "weight_decay": 0.1, "decoupled": False},
    "blocks": {"eps": 1e-3, "block": 3, "merge": False},
    "merged blocks": {"eps": 1e-3, "block": 8},
    "unmerged": {"eps": 1e-3, "merge": False},
    "exponent": {"eps": 1e-3, "exponent": 0.5},
    "unpacked": {"eps": 1e-3, "packed": False, "merge": False},
    "sgd": {"eps": 1e-3, "graft": "sgd", "start": 3},
    "adagrad": {"eps": 1e-3, "graft": "adagrad", "merge": False},
    "rmsprop": {"eps": 1e-3, "graft": "rmsprop", "graft_beta2": 0.9, "start": 2, "merge": False},
    "adam": {"betas": (0.9, 0.95), "eps": 1e-4, "graft": "adam", "graft_beta2": 0.95, "block": 3,
             "start": 4, "merge": False},
}  # fmt: skip


PLAIN = {"graft": None, "refresh": 1}  # as Shampoo was published


def shampoo(shape, options):
    plain = {k: v for k, v in options.items() if k not in ("betas", "packed")}
    plain["beta1"], plain["beta2"] = options.get("betas", (0.9, 1.0))
    return optim_reference.Shampoo(shape, lr=0.05, **plain)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", SHAMPOOS)
def test_shampoo_is_its_formula(name, shape):
    options = {"root": "eigh", **PLAIN, **SHAMPOOS[name]}
    reference = shampoo(shape, SHAMPOOS[name])
    w, expected = follow("shampoo", shape, {"lr": 0.05, **options}, reference)
    np.testing.assert_allclose(w, expected, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("root", ["auto", "coupled-newton", "newton-schulz", "minimax"])
def test_shampoo_by_iterations(root):
    options = {"betas": (0.9, 0.95), "eps": 1e-2}
    reference = shampoo((6, 4), {**options, "merge": False})
    given = {"lr": 0.05, "root": root, "merge": False, **PLAIN, **options}
    w, expected = follow("shampoo", (6, 4), given, reference)
    np.testing.assert_allclose(w, expected, rtol=1e-6, atol=1e-6)


SOAPS = {
    "plain": {},
    "often": {"refresh": 1},
    "seldom": {"refresh": 5, "shampoo_beta": 0.8, "betas": (0.9, 0.99)},
    "decay": {"refresh": 2, "weight_decay": 0.2},
    "sides": {"refresh": 2, "block": 3},
    "no correction": {"refresh": 2, "bias_correction": False},
}


@pytest.mark.parametrize("shape", [(4, 4), (4,), (), (3, 2, 4), (0, 3)], ids=str)
@pytest.mark.parametrize("name", SOAPS)
def test_soap_is_its_formula(name, shape):
    """Of factors of full rank: the eigenvectors of a multiple eigenvalue are nobody's formula."""
    options = {"betas": (0.95, 0.95), "weight_decay": 0.01, **SOAPS[name]}
    plain = {k: v for k, v in options.items() if k != "betas"}
    reference = optim_reference.SOAP(
        shape, lr=0.05, beta1=options["betas"][0], beta2=options["betas"][1], **plain
    )
    w, expected = follow("soap", shape, {"lr": 0.05, **options}, reference, 16)
    np.testing.assert_allclose(w, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 2, 3), (0, 3)], ids=str)
@pytest.mark.parametrize("nesterov", [True, False])
def test_muon_is_its_formula(shape, nesterov):
    options = {"lr": 0.05, "momentum": 0.9, "nesterov": nesterov, "weight_decay": 0.1}
    w, expected = follow("muon", shape, options, optim_reference.Muon(shape, **options))
    np.testing.assert_allclose(w, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shape", [(4,), ()], ids=str)
def test_muon_does_vectors_as_adam_does(shape):
    reference = optim_reference.Adam(
        shape, lr=0.05, beta1=0.8, beta2=0.9, eps=1e-6, weight_decay=0.1
    )
    options = {"lr": 0.05, "betas": (0.8, 0.9), "eps": 1e-6, "weight_decay": 0.1}
    w, expected = follow("muon", shape, options, reference)
    np.testing.assert_allclose(w, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("method", ["shampoo", "soap", "muon"])
def test_a_state_is_a_value(method):
    """The same state gives the same again, saved and loaded too, whatever came after it."""
    rule = gram.optim.transform(method, lr=0.1)
    params = {"a": draw((3, 4)), "b": [draw(5, 1), draw((2, 2), 2).astype(np.float32)]}
    grads = {"a": draw((3, 4), 3), "b": [draw(5, 4), draw((2, 2), 5).astype(np.float32)]}
    state = rule.init(params)
    for _ in range(3):
        _, state = rule.update(grads, state, params)
    copy = pickle.loads(pickle.dumps(state))
    first, after = rule.update(grads, state, params)
    rule.update(grads, after, params)
    other = gram.optim.transform(method, lr=0.1)
    for again, _ in (rule.update(grads, state, params), other.update(grads, copy, params)):
        np.testing.assert_array_equal(again["a"], first["a"])
        np.testing.assert_array_equal(again["b"][1], first["b"][1])
        assert again["b"][1].dtype == np.float32


def test_a_missing_gradient_leaves_its_parameter_alone():
    rule = gram.optim.transform("shampoo", eps=1e-3)
    params = (draw((2, 2)), draw(3))
    state = rule.init(params)
    updates, after = rule.update((draw((2, 2), 1), None), state, params)
    assert updates[1] is None and updates[0].any()
    assert not after.tensors["1.0.factor.0"].any() and after.tensors["steps"].tolist() == [1, 0]


def test_a_rate_that_is_a_function_of_the_step():
    rates = []
    rule = gram.optim.transform("shampoo", lr=lambda step: rates.append(step) or 0.5 / (step + 1))
    fixed = gram.optim.transform("shampoo", lr=0.25)
    w, g = draw(3), draw(3, 1)
    _, state = rule.update(g, rule.init(w), w)
    updates, _ = rule.update(g, state, w)
    np.testing.assert_allclose(updates, fixed.update(g, state, w)[0])
    assert rates == [0, 1]


def test_strided_and_half_arrays():
    rule = gram.optim.transform("shampoo", eps=1e-3)
    w, g = draw((6, 4))[::2, ::-1], draw((4, 3), 1).T
    expected = rule.update(g.copy(), rule.init(w.copy()), w.copy())[0]
    np.testing.assert_array_equal(rule.update(g, rule.init(w), w)[0], expected)
    half = rule.update(g.astype(np.float16), rule.init(w.astype(np.float16)), w.astype(np.float16))
    assert half[0].dtype == np.float32
    np.testing.assert_allclose(half[0], expected, rtol=0.02, atol=1e-3)


def test_a_gradient_that_is_not_finite():
    skip = gram.optim.transform("shampoo", eps=1e-3)
    stop = gram.optim.transform("shampoo", eps=1e-3, not_finite="raise")
    params = [draw((2, 2)), draw(3)]
    bad = [np.array([[1.0, np.nan], [0, 0]]), draw(3, 1)]
    state = skip.init(params)
    updates, after = skip.update(bad, state, params)
    assert not updates[0].any() and updates[1].any()
    assert not after.tensors["0.0.factor.0"].any()
    with pytest.raises(gram.LinAlgError, match="gradient"):
        stop.update(bad, state, params)


def test_zero_and_rank_one_gradients():
    rule = gram.optim.transform("shampoo", betas=(0.9, 0.9), eps=1e-6, merge=False)
    w = draw((4, 3))
    state = rule.init(w)
    for g in (np.zeros((4, 3)), np.outer(draw(4, 1), draw(3, 2)), np.zeros((4, 3))):
        updates, state = rule.update(g, state, w)
        assert np.isfinite(updates).all()


def test_several_threads():
    rule = gram.optim.transform("soap", lr=0.1)
    w, g = draw((20, 20)), draw((20, 20), 1)
    state = rule.update(g, rule.init(w), w)[1]
    expected, results = rule.update(g, state, w)[0], []
    work = [
        threading.Thread(target=lambda: results.append(rule.update(g, state, w)[0]))
        for _ in range(8)
    ]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert len(results) == 8
    for result in results:
        np.testing.assert_array_equal(result, expected)


def test_what_is_refused():
    rule = gram.optim.transform("shampoo")
    w = draw((3, 2))
    state = rule.init(w)
    with pytest.raises(ValueError, match="method is 'adam'"):
        gram.optim.transform("adam")
    with pytest.raises(TypeError, match="no argument 'rate'"):
        gram.optim.transform("shampoo", rate=1)
    with pytest.raises(TypeError, match="no argument 'steps'"):
        gram.optim.transform("shampoo", steps=1)
    with pytest.raises(ValueError, match="eps"):
        gram.optim.transform("shampoo", eps=-1.0)
    with pytest.raises(ValueError, match="graft"):
        gram.optim.transform("shampoo", graft="lamb")
    with pytest.raises(ValueError, match="1 arrays, but params has 2"):
        rule.update([w], state, [w, w])
    with pytest.raises(ValueError, match=r"gradients\[0\] has size 2 in dimension 0"):
        rule.update(w.T, state, w)
    with pytest.raises(ValueError, match="other parameters"):
        rule.update([w, w], state, [w, w])
    with pytest.raises(ValueError, match=r"0\.0\.factor\.0"):
        rule.update(draw((7, 7)), state, draw((7, 7)))
    with pytest.raises(TypeError, match="'gradient' is not an array"):
        rule.update("gradient", state, w)
    with pytest.raises(TypeError):
        rule.update(w.astype(complex), state, w)
    with pytest.raises(AttributeError, match="Adam"):
        gram.optim.Adam  # noqa: B018


def test_inverse_roots():
    q = np.linalg.qr(draw((5, 5)))[0]
    values = np.array([1e-3, 0.1, 1.0, 2.0, 30.0])
    a = q @ np.diag(values) @ q.T
    for power in (-0.25, -0.5, -1.0, 0.5, -1 / 3, -0.123456):
        expected = q @ np.diag((values + 1e-8) ** power) @ q.T
        np.testing.assert_allclose(gram.optim.matrix_inverse_root(a, power), expected, atol=1e-9)
    batch = gram.optim.matrix_inverse_root(np.stack([a, 16 * a]), eps=0.0, method="coupled-newton")
    np.testing.assert_allclose(batch[1], batch[0] / 2, atol=1e-8)
    zero = gram.optim.matrix_inverse_root(np.zeros((2, 2)), eps=1e-4)
    np.testing.assert_allclose(zero, 10 * np.eye(2))
    floored = gram.optim.matrix_inverse_root(np.diag([4.0, -4.0]), -0.5, eps=0.0, floor=0.25)
    np.testing.assert_allclose(floored, np.diag([0.5, 1.0]))
    with pytest.raises(ValueError, match="power is -0.123456"):
        gram.optim.matrix_inverse_root(a, -0.123456, method="newton-schulz")
    with pytest.raises(gram.LinAlgError):
        gram.optim.matrix_inverse_root(-a)
