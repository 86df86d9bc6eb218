"""test_training.py - bench/train_second_order.py: settings, steps of every method, reports"""

import importlib
import math
import os
import pathlib
from types import SimpleNamespace

import gram
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")

SOURCE = pathlib.Path(os.environ.get("GRAM_SOURCE_DIR", pathlib.Path(__file__).parents[2]))


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(SOURCE / "bench")
    threads, mine = torch.get_num_threads(), gram.get_threads()
    yield importlib.import_module("train_second_order")
    torch.set_num_threads(threads)
    gram.set_threads(mine)


@pytest.mark.parametrize("task", ["mlp", "conv", "text"])
def test_every_method_takes_steps_that_its_trial_decides(script, task):
    for method in script.METHODS:
        *_, curve = script.job(task, method, 0, 0, 2, 1)
        assert [step for step, _ in curve] == [0, 1, 2]
        assert all(math.isfinite(loss) for _, loss in curve)
        first, again, other = (script.setting(task, method, trial)[:2] for trial in (0, 0, 1))
        assert first == again != other


def test_what_is_chosen_and_reported(script, tmp_path, capsys):
    trials, curves = tmp_path / "trials.csv", tmp_path / "curves.csv"
    rows = ["task,method,trial,seed,steps,step,loss"]
    for trial, losses in ((0, (1, 9, 9)), (1, (3, 2, 2)), (2, (0.5,))):
        rows += [f"mlp,soap,{trial},{seed},180,180,{x}" for seed, x in enumerate(losses)]
    trials.write_text("\n".join(rows))
    assert script.chosen(trials) == {("mlp", "soap"): 1}
    rows = rows[:1]
    for method, steps, losses in (
        ("adamw", 300, (1, 2, 7)), ("soap", 120, (1, 3, 3)), ("soap", 180, (2, 0, 9)),
        ("soap", 150, (math.nan, 9, 0)),
    ):  # fmt: skip
        for seed, x in enumerate(losses):
            rows += [f"mlp,{method},1,{seed},{steps},{s},{x}" for s in (0, steps)]
    curves.write_text("\n".join(rows))
    script.report(SimpleNamespace(curves=curves))
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("| mlp | adamw |  | 2 | 300 (100 %) | rise ")
    assert lines[3].startswith("| mlp | soap | 2 |  | 180 (60 %) | rise ")
