"""gram.optim.transform: optimizers as functions of gradients, state and parameters."""

import sys
from typing import NamedTuple

from gram import _arrays, _core

__all__ = ["State", "Transform"]


class State(NamedTuple):
    """The state of a transform after a step: arrays with the names of gram_optimizer_state_at.

    tensors is a dict of NumPy arrays.  Shapes, dtypes and errors are the same as
    gram.optim.transform has.

    >>> import numpy as np, gram.optim
    >>> sorted(gram.optim.transform("shampoo").init(np.ones(2)).tensors)[:1]
    ['0.0.factor.0']
    """

    tensors: dict


def flatten(tree):
    """The leaves of lists, tuples and dicts, and what makes a tree of as many leaves again."""
    if isinstance(tree, dict):
        keys = sorted(tree)
        leaves, build = _flatten_all([tree[key] for key in keys])
        return leaves, lambda new: type(tree)(zip(keys, build(new), strict=True))
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        leaves, build = _flatten_all(tree)
        return leaves, lambda new: type(tree)(*build(new))
    if isinstance(tree, list | tuple):
        leaves, build = _flatten_all(tree)
        return leaves, lambda new: type(tree)(build(new))
    return [tree], lambda new: new[0]


def _flatten_all(trees):
    parts = [flatten(tree) for tree in trees]
    leaves = [leaf for part, _ in parts for leaf in part]

    def build(new):
        result, at = [], 0
        for part, make in parts:
            result.append(make(new[at : at + len(part)]))
            at += len(part)
        return result

    return leaves, build


def arrays_of(core):
    """{name: NumPy array over the optimizer's own memory}; bfloat16 as 16-bit integers."""
    import numpy

    return {name: numpy.asarray(view) for name, _, view in core.state()}


def _detached(array):
    """An array without the record of gradients that a tensor of PyTorch may have."""
    if not hasattr(array, "dtype") or not hasattr(array, "shape"):
        raise TypeError(f"gram.optim.transform: {array!r} is not an array")
    if "cuda" in str(getattr(array, "device", "")).lower():
        raise NotImplementedError(
            f"gram.optim.transform: an array is on {array.device}; use gram.optim.Shampoo there"
        )
    return array.detach() if hasattr(array, "detach") else array


class Transform:
    """The result of gram.optim.transform: init(params), update(grads, state, params).

    Arrays, dtypes and errors are the same as gram.optim.transform has.

    >>> import numpy as np, gram.optim
    >>> rule = gram.optim.transform("soap", lr=lambda step: 0.1 / (step + 1))
    >>> updates, state = rule.update([np.ones(2)], rule.init([np.zeros(2)]), [np.zeros(2)])
    >>> updates[0].shape
    (2,)
    """

    def __init__(self, options, lr):
        self._options = options if callable(lr) else {**options, "learning_rate": float(lr)}
        self._lr = lr
        self._idle = {}  # optimizers whose state is free to be overwritten, by what they are for
        self._create([])  # refuses options that cannot be

    def _create(self, leaves):
        return _core.optimizer_create(self._options, leaves)

    def _take(self, leaves):
        key = tuple((tuple(leaf.shape), str(leaf.dtype)) for leaf in leaves)
        core = self._idle.pop(key, None)
        return key, core if core is not None else self._create(leaves)

    def init(self, params):
        """The state before the first step; params are not kept."""
        leaves = [_detached(leaf) for leaf in flatten(params)[0]]
        return _state_of(self._create(leaves))

    def update(self, grads, state, params):
        """Returns (updates, the state after this step); params + updates are the next parameters.
        """
        leaves = [_detached(leaf) for leaf in flatten(params)[0]]
        slopes, build = flatten(grads)
        if len(slopes) != len(leaves):
            raise ValueError(
                f"gram.optim.transform: grads has {len(slopes)} arrays, but params has "
                f"{len(leaves)}"
            )
        slopes = [None if slope is None else _detached(slope) for slope in slopes]
        key, core = self._take(leaves)
        _restore(core, state)
        lr = self._lr(int(state.tensors["step"])) if callable(self._lr) else self._lr
        made = [None if slope is None else _room(slope) for slope in slopes]
        directions = [None if pair is None else pair[0] for pair in made]
        core.direction(leaves, slopes, directions)
        updates = [None if pair is None else _finished(pair, -float(lr)) for pair in made]
        state = _state_of(core)
        self._idle[key] = core
        return build(updates), state


def _state_of(core):
    return State({name: array.copy() for name, array in arrays_of(core).items()})


def _restore(core, state):
    """Copies a state into an optimizer, which then holds nothing else."""
    import numpy

    own = arrays_of(core)
    if set(own) != set(state.tensors):
        raise ValueError("gram.optim.transform: the state belongs to other parameters or options")
    for name, array in own.items():
        value = numpy.asarray(state.tensors[name])
        if value.shape != array.shape or value.dtype != array.dtype:
            raise ValueError(
                f"gram.optim.transform: {name} of the state is {value.dtype} {value.shape}, "
                f"expected {array.dtype} {array.shape}"
            )
        array[...] = value


def _room(slope):
    """An array to write a direction into, and what makes the caller's result of it, or None."""
    name = str(slope.dtype).removeprefix("torch.")
    dtype = name if name in ("float32", "float64") else "float32"
    if type(slope).__module__.partition(".")[0] == "numpy":
        return sys.modules["numpy"].empty(slope.shape, dtype), None
    return _arrays.empty(slope, tuple(slope.shape), dtype, 0, 0)


def _finished(pair, factor):
    array, finish = pair
    array *= factor
    return array if finish is None else finish(array)
