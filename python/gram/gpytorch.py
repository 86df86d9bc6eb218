"""Kernels and linear operators for GPyTorch that store no large kernel matrix.

RBFKernel, MaternKernel and LaplaceKernel replace the kernels of GPyTorch in a model.  A matrix of
up to max_stored_bytes is stored, as with the kernels of GPyTorch.  A larger one is a
KernelOperator, whose products are those of gram.torch.kernel_matmul: conjugate gradients on many
points then only need memory for the points and the vectors.  Points and lengthscales have
gradients.  GridKernel and KroneckerOperator are for inputs on a grid.  After Gardner et al.,
GPyTorch: blackbox matrix-matrix Gaussian process inference with GPU acceleration, NeurIPS 2018.

>>> import torch, gram.gpytorch
>>> kernel = gram.gpytorch.RBFKernel()
>>> kernel.lengthscale = 2.0
>>> x = torch.tensor([[0.0], [2.0]])
>>> [round(value, 3) for value in (kernel(x) @ torch.ones(2)).tolist()]
[1.607, 1.607]
"""

try:
    import gpytorch
    import torch
    from linear_operator.operators import KernelLinearOperator, KroneckerProductLinearOperator
    from linear_operator.operators import to_linear_operator as _to_operator
    from linear_operator.settings import _value_context
except ImportError as e:
    raise ImportError("gram.gpytorch needs GPyTorch 1.14 or newer (pip install gpytorch)") from e

import gram.torch
from gram import _torch_kernels, _torch_products
from gram._torch_register import summed as _summed

__all__ = [
    "GridKernel",
    "KernelOperator",
    "KroneckerOperator",
    "LaplaceKernel",
    "MarginalLogLikelihood",
    "MaternKernel",
    "RBFKernel",
    "max_stored_bytes",
]


class max_stored_bytes(_value_context):
    """The bytes of the largest kernel matrix that a kernel stores, or that a KernelOperator keeps
    for its products.  The default is 1 GiB, which is 16,384 points of float32.  A training step
    needs several times as much.  It is used like the settings of linear_operator.

    >>> with gram.gpytorch.max_stored_bytes(0):  # store none
    ...     gram.gpytorch.max_stored_bytes.value()
    0
    """

    _global_value = 1 << 30


def _matrix(x1, x2, **options):
    return gram.torch.kernel(x1, x2, **options)


def _alias(a, b):
    """Are both the same memory?"""
    return a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.stride() == b.stride()


def _one_set(a, b):
    """Are both the same points, so that one may stand for the other, gradients included?"""
    if a is b:
        return True
    if a.shape != b.shape or a.requires_grad or b.requires_grad:
        return False
    return _alias(a, b) or torch.equal(a, b)


class KernelOperator(KernelLinearOperator):
    """The matrix gram.torch.kernel(x1, x2, kernel, **options).  If it is small (max_stored_bytes)
    it is kept for its products; otherwise each product computes it again.

    x1 is (..., m, k) and x2 is (..., n, k), of float32 or float64; both have gradients.  Options
    are those of gram.torch.kernel, but not tensors, except for lengths, by which the points are
    divided at once, and which have gradients.  Indexing gives operators on fewer points, and
    to_dense() stores the matrix.  Raises TypeError for another option that is a tensor, and
    otherwise the same errors as gram.kernel_matmul.

    >>> x = torch.tensor([[0.0], [1.0], [2.0]])
    >>> (gram.gpytorch.KernelOperator(x, x, kernel="linear") @ torch.ones(3)).tolist()
    [0.0, 3.0, 6.0]
    """

    def __init__(self, x1, x2, covar_func=_matrix, lengths=None, **options):
        if lengths is not None:
            one_set = _one_set(x1, x2)
            x1, x2 = _torch_kernels.divided(
                "kernel", x1, None if one_set else x2, lengths, options
            )
            x2 = x1 if one_set else x2
        for name, value in options.items():
            if isinstance(value, torch.Tensor):
                raise TypeError(
                    f"gram.gpytorch.KernelOperator: {name} is a tensor, expected a number; "
                    "lengths may be a tensor"
                )
        super().__init__(x1, x2, covar_func=covar_func, **options)

    def _options(self):
        return self.nontensor_params

    def _is_recorded(self):
        """Do gradients to the points have to be recorded?"""
        return torch.is_grad_enabled() and (self.x1.requires_grad or self.x2.requires_grad)

    def _other(self):
        """x2, or None where both sets are one and need not have a gradient each."""
        return None if _alias(self.x1, self.x2) and not self._is_recorded() else self.x2

    def _kept(self):
        """The matrix without gradients, made once; None: it is too large, or they are asked for."""
        if self._is_recorded():
            return None
        if getattr(self, "_memo", None) is None:
            if self.shape.numel() * self.x1.element_size() > max_stored_bytes.value():
                return None
            self._memo = gram.torch.kernel(self.x1, self._other(), **self._options()).detach()
        return self._memo

    def _matmul(self, rhs):
        kept = self._kept()
        if kept is not None:
            return kept @ rhs
        v = rhs[:, None] if rhs.dim() == 1 else rhs
        product = gram.torch.kernel_matmul(self.x1, self._other(), v=v, **self._options())
        return product[..., 0] if rhs.dim() == 1 else product

    def _bilinear_derivative(self, left_vecs, right_vecs):
        """The gradients of the sum over c of left_vecs[:, c] K right_vecs[:, c].  Where both sets
        are one, its gradient, the sum of both, is that of x1 with both orders of the vectors."""
        x1, x2 = self.x1, self.x2
        if not (x1.requires_grad and x2.requires_grad and _alias(x1, x2)):
            return super()._bilinear_derivative(left_vecs, right_vecs)
        tensors, options = gram.torch._options(**self._options())
        if options[3][0] != options[3][1]:  # the offsets: the matrix is not symmetric
            return super()._bilinear_derivative(left_vecs, right_vecs)
        if left_vecs.dim() == 1:
            left_vecs, right_vecs = left_vecs[:, None], right_vecs[:, None]
        left_vecs, right_vecs = torch.broadcast_tensors(left_vecs, right_vecs)
        one = torch.cat([left_vecs, right_vecs], -1).detach()
        other = torch.cat([right_vecs, left_vecs], -1).detach()
        points = x1.detach(), x2.detach()
        (found,) = _torch_products.kernel_matmul_vjp(*points, *tensors, one, other, *options, ["x"])
        return _summed(found, x1), None

    def _pairs(self, x1, x2):
        """The kernel of points (..., k) with those in the same places, (...,).  A function of
        differences is that of the difference and 0, all of them as one matrix of one column."""
        difference = (x1 - x2).reshape(-1, x1.shape[-1])
        zero = difference.new_zeros(1, x1.shape[-1])
        return gram.torch.kernel(difference, zero, **self._options()).reshape(x1.shape[:-1])

    def _is_of_differences(self):
        """Is every element a function of a difference alone, without regularization?"""
        known = self._options().keys() <= {"kernel", "p", "exponent", "alpha", "bandwidth"}
        return known and self._options().get("kernel", "laplace") in _OF_DIFFERENCES

    def _diagonal(self):
        if not self._is_of_differences():
            return super()._diagonal()
        if _alias(self.x1, self.x2):  # the gradient to a difference of 0 is 0
            return self._pairs(self.x1.detach(), self.x2.detach())
        return self._pairs(self.x1, self.x2)

    def _get_indices(self, row_index, col_index, *batch_indices):
        memo = None if self._is_recorded() else getattr(self, "_memo", None)
        if memo is not None:
            return memo[(*batch_indices, row_index, col_index)]
        if not self._is_of_differences():
            return super()._get_indices(row_index, col_index, *batch_indices)
        return self._pairs(
            self.x1[(*batch_indices, row_index)], self.x2[(*batch_indices, col_index)]
        )

    def zero_mean_mvn_samples(self, num_samples):
        """(num_samples, n), normal with this covariance, by gram.krr_samples: many points have
        random Fourier features.  Without gradients; where they are asked for, and for other kernels
        and batches, the samples are those of linear_operator."""
        if self._is_recorded() or self.x1.dim() != 2 or not self._is_of_differences():
            return super().zero_mean_mvn_samples(num_samples)
        if self._options().get("kernel") == "distance" or not _alias(self.x1, self.x2):
            return super().zero_mean_mvn_samples(num_samples)
        points = self.x1.detach()
        seed = int(torch.randint(2**31, ()))
        return gram.krr_samples(points[:0], points.new_empty(0), z=points, ridge=1.0, seed=seed,
                                count=num_samples, **self._options()).T  # fmt: skip

    def to_dense(self):
        """The matrix, stored."""
        memo = None if self._is_recorded() else getattr(self, "_memo", None)
        return self.covar_mat if memo is None else memo


# Kernels of gram.kernel that are functions of x - y.
_OF_DIFFERENCES = {
    "laplace",
    "gaussian",
    "lpq-laplace",
    "product-laplace",
    "matern32",
    "matern52",
    "rational-quadratic",
    "distance",
}


class _Kernel(gpytorch.kernels.Kernel):
    has_lengthscale = True

    def form(self):
        """The kernel of the scaled points, as gram.torch.kernel takes it."""
        raise NotImplementedError

    def forward(self, x1, x2, diag=False, **params):
        if params.get("last_dim_is_batch"):
            raise NotImplementedError("gram.gpytorch: last_dim_is_batch is not supported")
        one_set = _one_set(x1, x2)
        x1, x2 = _torch_kernels.quotients(x1, None if one_set else x2, self.lengthscale, False)
        x2 = x1 if one_set else x2
        matrix = KernelOperator(x1, x2, **self.form())
        if diag:
            return matrix.diagonal(dim1=-1, dim2=-2)
        if matrix.shape.numel() * x1.element_size() > max_stored_bytes.value():
            return matrix
        return gram.torch.kernel(x1, None if one_set else x2, **self.form())


class RBFKernel(_Kernel):
    """exp(-|x - y|^2 / 2) of points divided by one lengthscale, or by one per coordinate
    (ard_num_dims), like gpytorch.kernels.RBFKernel.  A matrix beyond max_stored_bytes is a
    gram.gpytorch.KernelOperator.  The formula is the same as gram.kernel has.

    >>> kernel = gram.gpytorch.RBFKernel(ard_num_dims=3)
    >>> kernel.lengthscale.shape, kernel.form()
    (torch.Size([1, 3]), {'kernel': 'gaussian'})
    """

    def form(self):
        return {"kernel": "gaussian"}


class MaternKernel(_Kernel):
    """The Matern kernel with nu = 0.5, 1.5 or 2.5, like gpytorch.kernels.MaternKernel.  Otherwise
    the same as gram.gpytorch.RBFKernel.  Raises ValueError for another nu.

    >>> kernel = gram.gpytorch.MaternKernel(nu=0.5)
    >>> kernel.form()
    {'kernel': 'laplace'}
    >>> kernel(torch.zeros(1, 1), torch.ones(1, 1)).to_dense().item() < 1
    True
    """

    _NAMES = {0.5: "laplace", 1.5: "matern32", 2.5: "matern52"}

    def __init__(self, nu=2.5, **options):
        if nu not in self._NAMES:
            raise ValueError(f"gram.gpytorch.MaternKernel: nu is {nu!r}, expected 0.5, 1.5 or 2.5")
        super().__init__(**options)
        self.nu = nu

    def form(self):
        return {"kernel": self._NAMES[self.nu]}


class LaplaceKernel(_Kernel):
    """exp(-|x - y|_p^exponent) of points divided by the lengthscale.  With p = 1, the default, it
    is often the best kernel for tables.  It is positive definite for exponent <= p <= 2.  Otherwise
    the same as gram.gpytorch.RBFKernel.

    >>> kernel = gram.gpytorch.LaplaceKernel()
    >>> kernel.form()
    {'kernel': 'lpq-laplace', 'p': 1.0, 'exponent': 1.0}
    >>> kernel.lengthscale = 4.0
    >>> round(kernel(torch.zeros(1, 2), torch.ones(1, 2)).to_dense().log().item(), 3)
    -0.5
    """

    def __init__(self, p=1.0, exponent=1.0, **options):
        super().__init__(**options)
        self.p, self.exponent = float(p), float(exponent)

    def form(self):
        return {"kernel": "lpq-laplace", "p": self.p, "exponent": self.exponent}


class MarginalLogLikelihood(gpytorch.mlls.ExactMarginalLogLikelihood):
    """The objective of an exact Gaussian process by gram.torch.log_marginal_likelihood.

    It takes the place of gpytorch.mlls.ExactMarginalLogLikelihood.  The model's kernel is
    RBFKernel, MaternKernel or LaplaceKernel of gram.gpytorch, or a gpytorch.kernels.ScaleKernel of
    one, of points (n, k), which may have gradients too; the noise of its GaussianLikelihood is one
    number.  Mean, lengthscales, outputscale and noise have gradients, all from the same solves; as
    with GPyTorch, the value is divided by n, and priors are added to it.
    Options are method, probes, steps, tolerance, rank, seed and report, those of
    gram.torch.log_marginal_likelihood.  Raises ValueError for another model, and else the same
    errors.

    >>> class Model(gpytorch.models.ExactGP):
    ...     def __init__(self, x, y, likelihood):
    ...         super().__init__(x, y, likelihood)
    ...         self.mean_module = gpytorch.means.ConstantMean()
    ...         self.covar_module = gpytorch.kernels.ScaleKernel(gram.gpytorch.RBFKernel())
    ...     def forward(self, x):
    ...         mean, covariance = self.mean_module(x), self.covar_module(x)
    ...         return gpytorch.distributions.MultivariateNormal(mean, covariance)
    >>> x, y = torch.tensor([[0.0], [1.0]]), torch.tensor([1.0, -1.0])
    >>> model = Model(x, y, gpytorch.likelihoods.GaussianLikelihood())
    >>> loss = -gram.gpytorch.MarginalLogLikelihood(model.likelihood, model)(model(x), y)
    >>> loss.backward()
    >>> round(loss.item(), 3), model.likelihood.noise_covar.raw_noise.grad is not None
    (1.512, True)
    """

    def __init__(self, likelihood, model, **options):
        super().__init__(likelihood, model)
        self.options = options

    def _parts(self, covariance):
        """The kernel, its amplitude, and the points."""
        kernel, amplitude = getattr(covariance, "kernel", None), 1.0
        if isinstance(kernel, gpytorch.kernels.ScaleKernel):
            kernel, amplitude = kernel.base_kernel, kernel.outputscale
        if not isinstance(kernel, _Kernel) or covariance.x1.dim() != 2:
            raise ValueError(
                "gram.gpytorch.MarginalLogLikelihood: the covariance is that of "
                f"{type(covariance if kernel is None else kernel).__name__}, expected a kernel of "
                "gram.gpytorch of one matrix of points, or a ScaleKernel of one"
            )
        return kernel, amplitude, covariance.x1

    def forward(self, function_dist, target, *params, **kwargs):
        kernel, amplitude, x = self._parts(function_dist.lazy_covariance_matrix)
        value = gram.torch.log_marginal_likelihood(
            x, target - function_dist.mean, noise=self.likelihood.noise, amplitude=amplitude,
            lengths=kernel.lengthscale.reshape(-1).expand(x.shape[-1]), **kernel.form(),
            **self.options,
        )  # fmt: skip
        value = self._add_other_terms(value, params)
        return value / max(1, x.shape[0])


class KroneckerOperator(KroneckerProductLinearOperator):
    """The Kronecker product of matrices or linear operators, which is never formed.  Products with
    it are the same as gram.torch.kron_matmul; everything else is that of the corresponding class of
    linear_operator.

    >>> two, three = 2 * torch.eye(2), 3 * torch.eye(3)
    >>> (gram.gpytorch.KroneckerOperator(two, three) @ torch.ones(6)).tolist()
    [6.0, 6.0, 6.0, 6.0, 6.0, 6.0]
    """

    def _product(self, rhs, transposed):
        factors = [f.to_dense() for f in self.linear_ops]
        factors = [f.mT for f in factors] if transposed else factors
        columns = rhs[:, None] if rhs.dim() == 1 else rhs
        product = gram.torch.kron_matmul(columns, factors, side="left")
        return product[..., 0] if rhs.dim() == 1 else product

    def _matmul(self, rhs):
        return self._product(rhs, False)

    def _t_matmul(self, rhs):
        return self._product(rhs, True)


class GridKernel(gpytorch.kernels.Kernel):
    """The product of kernels, one per axis, for points (..., len(axes)).  On the whole grid of the
    axes, in the order of torch.cartesian_prod, it is the same as gram.gpytorch.KroneckerOperator.
    axes are vectors (n,) with the same dtype.  Raises ValueError if the number of kernels is
    another.  After Saatci, Scalable inference for structured Gaussian process models, 2011.

    >>> axes = [torch.linspace(0, 1, 4), torch.linspace(0, 1, 5)]
    >>> kernel = gram.gpytorch.GridKernel([gram.gpytorch.RBFKernel() for _ in axes], axes)
    >>> [len(axis) for axis in kernel.axes()], kernel(kernel.points()).shape
    ([4, 5], torch.Size([20, 20]))
    """

    is_stationary = True

    def __init__(self, kernels, axes):
        super().__init__()
        if len(kernels) != len(axes) or not axes:
            raise ValueError(
                f"gram.gpytorch.GridKernel: {len(kernels)} kernels and {len(axes)} axes, expected "
                "one kernel per axis"
            )
        self.kernels = torch.nn.ModuleList(kernels)
        for i, axis in enumerate(axes):
            self.register_buffer(f"axis_{i}", axis.reshape(-1))

    def axes(self):
        """The coordinates of the grid, one vector per axis."""
        return [getattr(self, f"axis_{i}") for i in range(len(self.kernels))]

    def points(self):
        """The points of the grid, one per row."""
        return torch.cartesian_prod(*self.axes()).reshape(-1, len(self.kernels))

    def forward(self, x1, x2, diag=False, **params):
        if not diag and all(torch.equal(x, self.points()) for x in (x1, x2)):
            axes = zip(self.kernels, self.axes(), strict=True)
            return KroneckerOperator(*[k(a[:, None]).to_dense() for k, a in axes])
        found = None
        for i, kernel in enumerate(self.kernels):
            part = kernel(x1[..., i : i + 1], x2[..., i : i + 1], diag=diag)
            part = part if diag else part.to_dense()
            found = part if found is None else found * part
        return found if diag else _to_operator(found)
