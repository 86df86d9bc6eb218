"""conftest.py - a file of which everything is skipped ends as CTest's skipped tests do"""

import pytest


def pytest_sessionfinish(session, exitstatus):
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = 77
