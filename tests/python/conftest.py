"""conftest.py - the dtypes of tests; a file that is skipped whole ends as CTest's skipped tests"""

import numpy as np
import pytest


@pytest.fixture(params=[np.float32, np.float64], ids=["f32", "f64"])
def dtype(request):
    return request.param


def pytest_sessionfinish(session, exitstatus):
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = 77
