"""communicator_ranks.py - what test_communicator.py has two ranks do

    python communicator_ranks.py all|raising|mpi4py FOLDER

FOLDER is empty, and the same for both.  Prints "fine" where all is as it should be; every rank
exits with a failure otherwise.
"""

import functools
import pathlib
import sys
import threading
import time

import gram
import numpy as np
import pytest

RNG = np.random.default_rng(11)
FACTORS = [RNG.normal(size=size) for size in [(2, 3), (4, 1), (3, 2)]]
KRON = functools.reduce(np.kron, FACTORS)  # 24 by 6


def products(ranks):
    for split in ("rows", "columns", "auto"):
        for dtype, rtol in ((np.float64, 1e-12), (np.float32, 1e-5), (np.int64, 0)):
            kron, factors = KRON, FACTORS
            if dtype == np.int64:
                factors = [np.rint(4 * f) for f in FACTORS]
                kron = functools.reduce(np.kron, factors)
            one_product(ranks, split, dtype, rtol, factors, kron)


def one_product(ranks, split, dtype, rtol, factors, kron):
    factors = [f.astype(dtype) for f in factors]
    x, z = (np.rint(5 * RNG.normal(size=s)).astype(dtype) for s in ((2, 7, 24), (2, 7, 6)))
    part = gram.kron_matmul_part(7, factors, ranks, split=split)
    mine = x[:, part.rows, part.columns]
    want = (2 * x.astype(float) @ kron - z)[:, part.rows, part.outs]
    more = {"split": part.split, "alpha": 2, "beta": -1, "z": z[:, part.rows, part.outs]}
    y = gram.kron_matmul_multi(mine, factors, ranks, **more)
    assert y.dtype == dtype
    np.testing.assert_allclose(y, want, rtol=rtol, atol=100 * rtol)
    out = np.empty(y.shape[::-1], dtype).T
    assert gram.kron_matmul_multi(mine, factors, ranks, out=out, **more) is out
    np.testing.assert_array_equal(out, y)
    turned = [f.T for f in factors]  # K.T x.T = (x K).T
    part = gram.kron_matmul_part(7, turned, ranks, side="left", split=split)
    left = x.swapaxes(1, 2)[:, part.columns, part.rows]
    y = gram.kron_matmul_multi(left, turned, ranks, side="left", split=part.split)
    want = (x.astype(float) @ kron).swapaxes(1, 2)[:, part.outs, part.rows]
    np.testing.assert_allclose(y, want, rtol=rtol, atol=100 * rtol)


def kernel_products(ranks):
    """Rank 0 has three of eleven points; a vector, columns, another y, an output, an error."""
    x, y, v = RNG.normal(size=(11, 4)), RNG.normal(size=(5, 4)), RNG.normal(size=(11, 2))
    mine, few = (slice(0, 3), slice(0, 5)) if ranks.rank == 0 else (slice(3, 11), slice(5, 5))
    more = {"kernel": "gaussian", "bandwidth": 1.5}
    for dtype, rtol in ((np.float64, 1e-13), (np.float32, 1e-5)):
        whole, columns = x.astype(dtype), v.astype(dtype)
        want = gram.kernel_matmul(whole, v=columns, regularization=0.5, **more)
        out = np.ones((mine.stop - mine.start, 2), dtype)
        got = gram.kernel_matmul(whole[mine], v=columns[mine], communicator=ranks, out=out,
                                 accumulate=True, regularization=0.5, **more)
        assert got is out
        np.testing.assert_allclose(got - 1, want[mine], rtol=rtol, atol=rtol)
        vector = gram.kernel_matmul(whole[mine], v=columns[mine, 0], communicator=ranks, **more)
        assert vector.shape == (mine.stop - mine.start,)
    got = gram.kernel_matmul(x[mine], y[few], v=v[:5][few], communicator=ranks, **more)
    np.testing.assert_allclose(got, gram.kernel_matmul(x, y, v=v[:5], **more)[mine], rtol=1e-13)
    need = gram.workspace("kernel_matmul", x[mine], v=v[mine], communicator=ranks, **more)[0]
    assert need > 0
    with pytest.raises(TypeError if ranks.rank else ValueError, match="rank 1|array"):
        gram.kernel_matmul(x[mine] if ranks.rank == 0 else "text", v=v[mine], communicator=ranks)
    with pytest.raises(ValueError, match="the ranks disagree: the bits of kernel.bandwidth"):
        gram.kernel_matmul(x[mine], v=v[mine], communicator=ranks, bandwidth=1 + ranks.rank)


def neighbours(ranks):
    """Forty rows, of which rank 0 has ten: among themselves, and in others; errors."""
    x, y = RNG.integers(0, 4, size=(40, 3)).astype(float), RNG.normal(size=(7, 3))
    mine = slice(0, 10) if ranks.rank == 0 else slice(10, 40)
    few = slice(0, 0) if ranks.rank == 0 else slice(0, 7)
    for more in ({"exclude_self": True}, {"radius": 1.5}, {"metric": "canberra"}):
        got = gram.nearest(x[mine], count=5, communicator=ranks, **more)
        for found, want in zip(got, gram.nearest(x, count=5, **more), strict=True):
            np.testing.assert_array_equal(found, want[mine])
    got = gram.nearest(x[mine], y[few], count=2, communicator=ranks)[1]
    np.testing.assert_array_equal(got, gram.nearest(x, y, count=2)[1][mine])
    need = gram.workspace("nearest", x[mine], count=2, communicator=ranks)[0]
    assert need > 0
    with pytest.raises(ValueError, match="the ranks disagree: the number of neighbours|count"):
        gram.nearest(x[mine], count=2 + ranks.rank, communicator=ranks)


def pairs(ranks):
    """Sixty rows, of which rank 0 has ten: values, vectors, an error."""
    x = RNG.normal(size=(60, 2))
    mine = slice(0, 10) if ranks.rank == 0 else slice(10, 60)
    more = {"kernel": "gaussian", "count": 3}
    values, vectors = gram.eigh_kernel(x[mine], communicator=ranks, **more)
    np.testing.assert_allclose(values, gram.eigh_kernel(x, vectors=False, **more), rtol=1e-9)
    product = gram.kernel_matmul(x[mine], kernel="gaussian", v=vectors, communicator=ranks)
    np.testing.assert_allclose(product, vectors * values, atol=1e-6)
    with pytest.raises(ValueError, match="the ranks disagree: count is 2"):
        gram.eigh_kernel(x[mine], communicator=ranks, count=2 + ranks.rank, vectors=False)


def solves(ranks):
    """Eighty rows, of which rank 0 has thirty; a vector and weights; a report; limits; errors."""
    x, y, w = RNG.normal(size=(80, 3)), RNG.normal(size=(80, 2)), RNG.uniform(1, 2, 80)
    mine = slice(0, 30) if ranks.rank == 0 else slice(30, 80)
    more = {"kernel": "gaussian", "bandwidth": 1.5, "ridge": 0.1, "tolerance": 1e-9}
    told, alone = {}, {}
    for method in ("cg", "cholesky"):
        want = gram.krr_solve(x, y, method=method, report=alone, **more)
        got = gram.krr_solve(x[mine], y[mine], method=method, communicator=ranks, report=told,
                             **more)
        np.testing.assert_allclose(got, want[mine], rtol=1e-6, atol=1e-7)
        assert told["reached"] and told["method"] == alone["method"] == method
    want = gram.krr_solve(x, y[:, 0], row_weights=w, method="cg", **more)
    got = gram.krr_solve(x[mine], y[mine, 0], row_weights=w[mine], method="cg", communicator=ranks,
                         **more)
    np.testing.assert_allclose(got, want[mine], rtol=1e-6, atol=1e-7)
    few = dict(more, method="cg", products=5, rank=0, communicator=ranks)
    gram.krr_solve(x[mine], y[mine], report=told, **few)
    assert not told["reached"] and told["end"] == "products"
    with pytest.raises(gram.LinAlgError, match="products are used up"):
        gram.krr_solve(x[mine], y[mine], **few)
    with pytest.raises(ValueError, match="ranks disagree: the bits of ridge"):
        gram.krr_solve(x[mine], y[mine], communicator=ranks, **dict(more, ridge=1 + ranks.rank))
    with pytest.raises(TypeError if ranks.rank else ValueError, match="rank 1|array"):
        gram.krr_solve(x[mine] if ranks.rank == 0 else "text", y[mine], communicator=ranks, **more)
    with pytest.raises(NotImplementedError, match="method GRAM_KRR_CENTRES is given"):
        gram.krr_solve(x[mine], y[mine], communicator=ranks, method="centres", centres=9, **more)


def errors(ranks):
    """What one rank does wrong is an exception on both, and the next call goes well."""
    x, other = np.ones((3, 24)), ranks.rank == 0
    spoiled = (
        ({"x": np.ones((3, 25))}, ValueError, "x has 25 columns"),
        ({"x": "text"}, TypeError, "expected an array"),
        ({"x": x.astype(complex)}, TypeError, "complex"),
        ({"factors": []}, TypeError, "factors"),
        ({"split": "diagonal"}, ValueError, "split"),
        ({"side": "above"}, ValueError, "side"),
        ({"z": np.ones(3), "beta": 1}, ValueError, "z"),
    )
    for change, kind, text in spoiled:
        call = {"x": x, "factors": FACTORS, "communicator": ranks} | ({} if other else change)
        with pytest.raises(ValueError if other else kind) as e:
            gram.kron_matmul_multi(**call)
        assert ("rank 1 failed" if other else text) in str(e.value), e.value
        np.testing.assert_allclose(gram.kron_matmul_multi(x, FACTORS, ranks), x @ KRON)
    with pytest.raises(ValueError, match="rank 1 failed" if other else "ok is false"):
        ranks.agree(other)
    ranks.agree()


def waiting(ranks, ticked):
    """While rank 0 waits for rank 1, its other threads run: rank 1 comes when they have."""
    entering = threading.Event()

    def tick():
        entering.wait()
        for _ in range(10):
            time.sleep(0.01)
        ticked.touch()

    thread = threading.Thread(target=tick)
    if ranks.rank == 0:
        thread.start()
        entering.set()
    else:
        while not ticked.exists():
            time.sleep(0.01)
    gram.kron_matmul_multi(np.ones((3, 24)), FACTORS, ranks)
    assert ticked.exists()  # before the call ended
    if ranks.rank == 0:
        thread.join()


def raising(ranks):
    """Rank 1 ends with an exception while rank 0 waits for it."""
    if ranks.rank == 1:
        raise RuntimeError("this rank has had enough")
    gram.kron_matmul_multi(np.ones((3, 24)), FACTORS, ranks)


def of_mpi4py():
    from mpi4py import MPI

    turned = MPI.COMM_WORLD.Split(0, -MPI.COMM_WORLD.rank)
    with gram.Communicator(turned) as ranks:
        assert (ranks.rank, ranks.size) == (turned.rank, turned.size)
        products(ranks)
    with gram.Communicator.from_mpi4py(turned) as ranks:
        assert (ranks.rank, ranks.size) == (turned.rank, turned.size)
        ranks.agree()
    if gram.devices() == ["cpu"]:
        with pytest.raises(NotImplementedError):  # on both, though one has asked for the id
            gram.Communicator.from_mpi4py(turned, device="cuda:0")


def main():
    if sys.argv[1] == "raising":  # not in a with statement, as many scripts
        raising(gram.Communicator())
    elif sys.argv[1] == "mpi4py":
        of_mpi4py()
    else:
        with gram.Communicator() as ranks:
            assert ranks.size == 2
            products(ranks)
            kernel_products(ranks)
            neighbours(ranks)
            pairs(ranks)
            solves(ranks)
            errors(ranks)
            waiting(ranks, pathlib.Path(sys.argv[2]) / "ticked")
        assert (ranks.rank, ranks.size) == (-1, 0)
        with pytest.raises(ValueError, match="closed"):
            ranks.agree()
    print("fine")


if __name__ == "__main__":
    main()
