"""The functions of gram as operators of PyTorch: gradients, torch.compile, vmap, fake tensors.

Tensors are on the CPU or on CUDA, with any strides, and batches broadcast.  Gradients are finite
where coordinates are equal and where a distance is zero; such coordinates and points contribute 0.
All functions with gradients have second derivatives, except for expressions, kernels with
outer_power, a part of a spectrum, and numbers other than bandwidths and regularizations; for these,
backward() raises an error.  torch.func.vmap maps operators, and gradients of torch.autograd.grad.
torch.func.grad does not accept operators of torch.library.  Before PyTorch 2.4 (1.13 or newer)
there are only gradients, without torch.compile, vmap and fake tensors.

>>> import torch, gram.torch
>>> x = torch.tensor([[0.0], [3.0]], requires_grad=True)
>>> gram.torch.cdist(x).sum().backward()
>>> x.grad.tolist()
[[-2.0], [2.0]]
"""

try:
    import torch
    import torch.library
except ImportError as e:
    raise ImportError("gram.torch needs PyTorch 1.13 or newer (pip install torch)") from e

from gram import (
    _torch_agop,
    _torch_algebra,
    _torch_gp,
    _torch_kernels,
    _torch_nearest,
    _torch_numbers,
    _torch_products,
    _torch_reduce,
    _torch_register,
    _torch_samples,
)
from gram._arrays import eigh_count
from gram._powers import exponent

__all__ = [
    "agop",
    "cdist",
    "cdist_grad",
    "eigh",
    "kernel",
    "kernel_logdet",
    "kernel_matmul",
    "kernel_reduce",
    "kron",
    "kron_matmul",
    "log_marginal_likelihood",
    "matmul_batched",
    "matrix_power",
    "median_distance",
    "nearest",
    "per_sample_gradients",
    "per_sample_norms",
    "solve_cholesky",
    "solve_lu",
    "syrk_ema",
]


def cdist(x, y=None, p=2.0, root=True):
    """Distances out[..., i, j] of x (..., m, k) and y (..., n, k), as gram.cdist.

    p is a number from 0 to infinity, or a tensor that broadcasts over the batch.  root=False omits
    the power 1 / p.  x and y have gradients, twice except for infinity, and p has them once where
    it is positive and finite.  With p = infinity, every coordinate whose difference is the largest
    has the whole gradient, as in PyTorch.  The dtype is float32 or float64; float16 and bfloat16
    give float32.

    >>> gram.torch.cdist(torch.zeros(1, 2), torch.ones(1, 2), p=1).item()
    2.0
    """
    return _torch_kernels.cdist(x, y, *_torch_numbers.one(p), root)


def _options(
    kernel="laplace",
    bandwidth=1.0,
    p=2.0,
    exponent=1.0,
    alpha=1.0,
    gamma=1.0,
    coef0=0.0,
    degree=3.0,
    regularization=0.0,
    row_offset=0,
    column_offset=0,
    outer_power=None,
    expression=None,
    of="distance",
    parameters=None,
    metric=None,
    weights=None,
):
    """The tensors among the numbers of a kernel, and its options as the operators take them."""
    if metric is not None or weights is not None:
        raise ValueError(
            "gram.torch: metric or weights are given, but kernels of a metric have no gradients; "
            "gram.kernel takes tensors too"
        )
    tensors = [n if isinstance(n, torch.Tensor) else None for n in (bandwidth, regularization)]
    given, hypers = [""], []
    parameters = parameters or {}

    def plain(name, value, instead=1.0):
        """The number itself; for a tensor another one, which stands in its place."""
        value, tensor = _torch_numbers.split(value, instead)
        if tensor is not None:
            given.append(name)
            hypers.append(tensor)
        return value

    numbers = [
        1.0 if tensors[0] is not None else float(bandwidth), plain("p", p, 2.0),
        plain("exponent", exponent), plain("alpha", alpha), plain("gamma", gamma),
        plain("coef0", coef0), plain("degree", degree),
        0.0 if tensors[1] is not None else float(regularization),
    ]  # fmt: skip
    values = [0.0, *[plain("parameter " + name, v) for name, v in parameters.items()]]
    if outer_power is not None:
        outer_power = plain("outer_power", outer_power)
    offsets = [row_offset, column_offset]
    names = ["", *parameters]
    options = [kernel, numbers, outer_power, offsets, expression, of, names, values, given]
    return [*tensors, hypers], options


def kernel(x, y=None, kernel="laplace", *, output="value", lengths=None, **options):
    """The kernel matrix of x (..., m, k) and y (..., n, k), as gram.kernel (see there for options).

    Every number, also in the dict parameters, is a number or a tensor that broadcasts over the
    batch: a vector of bandwidths gives one matrix per bandwidth.  lengths (..., k) is a tensor with
    one positive number per coordinate, by which x and y are divided first; another number gives
    nan.  x, y, bandwidth, regularization and lengths have gradients, twice except for an expression
    and outer_power.
    The other numbers (p, exponent, alpha, gamma, coef0, degree, outer_power and parameters) have
    them once.  Numbers that the kernel does not use have the gradient 0.  The gradient of degree is
    nan where gamma x.y + coef0 is negative, and points that coincide contribute 0 to those of p and
    outer_power.  Only output="value" has gradients.

    >>> length = torch.tensor(2.0, requires_grad=True)
    >>> k = gram.torch.kernel(torch.zeros(1, 1), torch.ones(1, 1), "gaussian", bandwidth=length)
    >>> torch.autograd.grad(k, length)[0].item() == k.item() / 8
    True
    """
    x, y = _torch_kernels.divided("kernel", x, y, lengths, {"kernel": kernel, **options})
    tensors, options = _options(kernel, **options)
    return _torch_kernels.kernel(x, y, *tensors, *options, output)


def kernel_matmul(x, y=None, kernel="laplace", *, v, lengths=None, **options):
    """kernel(x, y) @ v for v (..., n, r) or (n,), without the matrix, as gram.kernel_matmul.

    x, y, v, lengths and all numbers have gradients, the same as gram.torch.kernel, computed in
    blocks of rows.

    >>> gram.torch.kernel_matmul(torch.zeros(2, 1), v=torch.ones(2)).tolist()
    [2.0, 2.0]
    """
    x, y = _torch_kernels.divided("kernel_matmul", x, y, lengths, {"kernel": kernel, **options})
    tensors, options = _options(kernel, **options)
    product = _torch_products.kernel_matmul(
        x, y, *tensors, v[:, None] if v.dim() == 1 else v, *options
    )
    return product[..., 0] if v.dim() == 1 else product


def kernel_reduce(
    x,
    y=None,
    kernel="laplace",
    *,
    what,
    v=None,
    scale=1.0,
    log_weights=None,
    lengths=None,
    **options,
):
    """What is made of the rows of kernel(x, y), which is never stored, as gram.kernel_reduce.

    what is "min", "max", "argmin", "argmax", "logsumexp" or "softmax".  The latter two have
    gradients: x, y, v (..., n, r) or (n,), log_weights (..., n), lengths and all numbers but scale.
    They are those of gram.torch.kernel, twice where these are: not for an expression.  They are
    computed in blocks of rows, each of which makes its part of the matrix.  The others have none.

    >>> x = torch.tensor([[0.0], [1.0]])
    >>> gram.torch.kernel_reduce(x, what="argmax").tolist()
    [0, 1]
    """
    x, y = _torch_kernels.divided("kernel_reduce", x, y, lengths, {"kernel": kernel, **options})
    tensors, options = _options(kernel, **options)
    vector = v is not None and v.dim() == 1
    arguments = [x, y, *tensors, v[:, None] if vector else v, log_weights]
    if what not in ("logsumexp", "softmax"):
        arguments = _torch_register.plain(*arguments)
    found = _torch_reduce.kernel_reduce(*arguments, what, float(scale), *options)
    return found[..., 0] if vector else found


def kernel_logdet(
    x,
    kernel="laplace",
    *,
    method="auto",
    probes=32,
    steps=100,
    tolerance=None,
    rank=None,
    seed=0,
    report=None,
    lengths=None,
    **options,
):
    """log det of kernel(x, regularization=r) as a tensor without dimensions, with gradients.

    method="cholesky" factorises the matrix in the dtype of x: n^3 / 3 operations, and as many again
    twice for gradients.  "cg" is gram.kernel_logdet, which stores nothing of n by n; probes, steps,
    tolerance, rank and seed are its own.  The value is then an estimate, and so are the gradients,
    which come from the same solves by one gradient of a product with 2 x probes columns; a dict
    `report` gets the standard error.  With one seed, points that change little change it little.
    "auto" is "cholesky" for up to 6,000 rows on the CPU and 16,000 on a GPU.

    x is (n, k) of float32 or float64.  x, lengths and all numbers of the kernel have gradients,
    once.  Numbers are single ones, not batches.  On CUDA the call waits.  Raises ValueError for
    another x or method, and gram.LinAlgError if the matrix is not positive definite.  Sources:
    those of gram.kernel_logdet.

    >>> r = torch.tensor(3.0, requires_grad=True)
    >>> x = torch.tensor([[0.0], [100.0]])
    >>> value = gram.torch.kernel_logdet(x, "gaussian", regularization=r)
    >>> round(value.item(), 4), torch.autograd.grad(value, r)[0].item()
    (2.7726, 0.5)
    """
    x, _ = _torch_kernels.divided(
        "kernel_logdet", x, None, lengths, {"kernel": kernel, **options}
    )
    tensors, options = _options(kernel, **options)
    solver = {"method": method, "probes": probes, "steps": steps, "tolerance": tolerance}
    solver |= {"rank": rank, "seed": seed, "report": report}
    return _torch_gp.kernel_logdet(x, tensors, options, solver)


def log_marginal_likelihood(
    x,
    y,
    kernel="laplace",
    *,
    noise,
    amplitude=1.0,
    method="auto",
    probes=32,
    steps=100,
    tolerance=0.01,
    rank=None,
    seed=0,
    report=None,
    lengths=None,
    **options,
):
    """The logarithm of the density of y under a Gaussian process with the mean 0, with gradients:

        -1/2 (y^T A^-1 y + log det A + n log(2 pi)),   A = amplitude kernel(x) + noise I.

    y is (n,) or (n, targets), whose likelihoods are added; what is not 0 in the mean is taken off y
    before, and has its gradient through it.  method and the arguments after it are those of
    gram.torch.kernel_logdet; with "cg", A^-1 y is that of gram.krr_solve to the tolerance.  Nothing
    of n by n is stored then, and a value takes some tens of products with A of up to 8 columns,
    its gradients one further product and its gradient with 2 x (probes + targets) columns.  The
    first term is wrong by about the square of the tolerance.

    x and y are float32 or float64, both the same.  x, y, lengths, noise, amplitude and all numbers
    of the kernel have gradients, once.  On CUDA the call waits.  Raises the same errors as
    gram.torch.kernel_logdet, and gram.LinAlgError if a solve does not reach the tolerance.  After
    Rasmussen and Williams, Gaussian processes for machine learning, 2006, chapter 5, and Gardner et
    al., GPyTorch, NeurIPS 2018.

    >>> x, y = torch.zeros(1, 1), torch.tensor([2.0], requires_grad=True)
    >>> value = gram.torch.log_marginal_likelihood(x, y, "gaussian", noise=1.0)
    >>> round(value.item(), 4), torch.autograd.grad(value, y)[0].item()
    (-2.2655, -1.0)
    """
    if "regularization" in options:
        raise ValueError(
            "gram.torch.log_marginal_likelihood: regularization is given, expected noise"
        )
    x, _ = _torch_kernels.divided(
        "log_marginal_likelihood", x, None, lengths, {"kernel": kernel, **options}
    )
    tensors, options = _options(kernel, **options)
    solver = {"method": method, "probes": probes, "steps": steps, "tolerance": tolerance}
    solver |= {"rank": rank, "seed": seed, "report": report}
    return _torch_gp.log_marginal_likelihood(x, y, amplitude, noise, tensors, options, solver)


def median_distance(x, p=2.0, *, root=True, rows=2000, seed=0):
    """The median distance between rows of x, as gram.median_distance, without a gradient.

    p is a number, or a tensor with one element that requires no gradient.

    >>> gram.torch.median_distance(torch.tensor([[0.0], [1.0], [5.0]])).item()
    4.0
    """
    p = _torch_numbers.constant("median_distance", "p", p)
    return _torch_kernels.median_distance(x.detach(), p, root, rows, seed)


def nearest(
    x, y=None, *, count, p=2.0, exclude_self=False, radius=None, metric=None, weights=None
):
    """The `count` nearest rows of y for every row of x, as gram.nearest: distances and indices.

    The distances have gradients to x and y, which are those of the pairs that were found; the
    indices have none.  They take memory for count rows of y for every row of x.  p is a number, or
    a tensor with one element that requires no gradient.  metric and weights are those of
    gram.nearest; the distances of hamming and jaccard have no gradients, and weights have none.

    >>> x = torch.tensor([[0.0], [1.0], [5.0]])
    >>> gram.torch.nearest(x, count=1, exclude_self=True)[1].flatten().tolist()
    [1, 0, 1]
    """
    p = _torch_numbers.constant("nearest", "p", p)
    distances, indices = _torch_nearest.nearest(
        x, y, count, p, exclude_self, radius, metric, weights
    )
    wanted = x.requires_grad or (y is not None and y.requires_grad)
    if not _torch_nearest.has_gradients(metric):
        distances = distances.detach()
    elif torch.is_grad_enabled() and wanted:
        distances = _torch_nearest.differentiable(x, y, indices, p, metric, weights)
    return distances, indices


def cdist_grad(a, b, c, d, p=2.0):
    """Gradients of kernel expansions, as gram.cdist_grad.

    a is (..., K, M), b is (..., N, K), c is (..., O, K), d is (..., N, M), and the result is (...,
    O, N, M).  All four have gradients, twice.  p, which is a number or a tensor that broadcasts
    over the batch, has them once.

    >>> one = torch.ones(1, 1)
    >>> gram.torch.cdist_grad(one, 2 * one, 3 * one, 5 * one).item()
    9.0
    """
    return _torch_agop.cdist_grad(a, b, c, d, *_torch_numbers.one(p))


def agop(a, b, c, d, p=2.0, *, diagonal=False, points=0):
    """The average outer product of cdist_grad(a, b, c, d, p), as gram.agop.

    Gradients are the same as gram.torch.cdist_grad has.

    >>> one = torch.ones(1, 1)
    >>> gram.torch.agop(one, 2 * one, 3 * one, 5 * one).item()
    81.0
    """
    return _torch_agop.agop(a, b, c, d, *_torch_numbers.one(p), diagonal, points)


def solve_cholesky(a, b, *, lower=True):
    """a^-1 b for symmetric positive definite a (..., n, n), as gram.solve_cholesky.

    b is (..., n, r) or (n,).  Only one triangle of a is read, and its gradient is symmetric.  There
    are derivatives of any order, which use the factor again.  On the CPU, a matrix that cannot be
    factored raises gram.LinAlgError; on CUDA, such an item is nan.

    >>> gram.torch.solve_cholesky(torch.tensor([[4.0]]), torch.tensor([2.0])).item()
    0.5
    """
    x, _ = _torch_algebra.solve_cholesky(a, b[:, None] if b.dim() == 1 else b, lower)
    return x[..., 0] if b.dim() == 1 else x


def solve_lu(a, b):
    """a^-1 b for any square a (..., n, n), as gram.solve_lu; b is (..., n, r) or (n,).

    There are derivatives of any order.  On the CPU, a singular matrix raises gram.LinAlgError; on
    CUDA, such an item is nan.

    >>> gram.torch.solve_lu(torch.tensor([[0.0, 2.0], [1.0, 0.0]]), torch.tensor([4.0, 3.0]))
    tensor([3., 2.])
    """
    x = _torch_algebra.solve_lu(a, b[:, None] if b.dim() == 1 else b)
    return x[..., 0] if b.dim() == 1 else x


def eigh(a, *, lower=True, vectors=True, select="all", first=0, count=None):
    """Eigenvalues, ascending, and eigenvectors of symmetric a (..., n, n), as gram.eigh.

    select is "all", "index", "largest" or "smallest".  The values have gradients, and so have the
    vectors with "all"; the change of a vector within the space of a multiple eigenvalue counts as
    0.  The vectors of a part of the spectrum are detached.  The gradient of a is symmetric.  The
    values and vectors of "all" are twice differentiable.  Those of a part are differentiable once,
    since second derivatives need the other eigenvectors.

    >>> values, vectors = gram.torch.eigh(torch.tensor([[2.0, 0.0], [0.0, 1.0]]))
    >>> values.tolist()
    [1.0, 2.0]
    """
    if select == "value":
        raise ValueError("gram.torch.eigh: select is 'value', whose count depends on the data")
    count = eigh_count("torch.eigh", select, count)
    values, of_values = _torch_algebra.eigh(a, lower, select, first, count)
    if not vectors:
        return values
    return values, of_values if select == "all" else of_values.detach()


def matrix_power(
    a, numerator=-1, denominator=4, *, method="auto", lower=True, ridge=0.0, power=None, floor=0.0
):
    """(a + ridge I)^(numerator / denominator) of symmetric a (..., n, n), as gram.matrix_power.

    a has gradients, twice.  They are computed from its eigenvectors with n^3 operations, and are
    symmetric, and exact at multiple eigenvalues.  ridge is a number, or a tensor that broadcasts
    over the batch and has gradients.

    power is a number that replaces the fraction.  With floor > 0, eigenvalues below floor times the
    largest, including negative ones, are raised to that value; the gradient then includes that of
    the largest eigenvalue, which equal ones share.  With a floor, or with a power that is not a
    fraction k / q with abs(k) and q up to 64, there are gradients only once.  With a floor, ridge
    must be a number.

    >>> gram.torch.matrix_power(torch.tensor([[16.0]])).item()
    0.5
    >>> gram.torch.matrix_power(torch.diag(torch.tensor([4.0, -1.0])), power=0.5, floor=0.25)
    tensor([[2., 0.],
            [0., 1.]])
    """
    numerator, denominator, power = exponent(
        "gram.torch.matrix_power", numerator, denominator, power, floor
    )
    ridge, tensor = _torch_numbers.split(ridge, 0.0)
    if tensor is not None and floor != 0:
        raise ValueError("gram.torch.matrix_power: ridge is a tensor, expected a number with floor")
    if tensor is not None:
        eye = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
        a = a + tensor.to(a)[..., None, None] * eye
    if power is not None or floor != 0:
        return _torch_algebra.matrix_real_power(a, power or 0.0, method, lower, ridge, floor)
    return _torch_algebra.matrix_power(a, numerator, denominator, method, lower, ridge)


def kron_matmul(x, factors, *, side="right", alpha=1.0):
    """alpha x (f_1 (x) ... (x) f_N), as gram.kron_matmul; with side="left" the factors are on the
    left.

    x, every factor and alpha have derivatives of any order.  alpha is a number, or a tensor that
    broadcasts over the batch.

    >>> gram.torch.kron_matmul(torch.ones(1, 4), [torch.eye(2), 3 * torch.eye(2)]).tolist()
    [[3.0, 3.0, 3.0, 3.0]]
    """
    alpha, tensor = _torch_numbers.split(alpha, 1.0)
    product = _torch_algebra.kron_matmul(x, list(factors), side, alpha)
    return product if tensor is None else product * tensor.to(product)[..., None, None]


def kron(factors):
    """The Kronecker product of matrices (..., p_i, q_i), written out, as gram.kron.

    Every factor has derivatives of any order.  The dtype is float32 or float64.

    >>> gram.torch.kron([torch.tensor([[1.0, 2.0]]), torch.eye(2)]).tolist()
    [[1.0, 0.0, 2.0, 0.0], [0.0, 1.0, 0.0, 2.0]]
    """
    return _torch_algebra.kron(list(factors))


def matmul_batched(a, b, *, alpha=1.0, beta=0.0, c=None):
    """alpha a b + beta c of a (..., m, k), b (..., k, n) and c (..., m, n), as gram.matmul_batched.

    alpha and beta are numbers, or tensors that broadcast over the batch.  All arguments have
    derivatives of any order.

    >>> gram.torch.matmul_batched(torch.ones(2, 1, 3), torch.eye(3), alpha=2.0).tolist()
    [[[2.0, 2.0, 2.0]], [[2.0, 2.0, 2.0]]]
    """
    product = _torch_numbers.times(alpha, _torch_algebra.matmul_batched(a, b))
    if c is None:
        return product
    return product + _torch_numbers.times(beta, c)


def syrk_ema(x, l, *, beta=0.0, alpha=1.0, transpose=False, sum=False):  # noqa: E741
    """beta l + (1 - beta) alpha x x^T for x (..., m, k) and l (..., m, m), as gram.syrk_ema.

    The result is a new tensor, and l does not change.  transpose takes x^T x instead, and sum omits
    the factor 1 - beta.  beta and alpha are numbers, or tensors that broadcast over the batch.  x,
    l, beta and alpha have derivatives of any order.  The product is exactly symmetric.

    >>> x = torch.tensor([[1.0], [2.0]])
    >>> gram.torch.syrk_ema(x, torch.eye(2), beta=0.5).tolist()
    [[1.0, 1.0], [1.0, 2.5]]
    """
    product = _torch_numbers.times(alpha, _torch_algebra.syrk(x, transpose))
    share = 1.0 if sum else 1 - beta
    return _torch_numbers.times(beta, l) + _torch_numbers.times(share, product)


def per_sample_gradients(model, loss, inputs, targets, *, method="auto", chunk=None):
    """The gradients of each sample's loss, as a dict from the name of a parameter to (N, its
    shape).

    model is any torch.nn.Module.  It is called once with inputs (a tensor or a tuple of tensors),
    whose first dimension is that of the N samples.  loss(outputs, targets) is a tensor, which is
    summed.  The loss of each sample is that of a batch of one, so a mean over the batch gives no
    factor 1 / N here.  Parameters that are not trained have no entry, and those that are not used
    have zeros.  No .grad is read or written.

    If all trained parameters belong to torch.nn.Linear, Conv1d to Conv3d, Embedding, LayerNorm,
    GroupNorm or InstanceNorm (also shared, or used more than once), on the CPU or on one CUDA
    device, one forward and backward pass suffices, with gram.sample_grad in each layer; samples
    must not interact elsewhere in the model.  Otherwise torch.func.vmap(grad) is used, and a
    warning gives the reason.  method="layers" raises ValueError instead, and "func" always uses
    torch.func.  In both cases, `chunk` samples are processed at a time, which limits the memory of
    the passes; None processes all at once.  A BatchNorm that mixes samples raises ValueError.
    Parameters are float32, float64, float16 or bfloat16.

    Raises ValueError if first dimensions differ or if the method is not possible, and
    NotImplementedError before PyTorch 2.4.  Sources: those of gram.sample_grad.

    >>> layer = torch.nn.Linear(2, 1, bias=False)
    >>> x, y = torch.tensor([[1.0, 2.0], [3.0, 0.0]]), torch.zeros(2, 1)
    >>> each = gram.torch.per_sample_gradients(layer, lambda out, y: out.sum(), x, y)
    >>> each["weight"].tolist()
    [[[1.0, 2.0]], [[3.0, 0.0]]]
    """
    return _torch_samples.per_sample_gradients(model, loss, inputs, targets, method, chunk)


def per_sample_norms(model, loss, inputs, targets, *, method="auto", chunk=None):
    """The Euclidean norms (N,) of the gradients of each sample, over all parameters.

    Arguments, dtypes and errors are the same as gram.torch.per_sample_gradients has.

    The gradients themselves are not stored, except for layers that share parameters, and if
    torch.func is needed.  Memory is that of a forward and backward pass, in which the input of a
    layer is freed with its gradients.  On CUDA the call does not wait, and torch.cuda.graph can
    capture it.

    >>> layer = torch.nn.Linear(2, 1, bias=False)
    >>> x, y = torch.tensor([[3.0, 4.0], [6.0, 8.0]]), torch.zeros(2, 1)
    >>> gram.torch.per_sample_norms(layer, lambda out, y: out.sum(), x, y).tolist()
    [5.0, 10.0]
    """
    return _torch_samples.per_sample_norms(model, loss, inputs, targets, method, chunk)
