"""The cache of compiled GPU kernels, which all processes of a user share.

Each function needs the CUDA backend, and raises NotImplementedError without it.
"""

from gram._core import cache_clear, cache_info, cache_list, cache_warm, cache_warm_kernel

__all__ = ["clear", "entries", "info", "warm"]


def info():
    """The place, the size and the state of the cache, as a dict.

    Keys: path, why (the reason why kernels are not kept; "" if they are), kernels (their number),
    bytes (of code), most_bytes (above this, the least recently used are removed), file_bytes,
    tuned.  Raises NotImplementedError if there is no CUDA backend.

    >>> if len(gram.devices()) > 1:
    ...     assert gram.cache.info()["bytes"] >= 0
    """
    return cache_info()


def entries():
    """All kernels, the most recently used first: dicts of kernel, chip, compiler, options, bytes,
    used.

    used is the day of the last use, in seconds since 1970.  Raises NotImplementedError as
    gram.cache.info.

    >>> if len(gram.devices()) > 1:
    ...     assert len(gram.cache.entries()) == gram.cache.info()["kernels"]
    """
    return cache_list()


def clear(pattern=None):
    """Removes the kernels whose line "kernel chip compiler options" contains the pattern.

    In the pattern, * stands for any text, ? for one character, and [...] for a set of characters.
    Without a pattern, everything is removed, including the measurements of gram.tune.  Returns the
    number of removed kernels.  Raises NotImplementedError as gram.cache.info.

    >>> if len(gram.devices()) > 1:
    ...     assert gram.cache.clear("no such kernel *") == 0
    """
    return cache_clear(pattern)


def warm(chips=None, kernels=None):
    """Compiles the common kernels for chips (such as "sm_90"), by default for the GPUs of this
    machine.

    kernels is a list of calls of gram.kernel, each a dict of its arguments with a gram.Shape for x
    and y; then only the kernels of these calls are compiled.  Strides are those of arrays without
    gaps.  Returns the entries, with compile_ms (milliseconds; 0: it was kept before).  Raises
    ValueError for an unknown chip and for arguments that do not fit, TypeError for a call without
    x, and NotImplementedError as gram.cache.info.

    >>> if len(gram.devices()) > 1:
    ...     slowest = max(entry["compile_ms"] for entry in gram.cache.warm())
    ...     x = gram.Shape(5000, 64, dtype="float32")
    ...     call = {"x": x, "expression": "exp(-c * s)", "parameters": {"c": 2.0}}
    ...     assert gram.cache.warm(kernels=[call])[0]["kernel"] == "cdist.cu"
    """
    if kernels is None:
        return cache_warm(chips)
    found = []
    for call in kernels:
        words = dict(call)
        if "x" not in words:
            raise TypeError("gram.cache.warm: a call in kernels has no x")
        found += cache_warm_kernel(chips, words.pop("x"), words.pop("y", None), **words)
    return found
