"""test_core.py - workspaces, threads, and what this machine offers"""

import gram
import numpy as np
import pytest
from drawing import draw


def test_workspaces_are_bytes_and_read_no_data():
    x, y = draw(40, 5), draw(30, 5)
    square = np.eye(40)
    needs = [
        gram.workspace(gram.cdist, x, y, 1.3),
        gram.workspace(gram.kernel, x, y, "gaussian"),
        gram.workspace(gram.kernel_vjp, x, y, "gaussian", grad=draw(40, 30), wrt=("x", "y")),
        gram.workspace(gram.cdist_grad, draw(40, 30), x.T, draw(2, 40), y.T, 1.3),
        gram.workspace(gram.agop, draw(40, 30), x.T, draw(2, 40), y.T, 1.3),
        gram.workspace(gram.median_distance, x),
        gram.workspace(gram.nearest, x, count=3),
        gram.workspace(gram.solve_cholesky, square, x),
        gram.workspace(gram.solve_lu, square, x),
        gram.workspace(gram.eigh, square),
        gram.workspace(gram.matrix_power, square),
        gram.workspace(gram.krr_path, square, x, [0.1]),
        gram.workspace(gram.kron_matmul, x, [draw(5, 2)]),
        gram.workspace(gram.kernel_matmul, x, y, v=draw(30, 2)),
        gram.workspace(gram.eigh_kernel, draw(400, 3), count=2),
        gram.workspace(gram.kron_matmul_vjp, x, [draw(5, 2)], grad=draw(40, 2)),
        gram.workspace(gram.kron_solve, [np.eye(5)], x),
        gram.workspace(gram.kron_logdet, [np.eye(5)]),
    ]
    for host, device in needs:
        assert host > 0 and device == 0
    with pytest.raises(ValueError, match="x has 5 columns but y has 4"):
        gram.workspace(gram.cdist, x, draw(3, 4))


def test_threads():
    before = gram.get_threads()
    x = draw(300, 20)
    results = []
    for count in (1, 2, 3):
        gram.set_threads(count)
        assert gram.get_threads() == count
        results.append(gram.cdist(x, p=1.3))
    gram.set_threads(0)
    assert gram.get_threads() == before
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
    for wrong, exception in ((-1, ValueError), (10**6, ValueError), ("2", TypeError)):
        with pytest.raises(exception):
            gram.set_threads(wrong)
    assert gram.get_threads() == before


def test_what_is_here():
    assert gram.devices()[0] == "cpu" and gram.best_device() in gram.devices()
    info = gram.info()
    assert info["version"] == gram.__version__ and info["cpu_isa"] in info["cpu_isas"].split()
    memory = gram.memory_info("cpu")
    assert set(memory) == {"total", "free", "used", "other"}
    assert 0 < memory["used"] + memory["free"] <= memory["total"] + memory["used"]
    with pytest.raises(ValueError, match="device is 'tpu'"):
        gram.memory_info("tpu")
    if len(gram.devices()) == 1:
        with pytest.raises(NotImplementedError):
            gram.memory_info("cuda:0")
        with pytest.raises(NotImplementedError):
            gram.Module("")
