"""The cache of compiled GPU kernels, which all processes of a user share.

Each function needs the CUDA backend and says so where there is none.
"""

from gram._core import cache_clear, cache_info, cache_list, cache_warm, cache_warm_kernel

__all__ = ["clear", "entries", "info", "warm"]


def info():
    """Where the cache is and what it holds, as a dict.

    Keys: path, why (why kernels are not kept in it; "" if they are), kernels, bytes (of code),
    most_bytes (above this the least recently used go), file_bytes, tuned.  Raises
    NotImplementedError where there is no CUDA backend.

    >>> if len(gram.devices()) > 1:
    ...     assert gram.cache.info()["bytes"] >= 0
    """
    return cache_info()


def entries():
    """All kernels, used last first: dicts of kernel, chip, compiler, options, bytes, used.

    used is the day, in seconds since 1970.  Raises NotImplementedError as gram.cache.info.

    >>> if len(gram.devices()) > 1:
    ...     assert len(gram.cache.entries()) == gram.cache.info()["kernels"]
    """
    return cache_list()


def clear(pattern=None):
    """Removes the kernels whose line "kernel chip compiler options" holds the pattern.

    * stands for any text, ? for one character, [...] for a set.

    Without a pattern everything, also what gram.tune measured.  Returns how many went.  Raises
    NotImplementedError as gram.cache.info.

    >>> if len(gram.devices()) > 1:
    ...     assert gram.cache.clear("no such kernel *") == 0
    """
    return cache_clear(pattern)


def warm(chips=None, kernels=None):
    """Compiles the common kernels for chips (as "sm_90"), by default those of this machine.

    kernels are calls of gram.kernel instead, each a dict of its arguments, with a gram.Shape for x
    and y: their kernels are compiled, and no others.  Strides are those of arrays without gaps.
    Returns the entries, with compile_ms (milliseconds; 0: it was there).  Raises ValueError for a
    chip that is not known and for arguments that do not fit, TypeError for a call without x,
    NotImplementedError as gram.cache.info.

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
