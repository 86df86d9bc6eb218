"""test_kfac_others.py - parameters that gram.optim.KFAC has no factors of, in float64"""

import copy
import io

import gram
import pytest

torch = pytest.importorskip("torch")

from gram._kfac import EKFAC, KFAC  # noqa: E402


class Net(torch.nn.Module):
    """A table of positions, a norm and a head beside what has factors."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Linear(4, 6)
        self.norm = torch.nn.LayerNorm(6)
        self.shift = torch.nn.Parameter(torch.randn(6))
        self.head = torch.nn.Linear(6, 3)
        self.double()

    def forward(self, x):
        return self.head((self.norm(self.first(x)) + self.shift).tanh())

    def others(self):
        return [self.shift, *self.norm.parameters()]


def data():
    x = torch.randn(12, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return x, torch.arange(12) % 3


def backward(model):
    x, y = data()
    model.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()


def adamw_by_hand(p, grads, lr, betas, eps, decay):
    """What a parameter becomes after steps with these gradients, from the paper's formula."""
    p, m, v = p.clone(), 0, 0
    for t, g in enumerate(grads, 1):
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        step = m / (1 - betas[0] ** t) / ((v / (1 - betas[1] ** t)).sqrt() + eps)
        p = p - lr * (step + decay * p)
    return p


@pytest.mark.parametrize("kind", [KFAC, EKFAC])
def test_others_are_those_of_adamw(kind):
    model = Net()
    optimizer = kind(
        model, lr=0.05, others="adamw", others_lr=0.02, others_betas=(0.8, 0.95), others_eps=1e-6,
        others_weight_decay=0.1,
    )  # fmt: skip
    before = [p.detach().clone() for p in model.others()]
    grads = [[] for _ in before]
    for _ in range(4):
        backward(model)
        for row, p in zip(grads, model.others(), strict=True):
            row.append(p.grad.clone())
        optimizer.step()
    for p, start, row in zip(model.others(), before, grads, strict=True):
        want = adamw_by_hand(start, row, 0.02, (0.8, 0.95), 1e-6, 0.1)
        torch.testing.assert_close(p.detach(), want, rtol=1e-12, atol=1e-13)


def test_layers_move_as_without_it():
    """The first step; later ones differ, since the others have moved elsewhere."""
    results = []
    for options in ({}, {"others": "adamw"}, {"others_lr": 0.3}):
        model = Net()
        optimizer = KFAC(model, lr=0.05, **options)
        backward(model)
        optimizer.step()
        known = [*model.first.parameters(), *model.head.parameters()]
        results.append([p.detach().clone() for p in known])
    for other in results[1:]:
        assert all(torch.equal(p, q) for p, q in zip(results[0], other, strict=True))


def test_sgd_with_a_rate_of_its_own():
    model = Net()
    optimizer = KFAC(model, lr=0.05, momentum=0.5, others_lr=0.3)
    assert [group["lr"] for group in optimizer.param_groups] == [0.05, 0.3]
    before, buf = model.shift.detach().clone(), 0
    for _ in range(3):
        backward(model)
        buf = 0.5 * buf + model.shift.grad
        before = before - 0.3 * buf
        optimizer.step()
    torch.testing.assert_close(model.shift.detach(), before, rtol=1e-12, atol=1e-13)


def test_a_scheduler_changes_both_rates():
    model = Net()
    optimizer = KFAC(model, lr=0.05, others="adamw", others_lr=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (step + 1))
    backward(model)
    optimizer.step()
    schedule.step()
    assert [group["lr"] for group in optimizer.param_groups] == [0.025, 0.005]


def test_skipped_layers_are_others():
    model = Net()
    optimizer = KFAC(model, others="adamw", skip_layers=[model.head])
    assert optimizer.info()["parameters"] == 4 * 6 + 6
    backward(model)
    optimizer.step()
    assert {"exp_avg", "exp_avg_sq", "step"} <= optimizer.state[model.head.weight].keys()
    attention = torch.nn.MultiheadAttention(4, 2)  # its out_proj is never called
    assert KFAC(attention, others="adamw").info()["parameters"] == 0


def test_checkpoints_go_on_alike():
    model = Net()
    options = {"lr": 0.05, "others": "adamw", "refresh_every": 2}
    optimizer = KFAC(model, **options)
    for _ in range(3):
        backward(model)
        optimizer.step()
    twin = copy.deepcopy(model)
    other = KFAC(twin, **options)
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file))
    for _ in range(3):
        for m, o in ((model, optimizer), (twin, other)):
            backward(m)
            o.step()
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(p, q)
    with pytest.raises(ValueError):  # of two groups, not of one
        KFAC(model).load_state_dict(optimizer.state_dict())


@pytest.mark.parametrize("rule", ["sgd", "adamw"])
def test_trouble(rule):
    model = Net()
    optimizer = KFAC(model, others=rule)
    backward(model)
    optimizer.step()
    kept = [p.detach().clone() for p in model.parameters()]
    backward(model)
    model.shift.grad[2] = float("nan")
    with pytest.raises(gram.LinAlgError, match=r"\(6,\) is not finite"):
        optimizer.step()
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), kept, strict=True))
    table = torch.nn.Embedding(5, 3, sparse=True)
    optimizer = KFAC(table, others=rule)
    before = table.weight.detach().clone()
    table(torch.tensor([1, 2])).sum().backward()
    with pytest.raises(TypeError, match="sparse"):
        optimizer.step()
    assert torch.equal(table.weight, before)
    for options in (
        {"others": "lion"}, {"others_lr": -1.0}, {"others_lr": float("nan")},
        {"others_betas": (0.9, 1.0)}, {"others_betas": (0.9,)}, {"others_eps": 0.0},
        {"others_weight_decay": -1.0},
    ):  # fmt: skip
        with pytest.raises(ValueError, match="gram.KFAC: others"):
            KFAC(model, **options)
