"""cache_folder.py - the folder in which tests keep what they compile, for all build folders

The same as in tools/cudaemu/compile_cache.c, which says what it is for.
"""

import os


def of_tests():
    """Its path; None where it cannot be made, or is not the user's alone: what it holds is run."""
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    path = os.environ.get("GRAM_TEST_CACHE", os.path.join(caches, "libgram-tests"))
    if not path:
        return None
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        status = os.lstat(path)
    except OSError:
        return None
    return path if status.st_uid == os.geteuid() and status.st_mode & 0o77 == 0 else None
