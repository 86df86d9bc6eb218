"""test_optim_torch.py - gram.optim's classes: PyTorch's habits and checkpoints

Skipped without PyTorch 1.13, and what came later before that. That the steps are the formulas' is
test_optim.py's.
"""

import copy
import io

import gram
import numpy as np
import pytest

torch = pytest.importorskip("torch", minversion="1.13.0a0")

import gram.optim  # noqa: E402

needs_compile = pytest.mark.skipif(not hasattr(torch, "compile"), reason="needs PyTorch 2")
needs_scaler = pytest.mark.skipif(not hasattr(torch.amp, "GradScaler"), reason="needs PyTorch 2.3")

METHODS = {
    "shampoo": lambda p, **o: gram.optim.Shampoo(
        p, **{"lr": 0.05, "betas": (0.9, 0.95), "eps": 1e-4, "graft": "adam", "refresh": 2,
              "momentum": 0.5, **o}
    ),
    "soap": lambda p, **o: gram.optim.SOAP(p, **{"lr": 0.05, "refresh": 2, **o}),
    "muon": lambda p, **o: gram.optim.Muon(p, **{"lr": 0.05, "precision": "f32", **o}),
}  # fmt: skip
# How far rounding takes a parameter in a few steps: SOAP's bases of the first gradients, whose
# factors are singular, are any.
WHERE_BASES_DIFFER = {"shampoo": 0.1, "soap": 0.3, "muon": 0.1}
CLASSES = {"shampoo": "Shampoo", "soap": "SOAP", "muon": "Muon"}


@pytest.fixture(params=METHODS)
def method(request):
    torch.manual_seed(0)
    return request.param


def network(dtype=torch.float32):
    return torch.nn.Sequential(
        torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3)
    ).to(dtype)


def loss_of(model, seed=0):
    x = torch.randn(16, 6, generator=torch.Generator().manual_seed(seed))
    x = x.to(next(model.parameters()).dtype)
    return (model(x) - x[:, :3].square()).float().square().mean()


def go(model, optimizer, steps, first=0):
    for step in range(first, first + steps):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.step()


def same(a, b):
    for p, q in zip(a.parameters(), b.parameters(), strict=True):
        assert torch.equal(p, q)


def test_the_defaults_are_those_of_the_library(method):
    function = getattr(gram.optim, CLASSES[method])
    optimizer = function([torch.nn.Parameter(torch.zeros(2))])
    optimizer.param_groups[0]["params"][0].grad = torch.ones(2)
    optimizer.step()
    core, options = optimizer._cores[0]
    assert options == gram._core.optimizer_defaults(method)
    facts = core.get()[1]
    assert facts["parameters"] == 1 and facts["step"] == 1 and facts["bytes"] > 0


def test_training_learns_and_agrees_with_the_transform(method):
    model = network(torch.float64)
    optimizer = METHODS[method](model.parameters())
    options = {k: v for k, v in optimizer.defaults.items() if v is not None}
    rule = gram.optim.transform(method, **options)
    params = [p.detach().numpy().copy() for p in model.parameters()]
    state = rule.init(params)
    before = loss_of(model).item()
    for step in range(30):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        grads = [p.grad.numpy() for p in model.parameters()]
        updates, state = rule.update(grads, state, params)
        params = [p + u for p, u in zip(params, updates, strict=True)]
        optimizer.step()
        for p, q in zip(model.parameters(), params, strict=True):
            np.testing.assert_allclose(p.detach(), q, rtol=1e-10, atol=1e-12)
    assert loss_of(model).item() < before


def test_a_checkpoint_goes_on_identically(method):
    model = network()
    optimizer = METHODS[method](model.parameters())
    go(model, optimizer, 5)
    file = io.BytesIO()
    torch.save([model.state_dict(), optimizer.state_dict()], file)
    go(model, optimizer, 5, 5)
    file.seek(0)
    weights, state = torch.load(file, map_location="cpu", weights_only=hasattr(torch, "compile"))
    other = network()
    other.load_state_dict(weights)
    again = METHODS[method](other.parameters(), lr=7.0)  # the checkpoint's options win
    again.load_state_dict(state)
    again.load_state_dict(again.state_dict())  # before its first step too
    go(other, again, 5, 5)
    same(model, other)


def test_pickles_and_deep_copies_go_on_identically(method):
    model = network()
    optimizer = METHODS[method](model.parameters())
    go(model, optimizer, 3)
    pair = copy.deepcopy((model, optimizer))
    file = io.BytesIO()
    torch.save((model, optimizer), file)
    file.seek(0)
    other = torch.load(file, weights_only=False)
    go(model, optimizer, 3, 3)
    for copied in (pair, other):
        go(*copied, 3, 3)
        same(model, copied[0])


def test_a_checkpoint_is_a_copy(method):
    model = network()
    optimizer = METHODS[method](model.parameters())
    go(model, optimizer, 2)
    state = optimizer.state_dict()
    before = copy.deepcopy(state["state"])
    go(model, optimizer, 2)
    for key, tensors in before.items():
        for name, tensor in tensors.items():
            assert torch.equal(state["state"][key][name], tensor), name


def test_checkpoints_that_do_not_fit(method):
    model = network()
    optimizer = METHODS[method](model.parameters())
    go(model, optimizer, 2)
    state = optimizer.state_dict()
    for change in ("missing", "shape"):
        bad = copy.deepcopy(state)
        if change == "missing":
            del bad["state"][0]["0.moment"]
        else:
            bad["state"][0]["0.moment"] = torch.zeros(3)
        other = network()
        again = METHODS[method](other.parameters())
        again.load_state_dict(bad)
        with pytest.raises(ValueError, match="0.moment of the checkpoint"):
            go(other, again, 1)
    with pytest.raises(ValueError, match="parameter group"):
        METHODS[method]([torch.nn.Parameter(torch.zeros(2))]).load_state_dict(state)


def test_groups_have_options_of_their_own(method):
    model, single = network(), network()
    single.load_state_dict(model.state_dict())
    optimizer = METHODS[method]([{"params": model[0].parameters()}])
    optimizer.add_param_group({"params": model[2].parameters(), "lr": 0.0, "weight_decay": 0.0})
    before = copy.deepcopy(model[2])
    go(model, optimizer, 4)
    same(model[2], before)
    assert len(optimizer.reports) == 2
    frozen = METHODS[method](single[0].parameters())
    single[2].requires_grad_(False)
    go(single, frozen, 4)
    same(model, single)


def test_schedulers_change_the_rate(method):
    model = network()
    optimizer = METHODS[method](model.parameters(), weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: float(step == 0))
    go(model, optimizer, 2)
    schedule.step()
    before = copy.deepcopy(model)
    go(model, optimizer, 1)
    if method != "shampoo":
        same(model, before)
    assert optimizer.param_groups[0]["lr"] == 0.0
    assert optimizer._cores[0][0].get()[0]["learning_rate"] == 0.0


def test_closures_and_missing_gradients(method):
    model = network()
    optimizer = METHODS[method](model.parameters())
    assert optimizer.step() is None and optimizer.reports == []
    before = copy.deepcopy(model)

    def closure():
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        model[2].weight.grad = None
        return loss

    for _ in range(2):
        assert optimizer.step(closure).item() > 0
    assert torch.equal(model[2].weight, before[2].weight)
    assert not torch.equal(model[0].weight, before[0].weight)


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, pytest.param(torch.float16, marks=needs_compile)]
)  # PyTorch 1.13 has no products of float16 on the CPU
def test_half_parameters_have_a_state_of_float32(method, dtype):
    model = network(dtype)
    exact = network(torch.float32)
    exact.load_state_dict(model.state_dict())
    optimizer = METHODS[method](model.parameters())
    go(model, optimizer, 3)
    go(exact, METHODS[method](exact.parameters()), 3)
    for p, q in zip(model.parameters(), exact.parameters(), strict=True):
        assert p.dtype == dtype
        torch.testing.assert_close(p.float(), q, rtol=0.1, atol=WHERE_BASES_DIFFER[method])
    state = optimizer.state_dict()["state"]
    floats = [t for s in state.values() for t in s.values() if t.is_floating_point()]
    assert floats and all(t.dtype == torch.float32 for t in floats)
    again = METHODS[method](model.parameters())
    again.load_state_dict(optimizer.state_dict())
    for key, tensors in again.state_dict()["state"].items():
        for name, tensor in tensors.items():
            assert torch.equal(tensor, state[key][name])


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_states_of_other_dtypes(method, dtype):
    model, plain = network(), network()
    plain.load_state_dict(model.state_dict())
    optimizer = METHODS[method](model.parameters(), state_dtype=getattr(torch, dtype))
    go(model, optimizer, 6)
    go(plain, METHODS[method](plain.parameters()), 6)
    bound = 1e-3 if dtype == "float64" and method != "soap" else WHERE_BASES_DIFFER[method]
    for p, q in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=bound, atol=bound)
    found = {t.dtype for s in optimizer.state_dict()["state"].values() for t in s.values()}
    assert getattr(torch, dtype) in found
    other = copy.deepcopy(model)
    again = METHODS[method](other.parameters())
    again.load_state_dict(optimizer.state_dict())
    go(model, optimizer, 2, 20)
    go(other, again, 2, 20)
    same(model, other)


@needs_scaler
def test_grad_scaler(method):
    model, plain = network(), network()
    plain.load_state_dict(model.state_dict())
    optimizer = METHODS[method](model.parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for step in range(3):
        optimizer.zero_grad()
        scaler.scale(loss_of(model, step)).backward()
        if step == 1:
            model[0].weight.grad[0, 0] = float("inf")
        before = copy.deepcopy(model)
        scaler.step(optimizer)
        scaler.update()
        if step == 1:
            same(model, before)
    assert scaler.get_scale() < 1024
    reference = METHODS[method](plain.parameters())
    go(plain, reference, 1)
    go(plain, reference, 1, 2)
    for p, q in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-4)


def test_gradients_that_are_not_finite(method):
    model = network()
    optimizer = METHODS[method](model.parameters())
    go(model, optimizer, 2)
    loss_of(model).backward()
    model[0].weight.grad[0, 0] = float("nan")
    before = copy.deepcopy(model)
    optimizer.step()
    assert optimizer.reports[0]["skipped"] == 1
    assert torch.equal(model[0].weight, before[0].weight)
    assert all(p.isfinite().all() for p in model.parameters())
    strict = METHODS[method](model.parameters(), not_finite="raise")
    before = copy.deepcopy(model)
    with pytest.raises(gram.LinAlgError, match="gradient"):
        strict.step()
    same(model, before)


@needs_compile
def test_compiled_models(method):
    model, eager = network(), network()
    eager.load_state_dict(model.state_dict())
    compiled = torch.compile(model, backend="aot_eager")
    go(compiled, METHODS[method](compiled.parameters()), 4)
    go(eager, METHODS[method](eager.parameters()), 4)
    for p, q in zip(model.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5)


def test_a_step_is_seen_by_autograd(method):
    model = network()
    optimizer = METHODS[method](model.parameters())
    loss = loss_of(model)
    loss.backward(retain_graph=True)
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_strided_parameters(method):
    weight = torch.randn(4, 6)
    one, two = torch.nn.Parameter(weight.t()), torch.nn.Parameter(weight.t().contiguous())
    for p in (one, two):
        optimizer = METHODS[method]([p])
        for step in range(3):
            p.grad = torch.randn(6, 4, generator=torch.Generator().manual_seed(step))
            optimizer.step()
    assert torch.equal(one, two)


def test_what_is_refused(method):
    table = torch.nn.Embedding(5, 3, sparse=True)
    optimizer = METHODS[method](table.parameters())
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(TypeError, match="parameter 0 of group 0 has a sparse gradient"):
        optimizer.step()
    p = torch.nn.Parameter(torch.zeros(3, 2))
    optimizer = METHODS[method]([p])
    p.grad = torch.ones(3, 2)
    optimizer.step()
    p.data, p.grad = torch.zeros(4, 2), None
    p.grad = torch.ones(4, 2)
    with pytest.raises(ValueError, match="parameters"):
        optimizer.step()
    meta = torch.nn.Parameter(torch.zeros(2, device="meta"))
    with pytest.raises(NotImplementedError, match="is on meta"):
        METHODS[method]([meta]).step()
    wave = torch.nn.Parameter(torch.zeros(2, dtype=torch.complex64))
    wave.grad = torch.ones(2, dtype=torch.complex64)
    with pytest.raises(TypeError):
        METHODS[method]([wave]).step()
    with pytest.raises(ValueError, match="eps"):
        METHODS[method]([p], eps=-1.0)
    with pytest.raises(ValueError, match="weight_decay"):
        METHODS[method]([{"params": [p], "weight_decay": float("nan")}])
    with pytest.raises(TypeError, match="no argument 'rate'"):
        gram.optim.transform(method, rate=1.0)
