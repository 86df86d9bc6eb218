"""Kernels and linear operators for GPyTorch that never store a kernel matrix.

RBFKernel, MaternKernel and LaplaceKernel stand where GPyTorch's have stood in a model; their
matrices are KernelOperators, whose products are gram.torch.kernel_matmul: conjugate gradients on
many points take memory for the points and the vectors alone.  Gradients go to points and
lengthscales.  GridKernel and KroneckerOperator are for inputs on a grid.  After Gardner et al.,
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
except ImportError as e:
    raise ImportError("gram.gpytorch needs GPyTorch 1.14 or newer (pip install gpytorch)") from e

import gram.torch

__all__ = [
    "GridKernel",
    "KernelOperator",
    "KroneckerOperator",
    "LaplaceKernel",
    "MaternKernel",
    "RBFKernel",
]


def _matrix(x1, x2, **options):
    return gram.torch.kernel(x1, x2, **options)


class KernelOperator(KernelLinearOperator):
    """The matrix gram.torch.kernel(x1, x2, kernel, **options), computed anew by every product.

    x1 is (..., m, k), x2 (..., n, k); both have gradients.  Options are those of gram.torch.kernel,
    numbers and texts, no tensors: divide the points by what a lengthscale is to be.  Indexing gives
    operators on fewer points; to_dense() stores the matrix.  Points of float32 or float64.  Raises
    TypeError for an option that is a tensor; otherwise as gram.kernel_matmul.

    >>> x = torch.tensor([[0.0], [1.0], [2.0]])
    >>> (gram.gpytorch.KernelOperator(x, x, kernel="linear") @ torch.ones(3)).tolist()
    [0.0, 3.0, 6.0]
    """

    def __init__(self, x1, x2, covar_func=_matrix, **options):
        for name, value in options.items():
            if isinstance(value, torch.Tensor):
                raise TypeError(
                    f"gram.gpytorch.KernelOperator: {name} is a tensor, expected a number: "
                    "divide the points by a lengthscale instead"
                )
        super().__init__(x1, x2, covar_func=covar_func, **options)

    def _options(self):
        return self.nontensor_params

    def _is_symmetric(self):
        """Are both sets one, and is nothing recorded that would ask for a gradient to each?"""
        a, b = self.x1, self.x2
        same = a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.stride() == b.stride()
        return same and not (torch.is_grad_enabled() and (a.requires_grad or b.requires_grad))

    def _matmul(self, rhs):
        v = rhs[:, None] if rhs.dim() == 1 else rhs
        y = None if self._is_symmetric() else self.x2
        product = gram.torch.kernel_matmul(self.x1, y, v=v, **self._options())
        return product[..., 0] if rhs.dim() == 1 else product

    def to_dense(self):
        """The matrix, stored."""
        return self.covar_mat


class _Kernel(gpytorch.kernels.Kernel):
    has_lengthscale = True

    def form(self):
        """The kernel of the scaled points, as gram.torch.kernel takes it."""
        raise NotImplementedError

    def forward(self, x1, x2, diag=False, **params):
        if params.get("last_dim_is_batch"):
            raise NotImplementedError("gram.gpytorch: last_dim_is_batch is not offered")
        matrix = KernelOperator(x1 / self.lengthscale, x2 / self.lengthscale, **self.form())
        return matrix.diagonal(dim1=-1, dim2=-2) if diag else matrix


class RBFKernel(_Kernel):
    """exp(-|x - y|^2 / 2) of points divided by the lengthscale, one or (ard_num_dims) one a
    coordinate, as gpytorch.kernels.RBFKernel.  Its matrices are as gram.gpytorch.KernelOperator;
    sources as gram.kernel.

    >>> kernel = gram.gpytorch.RBFKernel(ard_num_dims=3)
    >>> kernel.lengthscale.shape, kernel.form()
    (torch.Size([1, 3]), {'kernel': 'gaussian'})
    """

    def form(self):
        return {"kernel": "gaussian"}


class MaternKernel(_Kernel):
    """Matern's kernel with nu = 0.5, 1.5 or 2.5, as gpytorch.kernels.MaternKernel; otherwise as
    gram.gpytorch.RBFKernel.  Raises ValueError for another nu.

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
    """exp(-|x - y|_p^exponent) of points divided by the lengthscale: with p = 1, the default, often
    the best kernel of tables.  Positive definite for exponent <= p <= 2.  Otherwise as
    gram.gpytorch.RBFKernel.

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


class KroneckerOperator(KroneckerProductLinearOperator):
    """The Kronecker product of matrices or linear operators, never formed: products with it are
    as gram.torch.kron_matmul; the rest is what linear_operator's own class of the kind does.

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
    """The product of kernels, one an axis, of points (..., len(axes)); on the whole grid of the
    axes, in the order of torch.cartesian_prod, as gram.gpytorch.KroneckerOperator.  axes are
    vectors (n,) of one dtype.  Raises ValueError where there are not as many kernels.  After
    Saatci, Scalable inference for structured Gaussian process models, 2011.

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
                "one kernel an axis"
            )
        self.kernels = torch.nn.ModuleList(kernels)
        for i, axis in enumerate(axes):
            self.register_buffer(f"axis_{i}", axis.reshape(-1))

    def axes(self):
        """The coordinates of the grid, a vector an axis."""
        return [getattr(self, f"axis_{i}") for i in range(len(self.kernels))]

    def points(self):
        """The points of the grid, one a row."""
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
