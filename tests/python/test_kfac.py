"""test_kfac.py - gram._kfac: KFAC and EKFAC of modules against dense matrices, in float64"""

import copy
import io

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import gram  # noqa: E402
from gram._kfac import EKFAC, KFAC  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread():
    """Matrices this small are not worth a second thread."""
    threads, mine = torch.get_num_threads(), gram.get_threads()
    torch.set_num_threads(1)
    gram.set_threads(1)
    yield
    torch.set_num_threads(threads)
    gram.set_threads(mine)


def problem(seed=0, samples=12):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))
    x = torch.randn(samples, 4, dtype=torch.float64)
    return model.double(), x, torch.arange(samples) % 3


def one_step(model, x, y, optimizer):
    optimizer.zero_grad()
    outputs = model(x)
    optimizer.curvature(outputs)
    torch.nn.functional.cross_entropy(outputs, y).backward()
    grads = [p.grad.clone() for p in model.parameters()]
    before = [p.detach().clone() for p in model.parameters()]
    optimizer.step()
    return grads, [b - p.detach() for b, p in zip(before, model.parameters(), strict=True)]


def exact_fisher(model, x, index):
    """The type-2 Fisher of layer index, on [W b] row by row, from Jacobians."""
    layer, rows = model[index], []
    for n in range(len(x)):
        jacobian = []
        for c in range(3):
            model.zero_grad()
            model(x[n : n + 1])[0, c].backward()
            full = torch.cat([layer.weight.grad, layer.bias.grad[:, None]], 1)
            jacobian.append(full.reshape(-1).clone())
        j, p = torch.stack(jacobian), model(x[n : n + 1])[0].softmax(-1).detach()
        rows.append(j.T @ (torch.diag(p) - torch.outer(p, p)) @ j)
    return torch.stack(rows).mean(0)


def kronecker(model, x, index):
    """B x A of the same, from its definition."""
    a = x if index == 0 else model[1](model[0](x)).detach()
    a = torch.cat([a, torch.ones(len(x), 1, dtype=a.dtype)], 1)
    b = torch.zeros(model[index].out_features, model[index].out_features, dtype=a.dtype)
    for n in range(len(x)):
        p = model(x[n : n + 1])[0].softmax(-1).detach()
        hidden = model[0](x[n : n + 1])
        jacobian = torch.eye(3, dtype=a.dtype)
        if index == 0:
            jacobian = model[2].weight.detach() * (1 - hidden.tanh() ** 2).detach()
        b += jacobian.T @ (torch.diag(p) - torch.outer(p, p)) @ jacobian / len(x)
    return torch.kron(b, a.T @ a / len(x))


def direction(curvature, damping, grads):
    g = torch.cat([grads[0], grads[1][:, None]], 1)
    v = torch.linalg.solve(
        curvature + damping * torch.eye(len(curvature), dtype=g.dtype), g.reshape(-1)
    )
    v = v.reshape(g.shape)
    return v[:, :-1], v[:, -1]


def test_the_last_layer_and_the_first_by_their_definition():
    model, x, y = problem()
    curvatures = [kronecker(model, x, i) for i in (0, 2)]
    optimizer = KFAC(model, lr=1, momentum=0, damping=0.01, exact=True, kl_clip=0, fisher="type2")
    grads, steps = one_step(model, x, y, optimizer)
    for i, curvature in enumerate(curvatures):
        weight, bias = direction(curvature, 0.01, grads[2 * i : 2 * i + 2])
        np.testing.assert_allclose(steps[2 * i], weight, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(steps[2 * i + 1], bias, rtol=1e-9, atol=1e-12)


def test_ekfac_is_nearer_to_the_step_of_the_exact_fisher():
    model, x, y = problem(3)
    fisher = exact_fisher(model, x, 2)
    errors = []
    for kind in (KFAC, EKFAC):
        mine = copy.deepcopy(model)
        options = {"exact": True} if kind is KFAC else {}
        optimizer = kind(
            mine, lr=0, momentum=0, damping=0.05, kl_clip=0, fisher="type2", refresh_every=5,
            **options,
        )  # fmt: skip
        one_step(mine, x, y, optimizer)  # makes the eigenvectors
        optimizer.param_groups[0]["lr"] = 1
        grads, steps = one_step(mine, x, y, optimizer)
        weight, _ = direction(fisher, 0.05, grads[2:])
        errors.append(float((steps[2] - weight).norm() / weight.norm()))
    assert errors[1] < errors[0]


@pytest.mark.parametrize("flat", [False, True])
def test_the_curvature_of_a_mean_over_positions_is_that_of_as_many_samples(flat):
    """What a layer by layer network makes of sequences it makes of their positions as samples."""
    model, x, y = problem(4)
    steps = []
    for sequences in (False, True):
        mine = copy.deepcopy(model)
        optimizer = KFAC(mine, lr=1, momentum=0, damping=0.05, kl_clip=0, fisher="type2")
        outputs = mine(x.view(3, 4, 4) if sequences else x)
        optimizer.curvature(outputs.flatten(0, -2) if flat else outputs)
        torch.nn.functional.cross_entropy(outputs.flatten(0, -2), y).backward()
        before = [p.detach().clone() for p in mine.parameters()]
        optimizer.step()
        steps.append([b - p.detach() for b, p in zip(before, mine.parameters(), strict=True)])
    for a, b in zip(*steps, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_terms_are_those_that_a_sample_has_in_the_mean():
    model, x, y = problem(5)
    factors = []
    for terms, a in ((None, x), (4, x.view(3, 4, 4))):
        mine = copy.deepcopy(model)
        optimizer = KFAC(mine, lr=0, fisher="empirical", terms=terms)
        torch.nn.functional.cross_entropy(mine(a).flatten(0, -2), y).backward()
        optimizer.step()
        factors.append(optimizer.state_dict()["kfac"])
    for name in ("0.a", "0.b", "1.a", "1.b"):
        np.testing.assert_allclose(factors[0][name], factors[1][name], rtol=1e-12, atol=1e-15)
    with pytest.raises(ValueError, match="terms is 0, expected at least 1"):
        KFAC(model, terms=0)


def test_empirical_factors_are_those_of_the_gradients_of_samples():
    model, x, y = problem(1)
    optimizer = KFAC(model, fisher="empirical")
    one_step(model, x, y, optimizer)
    again, _, _ = problem(1)
    rows = []
    for n in range(len(x)):
        again.zero_grad()
        torch.nn.functional.cross_entropy(again(x[n : n + 1]), y[n : n + 1]).backward()
        rows.append(again[2].bias.grad.clone())
    g = torch.stack(rows)
    b = optimizer.state_dict()["kfac"]["1.b"]
    np.testing.assert_allclose(b, g.T @ g / len(x), rtol=1e-10, atol=1e-14)


def test_mc_becomes_type2():
    model, x, y = problem(2, samples=6)
    twin = copy.deepcopy(model)
    exact = KFAC(model, lr=0, fisher="type2")
    one_step(model, x, y, exact)
    drawn = KFAC(twin, lr=0, decay=1.0, fisher="mc", generator=torch.Generator().manual_seed(1))
    for _ in range(200):
        one_step(twin, x, y, drawn)
    want, got = exact.state_dict()["kfac"]["1.b"], drawn.state_dict()["kfac"]["1.b"]
    assert (got - want).norm() < 0.25 * want.norm()


@pytest.mark.parametrize("kind", [KFAC, EKFAC])
def test_convolutions_embeddings_and_norms_train(kind):
    torch.manual_seed(0)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(7, 4, padding_idx=0)
            self.convolution = torch.nn.Conv1d(4, 6, 3, padding=1, groups=2)
            self.norm = torch.nn.LayerNorm(6)
            self.linear = torch.nn.Linear(6, 3)

        def forward(self, x):
            h = self.convolution(self.table(x).transpose(1, 2)).relu()
            return self.linear(self.norm(h.mean(-1)))

    model = Net()
    x = torch.randint(0, 7, (32, 5))
    y = x.sum(1) % 3
    optimizer = kind(model, lr=0.05, refresh_every=3)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.7 * losses[0]
    info = optimizer.info()
    assert info["skipped"] == info["failed"] == 0 and 0 < info["nu"] <= 1


def test_checkpoints_go_on_alike():
    model, x, y = problem(4)
    optimizer = EKFAC(model, lr=0.05, refresh_every=2)
    for _ in range(3):
        one_step(model, x, y, optimizer)
    twin = copy.deepcopy(model)
    other = EKFAC(twin, lr=0.05, refresh_every=2)
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file))
    for _ in range(3):
        one_step(model, x, y, optimizer)
        one_step(twin, x, y, other)
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(p, q)
    state = other.state_dict()
    state["kfac"]["0.a"][0, 0] = float("nan")
    with pytest.raises(ValueError, match="0.a of the state"):
        optimizer.load_state_dict(state)
    with pytest.raises(ValueError, match="belongs to other layers"):
        KFAC(model).load_state_dict(optimizer.state_dict())


def test_gradients_are_accumulated():
    model, x, y = problem(6)
    optimizer = KFAC(model, lr=0.1)
    for part in (slice(0, 6), slice(6, 12)):
        torch.nn.functional.cross_entropy(model(x[part]), y[part]).backward()
    optimizer.step()
    assert optimizer.state_dict()["kfac"]["0.counts"][:2].tolist() == [2, 2]
    want = torch.cat([x, torch.ones(12, 1, dtype=x.dtype)], 1)
    a = optimizer.state_dict()["kfac"]["0.a"]
    np.testing.assert_allclose(a, want.T @ want / 12, rtol=1e-12, atol=1e-14)


def test_a_scaled_loss_has_the_factors_of_the_loss():
    model, x, y = problem(7)
    twin = copy.deepcopy(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    plain, scaled = KFAC(model, lr=0.1), KFAC(twin, lr=0.1, grad_scaler=scaler)
    for _ in range(3):
        one_step(model, x, y, plain)
        scaled.zero_grad()
        scaler.scale(torch.nn.functional.cross_entropy(twin(x), y)).backward()
        scaler.step(scaled)
        scaler.update()
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("fisher", ["empirical", "type2"])
def test_halves(fisher):
    """Of half parameters, and under autocast; momentum stays float32 in a checkpoint, too."""
    model, x, y = problem(8)
    model.float()
    start = torch.cat([p.detach().flatten() for p in model.parameters()])
    steps = []
    for dtype, cast in ((torch.float32, False), (torch.bfloat16, False), (torch.bfloat16, True)):
        twin = copy.deepcopy(model).to(torch.float32 if cast else dtype)
        optimizer = KFAC(twin, lr=0.05, fisher=fisher)
        for _ in range(3):
            with torch.autocast("cpu", torch.bfloat16, enabled=cast):
                optimizer.zero_grad()
                outputs = twin(x.to(twin[0].weight.dtype))
            optimizer.curvature(outputs)
            torch.nn.functional.cross_entropy(outputs.float(), y).backward()
            optimizer.step()
        again = KFAC(twin, lr=0.05, fisher=fisher)
        again.load_state_dict(optimizer.state_dict())
        assert again.state[twin[0].weight]["momentum_buffer"].dtype == torch.float32
        steps.append(torch.cat([p.detach().float().flatten() for p in twin.parameters()]) - start)
    for step in steps[1:]:
        assert (step - steps[0]).norm() < 0.1 * steps[0].norm()


@pytest.mark.parametrize("kind", [KFAC, EKFAC])
def test_state_in_float32(kind):
    """Half the memory, nearly the same steps, and checkpoints of either dtype."""
    model, x, y = problem(9)
    twin = copy.deepcopy(model)
    wide, narrow = kind(model, damping=0.1), kind(twin, damping=0.1, state_dtype=torch.float32)
    for _ in range(3):
        one_step(model, x, y, wide)
        one_step(twin, x, y, narrow)
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5)
    assert narrow.info()["bytes"] < 0.51 * wide.info()["bytes"]
    assert narrow.state_dict()["kfac"]["0.a"].dtype == torch.float32
    narrow.load_state_dict(wide.state_dict())
    assert torch.equal(narrow.state_dict()["kfac"]["0.b"], wide.state_dict()["kfac"]["0.b"].float())
    wide.load_state_dict(narrow.state_dict())
    with pytest.raises(ValueError, match="state_dtype"):
        kind(model, state_dtype="float16")


def test_memory_is_what_the_docstring_says():
    """Besides the numbers there are the names of parts, and what the layers are."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Conv2d(4, 6, 2, groups=2))
    model.append(torch.nn.Embedding(9, 3))
    m, n = (5, 2 * 2 * 2 + 1, 9), (5, 3, 3)
    linear, convolution = (2 * (m[i] ** 2 + n[i] ** 2) + m[i] + n[i] for i in (0, 1))
    numbers = linear + 2 * convolution + 2 * n[2] ** 2 + 2 * m[2] + n[2]
    numbers += m[0] * n[0] + 2 * m[1] * n[1] + m[2] * n[2] + 4 * 65536
    assert 0 <= KFAC(model).info()["bytes"] - 8 * numbers < 3 * 2048


def test_trouble():
    model, x, y = problem(5)
    optimizer = KFAC(model, fisher="empirical")
    one_step(model, x, y, optimizer)
    kept = [p.detach().clone() for p in model.parameters()]
    bad = x.clone()
    bad[0, 0] = float("nan")
    with pytest.raises(gram.LinAlgError, match="not finite"):
        one_step(model, bad, y, optimizer)
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), kept, strict=True))
    assert optimizer.info()["skipped"] == 2
    one_step(model, x, y, optimizer)
    assert all(p.isfinite().all() for p in model.parameters())
    model(x)
    with pytest.raises(RuntimeError, match="used again before a backward"):
        model(x)
    optimizer.close()
    model(x)
    model(x)
    for options in ({"fisher": "guess"}, {"damping": 0.0}, {"refresh_every": 0}, {"lr": -1.0}):
        with pytest.raises(ValueError):
            KFAC(model, **options)
    with pytest.raises(NotImplementedError, match="complex64"):
        KFAC(torch.nn.Linear(2, 2, dtype=torch.complex64))
