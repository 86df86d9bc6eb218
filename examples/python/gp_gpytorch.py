"""gp_gpytorch.py - a model of GPyTorch with kernels of libgram: many points, and a grid

The first model learns its lengthscales from 1200 points by conjugate gradients, whose products
never store the kernel matrix; the second one, on a 40 x 30 grid, by Kronecker products.
Needs GPyTorch (pip install gpytorch).
"""

import gpytorch
import gram.gpytorch
import torch


class Model(gpytorch.models.ExactGP):
    def __init__(self, x, y, kernel):
        super().__init__(x, y, gpytorch.likelihoods.GaussianLikelihood())
        self.mean = gpytorch.means.ConstantMean()
        self.kernel = gpytorch.kernels.ScaleKernel(kernel)
        self.double()
        self.likelihood.noise = 0.05

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


def truth(x):
    return torch.sin(4 * x[:, 0]) * torch.cos(3 * x[:, 1])


def learn(model, steps):
    likelihood = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    (x,), y = model.train_inputs, model.train_targets
    for _ in range(steps):
        optimizer.zero_grad()
        loss = -likelihood(model(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()


def error(model, new):
    """Root mean square error of the mean at new points."""
    model.eval()
    with torch.no_grad():
        return (model(new).mean - truth(new)).square().mean().sqrt().item()


def main():
    torch.manual_seed(0)
    new = torch.rand(300, 2, dtype=torch.float64)

    x = torch.rand(1200, 2, dtype=torch.float64)
    y = truth(x) + 0.1 * torch.randn(len(x), dtype=torch.float64)
    model = Model(x, y, gram.gpytorch.MaternKernel(nu=2.5, ard_num_dims=2))
    loss = learn(model, 10)
    scattered = error(model, new)
    print(f"1200 points: loss {loss:.3f}, error {scattered:.3f} (noise 0.100)")

    axes = [torch.linspace(0, 1, n, dtype=torch.float64) for n in (40, 30)]
    kernel = gram.gpytorch.GridKernel([gram.gpytorch.RBFKernel() for _ in axes], axes)
    y = truth(kernel.points()) + 0.1 * torch.randn(1200, dtype=torch.float64)
    model = Model(kernel.points(), y, kernel)
    loss = learn(model, 30)
    on_grid = error(model, new)
    print(f"40 x 30 grid: loss {loss:.3f}, error {on_grid:.3f} (noise 0.100)")
    assert scattered < 0.06 and on_grid < 0.05


if __name__ == "__main__":
    main()
