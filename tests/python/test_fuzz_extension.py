"""test_fuzz_extension.py - some thousand random calls; scripts/check python-asan makes more"""

import gram
import pytest
from fuzz_extension import FUNCTIONS, run


@pytest.fixture(autouse=True)
def one_thread():
    before = gram.get_threads()
    gram.set_threads(1)
    yield
    gram.set_threads(before)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_calls(seed):
    done, findings = run(seed, 1500)
    assert not findings, "\n".join(findings[:5])
    assert done > 100  # enough of them mean something


def test_a_seed_gives_the_same_calls():
    assert len(FUNCTIONS) > 40
    assert run(7, 200) == run(7, 200)
