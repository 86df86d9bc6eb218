"""Products and solves of kernel matrices by the workers of an executor, on one machine or many.

An executor is what concurrent.futures calls one: ProcessPoolExecutor, Client(...).get_executor()
of Dask, MPIPoolExecutor of mpi4py, or RayExecutor() of this module.  The calls here cut the rows
into blocks, and give the executor tasks, which are stateless: a task that is lost, because its
worker was killed or its machine is gone, is submitted again, and costs its own time.  Results do
not depend on the order in which tasks end.  Workers need gram and NumPy.

>>> import concurrent.futures, gram.distributed, numpy as np
>>> x = np.linspace(0, 6, 300)[:, None]
>>> with concurrent.futures.ThreadPoolExecutor(2) as executor:
...     ones = gram.distributed.kernel_matmul(executor, x, v=np.ones(300), kernel="gaussian")
>>> bool(np.allclose(ones, gram.kernel_matmul(x, v=np.ones(300), kernel="gaussian")))
True
"""

import concurrent.futures
import math

import numpy as np

from gram import _core, _farm, _farm_solve

__all__ = ["RayExecutor", "kernel_matmul", "krr_solve"]

_RANK = 1000
_LOCAL = ("output", "parameter", "regularization", "row_offset", "column_offset")


def _kernel_options(function, kernel, options):
    for name in options:
        if name in _LOCAL:
            raise TypeError(f"{function}() has no argument {name!r}")
    given = {k: np.asarray(v) if hasattr(v, "__len__") and not isinstance(v, (str, dict)) else v
             for k, v in options.items()}  # fmt: skip
    return given if kernel is None else {"kernel": kernel, **given}


def _check_kernel(kernel, x):
    """Raises what gram.kernel says of a kernel and its options."""
    _core.kernel(np.zeros((1, x.shape[1])), **_farm_solve.kernel_of(kernel, np.float64))


def _whole(function, name, value, least):
    if isinstance(value, bool) or not hasattr(value, "__index__") or value.__index__() < least:
        raise ValueError(f"{function}: {name} is {value!r}, expected a number of at least {least}")
    return value.__index__()


def _number(function, name, value, above=False):
    if not (isinstance(value, (int, float, np.number)) and 0 <= value < math.inf) or (
        above and value == 0
    ):
        expected = "a finite number above 0" if above else "a finite number of at least 0"
        raise ValueError(f"{function}: {name} is {value!r}, expected {expected}")
    return float(value)


def _open(function, executor, tasks, threads, retries):
    retries = _whole(function, "retries", retries, 0)
    threads = None if threads is None else _whole(function, "threads", threads, 1)
    tasks = None if tasks is None else _whole(function, "tasks", tasks, 1)
    return _farm.Farm(function, executor, retries, threads), tasks


def _columns(function, name, value, rows, dtype):
    """(a matrix of the dtype, whether it was a vector)"""
    value = np.asarray(value)
    if value.dtype.kind in "iub":
        value = value.astype(dtype)
    if value.dtype != dtype:
        raise ValueError(f"{function}: {name} has dtype {value.dtype}, expected {dtype} as x")
    if value.ndim not in (1, 2) or len(value) != rows:
        raise ValueError(
            f"{function}: {name} has shape {value.shape}, expected ({rows},) or ({rows}, c)"
        )
    return (value[:, None], True) if value.ndim == 1 else (value, False)


def kernel_matmul(executor, x, y=None, kernel=None, *, v, tasks=None, threads=None, retries=3,
                  **options):
    """kernel(x, y, kernel, **options) @ v, by the tasks of an executor.

    x is (m, d), y is (n, d), and v is (n, c) or (n,), of one dtype, float32 or float64; the result
    is a NumPy array (m, c) or (m,).  x and y are arrays, or paths of .npy files, which every worker
    maps: a path has to be the same on all machines.  An array is sent to each worker once, or a
    few times while its first tasks begin.  Without y the product is that of x with itself, and
    takes little more than half of the work: blocks of rows are the points of a projective plane
    over GF(q), a task is one of its lines, and each pair of blocks is in one line (J. Singer,
    Trans. Amer. Math. Soc. 43, 1938).  With y, a task has a block of rows of x, and all of y.
    kernel and options are those of gram.kernel, except output, parameter, regularization and
    offsets.

    executor is an Executor, or a function that makes one.  Such a function is called again where a
    worker has died and the pool takes no more tasks, as ProcessPoolExecutor does not; what it made
    is shut down at the end.  A task that is lost is submitted again, up to retries times.
    tasks (None: four for each worker, and at least 133) is how many there are at least, as far as
    blocks of 256 rows allow it; threads is how many threads a task has (None: those of its
    process, or, in a ProcessPoolExecutor, the cores that each process has for itself).

    Every worker computes on its CPU.  Memory of a worker: (q + 1) blocks of rows, and what it maps
    or keeps, at most 8 arrays.  Memory here: v and the result in float64, and parts that wait for
    their turn.  What is sent each way is about (q + 1) n c numbers.

    Raises RuntimeError for a task that is lost too often, and for a pool that is broken where no
    function can make another one.  Raises ValueError for shapes, dtypes and values that do not fit,
    also where a worker's file has another shape than that of this machine, and TypeError for
    arguments that do not exist.

    >>> import concurrent.futures, gram.distributed, numpy as np
    >>> x = np.array([[0.0], [1.0], [2.0]])
    >>> with concurrent.futures.ThreadPoolExecutor(2) as executor:
    ...     gram.distributed.kernel_matmul(executor, x, kernel="linear", v=np.ones(3)).tolist()
    [0.0, 3.0, 6.0]
    """
    function = "gram.distributed.kernel_matmul"
    options = _kernel_options(function, kernel, options)
    farm, tasks = _open(function, executor, tasks, threads, retries)
    with farm:
        matrix = _farm_solve.Matrix(farm, x, options, tasks)
        _check_kernel(options, matrix.x)
        if y is None:
            v, vector = _columns(function, "v", v, matrix.n, matrix.dtype)
            out = matrix.multiply(v).astype(matrix.dtype)
        else:
            shared, y = farm.share("y", y)
            if y.dtype != matrix.dtype or y.shape[1] != matrix.x.shape[1]:
                raise ValueError(
                    f"{function}: y has {y.shape[1]} columns and dtype {y.dtype}, expected "
                    f"{matrix.x.shape[1]} and {matrix.dtype} as x"
                )
            v, vector = _columns(function, "v", v, len(y), matrix.dtype)
            out = matrix.across(y, shared, v)
    return out[:, 0] if vector else out


def krr_solve(executor, x, y, kernel=None, *, ridge, tolerance=None, held_out_rmse=None,
              rank=None, products=None, time_limit=None, refine=False, warm_start=False, seed=0,
              row_weights=None, report=None, out=None, tasks=None, threads=None, retries=3,
              **options):
    """The alpha of kernel ridge regression, as of gram.krr_solve, by the tasks of an executor.

    Solves (kernel(x, x, kernel, **options) + diag(ridge / row_weights)) alpha = y by conjugate
    gradients here, whose products are those of gram.distributed.kernel_matmul; executor, x, tasks,
    threads and retries are as there.  x is (n, d), an array or the path of a .npy file; y is (n, c)
    or (n,), row_weights is (n,), and alpha is a NumPy array of the shape of y: all are float32 or
    all are float64, except that with refine=True alpha is float64.  ridge, tolerance,
    held_out_rmse, rank, products, time_limit, refine, warm_start, seed and out are as of
    gram.krr_solve.

    The preconditioner is of rank pivots (None: 8 sqrt(n), at most 1000; 0: without), which a
    randomly pivoted Cholesky factorisation of 8 rank random rows chooses; its products with
    kernel(x, pivots) are tasks too, so that nothing of n by rank is stored: 4 rank / n of the
    elements of a product, in float64.

    report, a dict, receives what gram.krr_solve tells: the certificate is the same, from a residual
    that tasks compute afresh in float64.  It also receives tasks (how many have ended), lost (how
    many of them were submitted again) and task_seconds (their time on the workers).

    Raises gram.LinAlgError if the tolerance is not reached and report is not given, and what
    gram.distributed.kernel_matmul raises; ValueError also for numbers in x or y that are not
    finite.  After Diaz, Epperly, Frangella, Tropp and Webber, arXiv:2304.12465, and Chen, Epperly,
    Tropp and Webber, arXiv:2207.06503.

    >>> import concurrent.futures, gram.distributed, numpy as np
    >>> x, told = np.linspace(0, 6, 300)[:, None], {}
    >>> with concurrent.futures.ThreadPoolExecutor(2) as executor:
    ...     alpha = gram.distributed.krr_solve(executor, x, np.sin(x[:, 0]), "gaussian",
    ...                                        ridge=1e-3, report=told)
    >>> told["reached"], told["residual"] <= 0.01
    (True, True)
    """
    function = "gram.distributed.krr_solve"
    kernel = _kernel_options(function, kernel, options)
    held_out = 0.0 if held_out_rmse is None else _number(function, "held_out_rmse", held_out_rmse)
    numbers = {
        "ridge": _number(function, "ridge", ridge),
        "held_out_rmse": held_out,
        "tolerance": (0.03 if held_out > 0 else 0.01)
        if tolerance is None
        else _number(function, "tolerance", tolerance, True),
        "products": 1000 if products is None else _whole(function, "products", products, 1),
        "time_limit": _number(function, "time_limit", time_limit or 0),
        "refine": bool(refine),
        "seed": _whole(function, "seed", seed, 0),
    }
    if warm_start and out is None:
        raise TypeError(f"{function}: warm_start is True without out, the first guess")
    if report is not None and not isinstance(report, dict):
        raise TypeError(f"{function}: report is of type {type(report).__name__}, expected a dict")
    farm, tasks = _open(function, executor, tasks, threads, retries)
    with farm:
        matrix = _farm_solve.Matrix(farm, x, kernel, tasks)
        _check_kernel(kernel, matrix.x)
        n = matrix.n
        y, vector = _columns(function, "y", y, n, matrix.dtype)
        if not np.isfinite(y).all():
            raise ValueError(f"{function}: y has numbers that are not finite")
        dtype = np.dtype(np.float64) if refine else matrix.dtype
        numbers["narrow"] = dtype == np.float32
        whole = min(_RANK, max(int(8 * math.sqrt(n)), 100), n // 2)
        numbers["rank"] = min(n, whole if rank is None else _whole(function, "rank", rank, 0))
        weights = _weights(function, row_weights, n, matrix.dtype)
        alpha = np.zeros(y.shape)
        if out is not None:
            given = _result(function, out, y.shape[:1] if vector else y.shape, dtype)
            if warm_start:
                alpha[...] = given.reshape(y.shape)
        if not np.isfinite(alpha).all():
            raise ValueError(f"{function}: out has numbers that are not finite")
        alpha[:, ~y.any(axis=0)] = 0  # of a column of zeros, whatever it was
        alpha, told = _farm_solve.Solve(matrix, y, weights, numbers).run(alpha)
    alpha = alpha.astype(dtype)[:, 0] if vector else alpha.astype(dtype)
    if out is not None:
        out[...] = alpha
        alpha = out
    if report is not None:
        report.update(told)
    elif not told["reached"]:
        raise _core.LinAlgError(
            f"{function}: the relative residual is {told['residual']:.3g} after "
            f"{told['products']} products: {_WHY[told['end']]}"
        )
    return alpha


_WHY = {
    "rounding": "rounding allows no less: expect less by tolerance, take a larger ridge, or "
    "refine=True",
    "products": "products are used up",
    "time": "time_limit is over",
    "indefinite": "the kernel matrix plus the ridge is not positive definite",
}


def _weights(function, value, n, dtype):
    if value is None:
        return None
    value, _ = _columns(function, "row_weights", value, n, dtype)
    if value.shape[1] != 1:
        raise ValueError(f"{function}: row_weights has shape {value.shape}, expected ({n},)")
    bad = np.flatnonzero(~((value[:, 0] > 0) & (value[:, 0] < math.inf)))
    if len(bad):
        raise ValueError(
            f"{function}: row_weights[{bad[0]}] is {value[bad[0], 0]}, expected a finite number "
            "above 0"
        )
    return value[:, 0]


def _result(function, out, shape, dtype):
    if not isinstance(out, np.ndarray) or out.shape != shape or out.dtype != dtype:
        what = f"{out.shape} of {out.dtype}" if isinstance(out, np.ndarray) else type(out).__name__
        raise ValueError(f"{function}: out is {what}, expected an array {shape} of {dtype}")
    return out


def _call(function, *arguments):
    return function(*arguments)


class RayExecutor(concurrent.futures.Executor):
    """An Executor whose tasks are those of Ray, for the functions of this module.

    options are those of ray.remote, as num_cpus=4 or resources={...}.  Ray is initialised by
    ray.init before, or by the first task.  Ray repeats tasks of workers that have died up to
    max_retries times by itself (its default: 3).  shutdown() leaves Ray as it is.

    Raises ImportError without Ray (pip install ray).

    >>> import gram.distributed, importlib.util
    >>> if importlib.util.find_spec("ray"):
    ...     executor = gram.distributed.RayExecutor(num_cpus=1)
    """

    def __init__(self, **options):
        try:
            import ray
        except ImportError as e:
            raise ImportError("gram.distributed.RayExecutor needs Ray (pip install ray)") from e
        if not ray.is_initialized():
            ray.init()
        remote = ray.remote(**options) if options else ray.remote
        self._run = remote(_call)
        each = options.get("num_cpus", 1)
        self._max_workers = max(1, int(ray.cluster_resources().get("CPU", 1) / (each or 1)))

    def submit(self, fn, /, *args, **kwargs):
        """Submits a task, and returns its concurrent.futures.Future."""
        return self._run.remote(fn, *args, **kwargs).future()
