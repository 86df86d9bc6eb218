"""test_programs.py - programs of other packages' users compute the same with libgram"""

import functools
import importlib
import math
import os
import pathlib

import pytest

SOURCE = pathlib.Path(os.environ.get("GRAM_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
METHODS = ["Shampoo", "SOAP", "Muon", "KFAC", "EKFAC"]


@pytest.fixture
def programs(monkeypatch):
    monkeypatch.syspath_prepend(SOURCE / "bench")
    return importlib.import_module("programs")


def both(program, **size):
    return program(True, **size), program(False, **size)


# First: whoever has imported JAX should not fork.
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_of_a_pool_compute_the_same(programs, method, monkeypatch):
    pytest.importorskip("scipy")
    monkeypatch.setenv("PYTHONPATH", f"{SOURCE / 'bench'}:{os.environ.get('PYTHONPATH', '')}")
    ours, theirs = both(programs.pool, method=method, tasks=2)
    assert ours == pytest.approx(theirs, rel=1e-12)


def test_gpytorch_tutorial_ends_at_the_same_loss(programs):
    pytest.importorskip("gpytorch")
    ours, theirs = both(programs.tutorial, points=40, steps=12)
    assert ours == pytest.approx(theirs, abs=1e-3)


@pytest.mark.parametrize("jobs", [1, 2])
def test_search_over_a_pipeline_finds_the_same_score(programs, jobs):
    pytest.importorskip("sklearn")
    ours, theirs = both(programs.search, rows=90, jobs=jobs)
    assert ours == pytest.approx(theirs, abs=1e-6)


def test_jit_and_grad_of_a_gp_descend_alike(programs):
    pytest.importorskip("jax")
    ours, theirs = both(programs.evidence, points=40, steps=4)
    assert ours == pytest.approx(theirs, abs=1e-4)


@pytest.mark.parametrize("name", METHODS)
def test_compiled_loop_trains_with_every_optimizer(programs, name):
    pytest.importorskip("torch", minversion="2.4")
    step = functools.partial(programs.training, True, name, width=16)
    first, last = step(steps=1), step(steps=8)
    assert math.isfinite(last) and last < first
