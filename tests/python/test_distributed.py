"""test_distributed.py - gram.distributed on threads, processes, Dask, Ray; tasks that are lost"""

import concurrent.futures
import multiprocessing
import os
import random
import signal
import sys
import threading

import gram
import gram.distributed
import numpy as np
import pytest
from gram import _farm
from mpi_run import mpirun, need_mpi

KERNEL = {"kernel": "gaussian", "bandwidth": 1.5}
SPAWN = multiprocessing.get_context("spawn")


def points(n=150, columns=2, dtype=np.float64):
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(n, 3)), rng.normal(size=(n, columns) if columns else n)
    return x.astype(dtype), y.astype(dtype)


def make_pool():
    return concurrent.futures.ProcessPoolExecutor(2, mp_context=SPAWN)


@pytest.fixture(scope="module")
def pool():
    with make_pool() as executor:
        yield executor


@pytest.fixture(scope="module")
def threads():
    with concurrent.futures.ThreadPoolExecutor(2) as executor:
        yield executor


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(_farm, "_LEAST_ROWS", 2)


class Wrapped(concurrent.futures.Executor):
    """An executor whose submissions a test changes."""

    def __init__(self, executor, change):
        self.executor, self.change, self.count = executor, change, 0

    def submit(self, fn, /, *args):
        self.count += 1
        return self.change(self, fn, *args)

    def shutdown(self, wait=True, *, cancel_futures=False):
        self.executor.shutdown(wait=wait, cancel_futures=cancel_futures)


class Backwards(concurrent.futures.Executor):
    """Tasks that wait are run in a random order, and some are lost."""

    def __init__(self, seed, losses):
        self.waiting, self.random, self.losses = [], random.Random(seed), losses
        self.wake = threading.Semaphore(0)
        threading.Thread(target=self.work, daemon=True).start()

    def submit(self, fn, /, *args):
        future = concurrent.futures.Future()
        self.waiting.append((future, fn, args))
        self.wake.release()
        return future

    def work(self):
        while self.wake.acquire():
            one = self.waiting.pop(self.random.randrange(len(self.waiting)))
            if one[1] is None:
                return
            if self.random.random() < self.losses and one[0].cancel():
                one[0].set_running_or_notify_cancel()
            elif one[0].set_running_or_notify_cancel():
                one[0].set_result(one[1](*one[2]))


# ---- Products ----


@pytest.mark.parametrize("q", [2, 3, 5, 7, 11, 13, 31])
def test_each_two_blocks_are_in_one_line(q):
    count, offsets = q * q + q + 1, _farm.difference_set(q)
    differences = sorted((a - b) % count for a in offsets for b in offsets if a != b)
    assert offsets[0] == 0 and differences == list(range(1, count))


@pytest.mark.parametrize("tasks", [1, 7, 50, 1000])
@pytest.mark.parametrize("kernel", [KERNEL, {"kernel": "linear"}, {
    "kernel": "laplace", "metric": "kullback-leibler"}], ids=str)  # fmt: skip
def test_products(threads, small_blocks, dtype, tasks, kernel):
    x, v = points(311, dtype=dtype)
    x = np.abs(x)
    found = gram.distributed.kernel_matmul(threads, x, v=v, tasks=tasks, **kernel)
    expected = gram.kernel(x.astype(np.float64), **kernel) @ v.astype(np.float64)
    assert found.dtype == dtype and found.shape == v.shape
    bound = 30 * np.finfo(dtype).eps * np.abs(expected).max() * len(x) ** 0.5
    assert np.abs(found - expected).max() <= bound


def test_products_with_further_points_files_and_vectors(pool, small_blocks, tmp_path):
    x, v = points(311)
    z = np.random.default_rng(1).normal(size=(37, 3))
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "z.npy", z)
    for given, other in ((x, z), (tmp_path / "x.npy", str(tmp_path / "z.npy"))):
        found = gram.distributed.kernel_matmul(pool, given, v=v[:, 0], **KERNEL)
        np.testing.assert_allclose(found, gram.kernel_matmul(x, v=v[:, 0], **KERNEL), rtol=1e-9)
        found = gram.distributed.kernel_matmul(pool, other, given, v=v, threads=1, **KERNEL)
        np.testing.assert_allclose(found, gram.kernel_matmul(z, x, v=v, **KERNEL), rtol=1e-9)
    lengths = np.array([1.0, 2.0, 0.5])
    found = gram.distributed.kernel_matmul(
        pool, x.astype(np.float32), v=v.astype(np.float32), kernel="gaussian", lengths=lengths
    )
    expected = gram.kernel_matmul(x, v=v, kernel="gaussian", lengths=lengths)
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_nothing(threads):
    x, v = np.zeros((0, 3)), np.zeros((0, 2))
    assert gram.distributed.kernel_matmul(threads, x, v=v).shape == (0, 2)
    assert gram.distributed.kernel_matmul(threads, x, np.ones((4, 3)), v=np.ones(4)).shape == (0,)
    assert gram.distributed.kernel_matmul(threads, np.ones((4, 3)), x, v=v).tolist() == [[0, 0]] * 4
    told = {}
    assert gram.distributed.krr_solve(threads, x, v, ridge=1, report=told).shape == (0, 2)
    assert told["reached"] and told["residual"] == 0


# ---- Solves ----


@pytest.mark.parametrize("kernel", [KERNEL, {"kernel": "matern52", "bandwidth": 2.0}, {
    "kernel": "polynomial", "degree": 2.0, "coef0": 1.0, "gamma": 0.3}], ids=str)  # fmt: skip
@pytest.mark.parametrize("rank", [None, 0, 30])
def test_solves_and_their_certificates(threads, small_blocks, dtype, kernel, rank):
    x, y = points(dtype=dtype)
    y[:, 1] = 0
    weights = np.linspace(1, 3, len(x)).astype(dtype)
    told = {"other": 1}
    alpha = gram.distributed.krr_solve(threads, x, y, ridge=0.1, rank=rank, tolerance=1e-3,
                                       row_weights=weights, report=told, **kernel)  # fmt: skip
    k = gram.kernel(x.astype(np.float64), **kernel)
    a = k + np.diag(0.1 / weights.astype(np.float64))
    residual = np.linalg.norm(y - a @ alpha, axis=0)
    change = np.abs(k @ (np.linalg.solve(a, y.astype(np.float64)) - alpha))
    assert alpha.dtype == dtype and alpha.shape == y.shape and not alpha[:, 1].any()
    assert told["reached"] is True and told["end"] == "reached" and told["other"] == 1
    assert told["method"] == "cg" and (told["rank"] == 0) == (rank == 0)
    assert residual[0] / np.linalg.norm(y[:, 0]) == pytest.approx(told["residual"], rel=1e-3)
    assert told["residual"] <= 1e-3 and told["lost"] == 0 < told["tasks"]
    assert np.sqrt((change**2).mean(axis=0)).max() <= told["prediction_rms"]
    assert change.max() <= told["prediction_sup"]


def test_a_solve_is_that_of_one_machine(pool, tmp_path):
    x, y = points(1500, columns=0, dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    told, there = {}, {}
    options = {"ridge": 1e-3, "refine": True, "tolerance": 1e-9, **KERNEL}
    alpha = gram.distributed.krr_solve(pool, tmp_path / "x.npy", y, report=told, **options)
    expected = gram.krr_solve(x, y, method="cg", report=there, **options)
    assert alpha.dtype == np.float64 and alpha.shape == y.shape
    assert told["reached"] and there["reached"] and set(there) < set(told)
    np.testing.assert_allclose(alpha, expected, atol=1e-5 * np.abs(expected).max())
    out = expected.copy()
    again = gram.distributed.krr_solve(pool, x, y, report=told, warm_start=True, out=out, **options)
    assert again is out and told["products"] == 1 and told["rank"] == 0


def test_predictions_of_a_wanted_exactness(threads):
    x, y = points(200)
    told = {}
    gram.distributed.krr_solve(threads, x, y, ridge=0.1, held_out_rmse=0.5, report=told, **KERNEL)
    assert told["reached"] and told["prediction_rms"] <= 0.03 * 0.5


def test_how_a_solve_ends(threads):
    x, y = points(300, dtype=np.float32)

    def end(**options):
        told, kernel = {}, {} if "kernel" in options else KERNEL
        gram.distributed.krr_solve(threads, x, y, report=told, **kernel, **options)
        assert not told["reached"] and told["residual"] > 0
        return told["end"]

    assert end(ridge=1e-3, products=5, rank=0) == "products"
    assert end(ridge=1e-3, time_limit=1e-9) == "time"
    assert end(ridge=0, tolerance=1e-6) == "rounding"
    assert end(ridge=1e-3, kernel=None, expression="1 - s") == "indefinite"
    with pytest.raises(gram.LinAlgError, match="after [3-6] products: products are used up"):
        gram.distributed.krr_solve(threads, x, y, ridge=1e-3, products=6, rank=0, **KERNEL)


# ---- Tasks that are lost ----


def test_neither_order_nor_losses_change_a_bit(small_blocks):
    x, y = points(400)
    alphas, told = [], {}
    for seed, losses in ((0, 0), (1, 0), (2, 0.1)):
        executor = Backwards(seed, losses)
        alphas.append(gram.distributed.krr_solve(executor, x, y, ridge=0.1, report=told, retries=9,
                                                 **KERNEL))  # fmt: skip
        executor.submit(None)
    assert told["lost"] > 5
    assert np.array_equal(alphas[0], alphas[1]) and np.array_equal(alphas[0], alphas[2])


def kill_once(at, killed):
    """A change of submissions: at one of them a worker dies, once."""

    def change(self, fn, *args):
        if self.count == at and not killed:
            killed.append(self)
            return self.executor.submit(os._exit, 1)
        return self.executor.submit(fn, *args)

    return change


def test_a_killed_worker_costs_its_tasks(small_blocks):
    x, y = points(400)
    made, killed, told = [], [], {}

    def factory():
        made.append(Wrapped(make_pool(), kill_once(40, killed)))
        return made[-1]

    alpha = gram.distributed.krr_solve(factory, x, y, ridge=0.1, report=told, threads=1, **KERNEL)
    assert killed and len(made) == 2 and told["lost"] > 0 and told["reached"]
    a = gram.kernel(x, **KERNEL) + 0.1 * np.eye(len(x))
    assert np.linalg.norm(y - a @ alpha) <= 0.01 * np.linalg.norm(y)
    with pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
        made[-1].submit(int)


def test_a_broken_pool_without_a_function_that_makes_one():
    x, y = points(400)
    with make_pool() as executor:
        with pytest.raises(RuntimeError, match="the executor is broken.*lambda: Process"):
            gram.distributed.krr_solve(Wrapped(executor, kill_once(3, [])), x, y, ridge=0.1)


def test_a_task_that_is_lost_too_often(threads):
    def change(self, fn, *args):
        return self.executor.submit(int, "no number")

    x, y = points(20)
    executor = Wrapped(threads, change)
    with pytest.raises(RuntimeError, match="the task diagonal 0 was lost 3 times.*invalid literal"):
        gram.distributed.krr_solve(executor, x, y, ridge=0.1, retries=2)
    assert executor.count == 3


def test_what_a_worker_raises(threads, pool, tmp_path):
    x, v = points(20)
    np.save(tmp_path / "x.npy", x)
    with pytest.raises(ValueError, match="bandwidth"):
        gram.distributed.kernel_matmul(threads, x, v=v, bandwidth=-1)

    def change(self, fn, *args):
        np.save(tmp_path / "x.npy", x[:5])
        return self.executor.submit(fn, *args)

    with pytest.raises(ValueError, match=r"has shape \(5, 3\).*on this worker, expected \(20, 3\)"):
        gram.distributed.kernel_matmul(Wrapped(pool, change), tmp_path / "x.npy", v=v)


# ---- Bad input ----


@pytest.mark.parametrize(("error", "match", "change"), [
    (TypeError, "executor is of type int", {"executor": 3}),
    (TypeError, r"executor\(\) is of type int", {"executor": lambda: 3}),
    (ValueError, "x has 1 dimensions", {"x": np.ones(20)}),
    (ValueError, "x has dtype float16", {"x": np.ones((20, 3), np.float16)}),
    (FileNotFoundError, "nowhere", {"x": "nowhere.npy"}),
    (ValueError, "x has numbers that are not finite", {"x": np.full((20, 3), np.nan)}),
    (ValueError, "y has numbers that are not finite", {"y": np.full(20, np.inf)}),
    (ValueError, r"y has shape \(19,\)", {"y": np.ones(19)}),
    (ValueError, "y has dtype float32, expected float64", {"y": np.ones(20, np.float32)}),
    (ValueError, "ridge is -1", {"ridge": -1}),
    (ValueError, "ridge is nan", {"ridge": float("nan")}),
    (ValueError, "tolerance is 0", {"tolerance": 0}),
    (ValueError, "rank is -1", {"rank": -1}),
    (ValueError, "products is 0", {"products": 0}),
    (ValueError, "retries is -1", {"retries": -1}),
    (ValueError, "threads is 0", {"threads": 0}),
    (ValueError, "tasks is 1.5", {"tasks": 1.5}),
    (ValueError, r"row_weights\[2\] is 0", {"row_weights": np.array([1, 1, 0.0] + [1] * 17)}),
    (TypeError, "warm_start is True without out", {"warm_start": True}),
    (ValueError, r"out is \(3,\) of float64", {"out": np.ones(3)}),
    (TypeError, "report is of type list", {"report": []}),
    (TypeError, "has no argument 'row_offset'", {"row_offset": 1}),
    (TypeError, "bandwith", {"bandwith": 1}),
    (ValueError, "kernel is 'gauss'", {"kernel": "gauss"}),
    (ValueError, "is not positive definite",
     {"kernel": "polynomial", "gamma": -1.0, "degree": 1.0}),
], ids=lambda v: v if isinstance(v, str) else "")  # fmt: skip
def test_bad_input(threads, error, match, change):
    x, y = points(20, columns=0)
    given = {"executor": threads, "x": x, "y": y, "ridge": 0.1, **change}
    with pytest.raises(error, match=match):
        gram.distributed.krr_solve(given.pop("executor"), given.pop("x"), given.pop("y"), **given)


def test_a_kernel_that_is_not_symmetric(threads):
    x, y = points(20, columns=0)
    with pytest.raises(ValueError, match="not symmetric"):
        gram.distributed.krr_solve(threads, np.abs(x), y, "laplace", ridge=1,
                                   metric="kullback-leibler")  # fmt: skip


# ---- Dask, Ray and MPI ----


def test_dask_with_a_worker_that_is_killed(tmp_path):
    distributed = pytest.importorskip("distributed")
    x, y = points(3000, columns=0)
    np.save(tmp_path / "x.npy", x)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, worker_dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        told = {}
        killed = []

        def change(self, fn, *args):
            if self.count == 60:
                killed.append(client.run(os.getpid))
                os.kill(next(iter(killed[0].values())), signal.SIGKILL)
            return self.executor.submit(fn, *args)

        executor = Wrapped(client.get_executor(), change)
        alpha = gram.distributed.krr_solve(executor, tmp_path / "x.npy", y, ridge=0.1, threads=1,
                                           tolerance=1e-8, report=told, **KERNEL)  # fmt: skip
    assert killed and told["reached"]
    expected = gram.krr_solve(x, y, ridge=0.1, tolerance=1e-8, method="cg", **KERNEL)
    np.testing.assert_allclose(alpha, expected, atol=1e-5 * np.abs(expected).max())


def test_ray():
    ray = pytest.importorskip("ray")
    x, y = points(1500, columns=0)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        executor = gram.distributed.RayExecutor()
        assert _farm._workers_of(executor) == 2
        alpha = gram.distributed.krr_solve(executor, x, y, ridge=0.1, tolerance=1e-8, **KERNEL)
    finally:
        ray.shutdown()
    expected = gram.krr_solve(x, y, ridge=0.1, tolerance=1e-8, method="cg", **KERNEL)
    np.testing.assert_allclose(alpha, expected, atol=1e-5 * np.abs(expected).max())


MPI_SCRIPT = """
import gram.distributed, numpy as np
from gram import _farm
from mpi4py.futures import MPIPoolExecutor

if __name__ == "__main__":
    x, told = np.random.default_rng(0).normal(size=(900, 3)), {}
    with MPIPoolExecutor() as executor:
        gram.distributed.krr_solve(executor, x, x[:, 0], "gaussian", ridge=0.1, report=told)
        print("workers", _farm._workers_of(executor), told["reached"])
"""


def test_ranks_of_mpi(tmp_path):
    need_mpi()
    pytest.importorskip("mpi4py")
    (tmp_path / "script.py").write_text(MPI_SCRIPT)
    done = mpirun(3, sys.executable, "-m", "mpi4py.futures", tmp_path / "script.py", timeout=120)
    assert "workers 2 True" in done.stdout, done.stderr
