"""The state of gram._core.Kfac as tensors: views, means over ranks, checkpoints."""

import torch

_TYPES = {"float32": "<f4", "float64": "<f8", "int64": "<i8"}


def is_narrow(dtype):
    name = "float64" if dtype is None else str(dtype).removeprefix("torch.")
    if name not in ("float32", "float64"):
        raise ValueError(f"gram.KFAC: state_dtype is {dtype!r}, expected float32 or float64")
    return name == "float32"


class _OnDevice:
    """Memory of a GPU, as torch.as_tensor takes it; library keeps it."""

    def __init__(self, address, shape, dtype, library):
        self._library = library
        self.__cuda_array_interface__ = {
            "data": (address, False), "shape": shape, "typestr": _TYPES[dtype], "version": 3,
        }  # fmt: skip


def parts(library, device, endings=("",)):
    """(name, tensor) of what is named so, in the library's memory."""
    for name, shape, dtype, memory in library.state():
        if not name.endswith(endings):
            continue
        if isinstance(memory, int):
            view = torch.as_tensor(_OnDevice(memory, shape, dtype, library), device=device)
        else:
            view = torch.frombuffer(memory, dtype=getattr(torch, dtype)).view(shape)
        yield name, view


def average(views, trouble, device, group, name):
    """Makes every view the mean of all ranks', unless one of them is in trouble."""
    told = torch.full((1,), float(trouble is not None), dtype=torch.float64, device=device)
    flat = torch.cat([view.flatten() for view in views] + [told])
    torch.distributed.all_reduce(flat, group=group)
    if trouble is not None:
        raise trouble
    if flat[-1] > 0:
        raise RuntimeError(f"gram.{name}: the step failed on another rank")
    flat /= torch.distributed.get_world_size(group)
    for view, mean in zip(views, flat[:-1].split([v.numel() for v in views]), strict=True):
        view.copy_(mean.view(view.shape))


def check(optimizer, state, saved, views):
    """Raises where a checkpoint is not of these groups and parts; dtypes may differ."""
    rules = [group.get("others") for group in state["param_groups"]]
    own = [group.get("others") for group in optimizer.param_groups]
    if rules != own or saved is None or saved.keys() != views.keys() | {"steps"}:
        raise ValueError("gram.KFAC: the state belongs to other layers or options")
    for name, view in views.items():
        if saved[name].shape != view.shape or not saved[name].isfinite().all():
            raise ValueError(f"gram.KFAC: {name} of the state does not fit, or is not finite")


def widen(optimizer, state):
    """Momentum of halves, which load_state_dict has made halves too, as it was."""
    saved = [key for group in state["param_groups"] for key in group["params"]]
    own = [p for group in optimizer.param_groups for p in group["params"]]
    for key, p in zip(saved, own, strict=True):
        buffer = state["state"].get(key, {}).get("momentum_buffer")
        if buffer is not None and buffer.dtype != p.dtype:
            wide = torch.promote_types(p.dtype, torch.float32)
            optimizer.state[p]["momentum_buffer"] = buffer.to(p.device, wide, copy=True)
