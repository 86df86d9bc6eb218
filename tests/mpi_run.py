"""mpi_run.py - starts mpirun for the tests, as cmake/mpi_tests.cmake does"""

import os
import pathlib
import shutil
import subprocess

import pytest
from gram_cli import SOURCE

BUILD = pathlib.Path(os.environ.get("GRAM_BUILD_DIR", SOURCE / "build"))

# More ranks than processors, and root, are what containers have.
ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_plm_rsh_agent": "true",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    "GRAM_NUM_THREADS": "2",
    "GRAM_PLUGIN_DIR": str(BUILD),
    "LSAN_OPTIONS": "detect_leaks=0",  # Open MPI frees little
}


def environment(base=None):
    return {**(base or os.environ), **ENVIRONMENT}


def need_mpi():
    """Skips where there is no mpirun, or the transport was not built."""
    if not shutil.which("mpirun"):
        pytest.skip("no mpirun")
    if not (BUILD / "libgram_mpi.so").exists():
        pytest.skip("built without MPI")


def mpirun(ranks, *command, timeout=1200, env=None, **options):
    """Runs command on so many ranks; what hangs is ended by the time limit, and fails."""
    return subprocess.run(
        ["mpirun", "-n", str(ranks), *map(str, command)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env=environment(env),
        **options,
    )
