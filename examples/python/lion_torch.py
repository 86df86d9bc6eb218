"""lion_torch.py - an optimizer of one's own whose step is a CUDA kernel of one's own

Lion (Chen et al., Symbolic Discovery of Optimization Algorithms, 2023) moves by a sign:

    u = sign(beta1 m + (1 - beta1) g),  p <- p - lr (u + decay p),  m <- beta2 m + (1 - beta2) g.

In PyTorch that is seven passes over memory.  On a GPU one kernel, compiled by gram.Module at the
first step and kept in its cache, reads p, g and m once and writes p and m; on the CPU the same
formula is PyTorch's.  Both are the same optimizer with the same state.
"""

import gram
import torch

SOURCE = """
extern "C" __global__ void lion(float *p, const float *g, float *m, double lr, double beta1,
                                double beta2, double decay, long long n)
{
    const long long apart = gridDim.x * (long long)blockDim.x;

    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += apart) {
        const float mixed = (float)beta1 * m[i] + (float)(1 - beta1) * g[i];
        const float sign = (mixed > 0) - (mixed < 0);
        p[i] -= (float)lr * (sign + (float)decay * p[i]);
        m[i] = (float)beta2 * m[i] + (float)(1 - beta2) * g[i];
    }
}
"""


class Lion(torch.optim.Optimizer):
    """Lion for dense float32 parameters on the CPU or one GPU."""

    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(parameters, {"lr": lr, "betas": betas, "weight_decay": weight_decay})
        self._modules = {}

    def _module(self, device):
        """The compiled kernel for a stream: it must run where PyTorch's own kernels do."""
        stream = torch.cuda.current_stream(device).cuda_stream
        if (device, stream) not in self._modules:
            self._modules[device, stream] = gram.Module(
                SOURCE, name="lion", device=str(device), stream=stream
            )
        return self._modules[device, stream]

    @torch.no_grad()
    def step(self, closure=None):
        """One step; the loss of closure, which is called first."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    m = self.state[p].setdefault("momentum", torch.zeros_like(p))
                    self._move(p, p.grad, m, group)
        return loss

    def _move(self, p, g, m, group):
        lr, (beta1, beta2), decay = group["lr"], group["betas"], group["weight_decay"]
        one_piece = p.is_contiguous() and g.is_contiguous() and m.is_contiguous()
        if p.is_cuda and p.dtype == g.dtype == torch.float32 and one_piece:
            if p.numel():
                blocks = min(-(-p.numel() // 256), 4096)
                arguments = (p.detach(), g, m, lr, beta1, beta2, decay, p.numel())
                self._module(p.device).launch("lion", blocks, 256, arguments)
            return
        sign = (beta1 * m + (1 - beta1) * g).sign()
        p.sub_(lr * (sign + decay * p))
        m.mul_(beta2).add_(g, alpha=1 - beta2)


def train(device, steps=300):
    """The first and the last loss of a small network that learns a product."""
    torch.manual_seed(0)
    x = torch.rand(512, 2) * 2 - 1
    y = (x[:, :1] * x[:, 1:]).to(device)
    model = torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    model, x = model.to(device), x.to(device)
    optimizer = Lion(model.parameters(), lr=3e-3, weight_decay=1e-3)
    losses = []
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 3e-3 * (1 - step / steps)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses[0].item(), losses[-1].item()


def main():
    for device in ["cpu"] + ["cuda"] * (torch.cuda.is_available() and len(gram.devices()) > 1):
        first, last = train(device)
        print(f"{device}: loss {first:.3g} at first, {last:.2g} after 300 steps")
        assert last < first / 50


if __name__ == "__main__":
    main()
