"""test_optim_zoo.py - a quick part of bench/optimizer_zoo.py, and what it began with"""

import importlib.util
import itertools
import math
import os
import pathlib
import warnings

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")

import gram.optim  # noqa: E402

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("zoo", SOURCE / "bench" / "optimizer_zoo.py")
zoo = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(zoo)


@pytest.mark.parametrize("problem", zoo.PROBLEMS, ids=lambda kind: kind.__name__)
def test_nothing_fails_in_the_zoo(problem):
    """Of every optimizer, with the options that this problem's turn is."""
    turn = zoo.PROBLEMS.index(problem)
    by_method = {}
    for name in zoo.OPTIMIZERS:
        by_method.setdefault(name.split(",")[0], []).append(name)
    for names in by_method.values():
        name = names[turn % len(names)]
        outcome = zoo.compete(problem, name, math.inf, 0, steps=25)
        assert outcome is None or outcome[0] == "ok", f"{name}: {outcome}"


@pytest.fixture(scope="module")
def adamw():
    """The best last loss of AdamW on inputs of rank 2, and what counts as solved."""
    return zoo.adamw(zoo.LowRank, "cpu", zoo.STEPS)


@pytest.mark.parametrize("name", ["Shampoo", "SOAP", "Muon"])
def test_losses_are_adamws_in_the_zoo(name, adamw):
    outcome, ratio, _ = zoo.compete(zoo.LowRank, name, *adamw)
    assert outcome == "ok", f"{ratio} times AdamW's loss"


@pytest.mark.skipif("GRAM_TEST_ZOO" not in os.environ, reason="takes minutes: GRAM_TEST_ZOO=1")
@pytest.mark.parametrize(
    ("problem", "name"), [*itertools.product(zoo.PROBLEMS, zoo.OPTIMIZERS)], ids=str
)
def test_the_whole_zoo(problem, name):
    best, floor = zoo.adamw(problem, "cpu", zoo.STEPS)
    outcome = zoo.compete(problem, name, best, floor)
    assert outcome is None or outcome[0] == "ok", outcome


GRAFTS = [None, "sgd", "adagrad", "rmsprop", "adam"]


@pytest.mark.parametrize("root", ["eigh", "coupled-newton", "newton-schulz", "minimax"])
@pytest.mark.parametrize("refresh", [1, 10])
def test_shampoo_of_normal_gradients(root, refresh):
    """A 16 by 4 parameter raised LinAlgError at step 6."""
    for graft in GRAFTS:
        torch.manual_seed(0)
        p = torch.nn.Parameter(torch.randn(16, 4))
        optimizer = gram.optim.Shampoo([p], root=root, refresh=refresh, graft=graft)
        for _ in range(30):
            p.grad = torch.randn(16, 4)
            optimizer.step()
            assert optimizer.reports[0]["failed"] == 0
            assert torch.isfinite(p).all()


def test_shampoo_of_a_network_with_one_output():
    """A network of 10, 16 and 1 raised LinAlgError at step 14 with graft="adam", was infinite with
    refresh=10, NaN with root="minimax"."""
    for options in ({}, {"refresh": 1}, {"root": "minimax"}, {"root": "minimax", "refresh": 1}):
        problem = zoo.Network()
        first, last = zoo.train(problem, gram.optim.Shampoo(problem.model.parameters(), **options),
                                100)  # fmt: skip
        assert last < 0.5 * first


def test_shampoos_defaults():
    """They are Adam's step lengths and roots every 10 steps; the old ones are still there."""
    p = [torch.nn.Parameter(torch.ones(2, 2))]
    defaults = gram.optim.Shampoo(p).defaults
    assert (defaults["graft"], defaults["refresh"]) == ("adam", 10)
    published = gram.optim.Shampoo(p, graft=None, refresh=1)
    p[0].grad = torch.ones(2, 2)
    published.step()
    assert not any("second" in name for name in published.state_dict()["state"][0])


@pytest.mark.parametrize("method", ["Shampoo", "SOAP", "Muon"])
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"lr": -1}, "Invalid learning rate: -1"),
        ({"lr": math.nan}, "Invalid learning rate: nan"),
        ({"lr": math.inf}, "Invalid learning rate: inf"),
        ({"eps": -1e-8}, "Invalid epsilon value: -1e-08"),
        ({"weight_decay": -0.1}, r"Invalid weight_decay value: -0\.1"),
        ({"betas": (1.0, 0.9)}, r"Invalid beta parameter at index 0: 1\.0"),
        ({"betas": (0.9, -1)}, "Invalid beta parameter at index 1: -1"),
        ({"betas": (0.9, 1.5)}, r"Invalid beta parameter at index 1: 1\.5"),
    ],
    ids=str,
)
def test_invalid_numbers_are_refused_as_torch_refuses_them(method, options, says):
    """lr=-1 was accepted."""
    p = torch.nn.Parameter(torch.ones(2, 2))
    with pytest.raises(ValueError, match=says):
        getattr(gram.optim, method)([p], **options)
    if method == "SOAP" and options != {"lr": math.inf}:  # torch takes an infinite rate
        with pytest.raises(ValueError, match=says):
            torch.optim.AdamW([p], **options)


def test_a_rate_that_turns_negative_is_refused():
    p = torch.nn.Parameter(torch.ones(2, 2))
    optimizer = gram.optim.Shampoo([p])
    optimizer.param_groups[0]["lr"] = -1.0
    p.grad = torch.ones(2, 2)
    with pytest.raises(ValueError, match="Invalid learning rate"):
        optimizer.step()
    with pytest.raises(ValueError, match="Invalid learning rate"):
        gram.optim.transform("muon", lr=-1)


@pytest.mark.parametrize("name", ["KFAC", "EKFAC"])
def test_kfac_refuses_a_negative_rate(name):
    with pytest.raises(ValueError, match="Invalid learning rate: -1"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        getattr(gram.optim, name)(torch.nn.Linear(2, 2), lr=-1)
