"""The options of gram.optim in the words of gram.h."""

import math

from gram import _core

# Of each method: what it takes beside lr and betas, by the names in gram_optimizer_options.
_SHARED = {
    "weight_decay": "weight_decay",
    "eps": "epsilon",
    "bias_correction": "bias_correction",
    "state_dtype": "state",
    "not_finite": "not_finite",
    "precision": "precision",
}
_NAMES = {
    "shampoo": {
        **_SHARED,
        "beta3": "beta3",
        "relative_eps": "epsilon_relative",
        "momentum": "momentum",
        "dampening": "dampening",
        "nesterov": "nesterov",
        "graft": "graft",
        "graft_beta2": "graft_beta2",
        "graft_eps": "graft_epsilon",
        "block": "block",
        "merge": "merge",
        "start": "start",
        "refresh": "refresh",
        "statistics": "statistics",
        "stagger": "stagger",
        "exponent": "exponent",
        "root": "root",
        "root_precision": "root_precision",
        "skip": "skip",
        "failures": "failures",
        "packed": "packed",
    },
    "soap": {
        **_SHARED,
        "shampoo_beta": "shampoo_beta",
        "block": "block",
        "merge": "merge",
        "refresh": "refresh",
        "one_dimensional": "one_dimensional",
        "normalize": "normalize",
        "packed": "packed",
    },
    "muon": {**_SHARED, "momentum": "momentum", "nesterov": "nesterov", "steps": "steps"},
}
METHODS = tuple(_NAMES)

# What every optimizer of PyTorch refuses, in its words.
_REFUSED = {
    "lr": "learning rate",
    "eps": "epsilon value",
    "weight_decay": "weight_decay value",
    "momentum": "momentum value",
}


def check_numbers(options, function):
    """Raises ValueError for a rate, betas and others that no step can be made with."""
    for name, words in _REFUSED.items():
        value = options.get(name)
        if value is not None and not 0 <= value < math.inf:
            raise ValueError(
                f"{function}: Invalid {words}: {value}, expected a finite number of at least 0"
            )
    for i, beta in enumerate(options.get("betas", ())):
        if not (0 <= beta < 1 or (i == 1 and beta == 1)):  # 1: Shampoo's sum, else refused later
            raise ValueError(
                f"{function}: Invalid beta parameter at index {i}: {beta}, expected at least 0 and "
                f"{'at most' if i else 'less than'} 1"
            )


def core_options(method, options, function):
    """The dict that _core takes: the method's defaults with what options say."""
    if method not in _NAMES:
        raise ValueError(
            f"{function}: method is {method!r}, expected one of {', '.join(METHODS)}"
        )
    check_numbers(options, function)
    names = {**_NAMES[method], "rank": "rank", "ranks": "ranks", "lr": "learning_rate"}
    result = {**_core.optimizer_defaults(method), "method": method}
    for name, value in options.items():
        if name == "betas":
            result["beta1"], result["beta2"] = (float(beta) for beta in value)
        elif name == "decoupled":
            result["decay"] = "decoupled" if value else "l2"
        elif name not in names:
            raise TypeError(f"{function}() has no argument {name!r}")
        elif name == "graft":
            result["graft"] = "none" if value is None else value
        elif value is not None:
            result[names[name]] = _plain(value)
    return result


def _plain(value):
    """A dtype of any library by its name, a number of any library as Python's."""
    if isinstance(value, str | int | float):
        return value
    if hasattr(value, "item"):
        return value.item()
    return str(getattr(value, "__name__", value)).removeprefix("torch.")
