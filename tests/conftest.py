"""Fixtures that every kind of test shares."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest

# A deadline would fail a test for the machine's being busy.
hypothesis.settings.register_profile("kbeval", deadline=None)
hypothesis.settings.load_profile("kbeval")

ROOT = Path(__file__).resolve().parents[1]


def pytest_xdist_auto_num_workers() -> int:
    """For ``-n auto``: one more than there are cores, as many tests wait for a process that they have started."""
    return (os.cpu_count() or 1) + 1


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real data that the project does not ship; tests that need it skip where it is absent."""
    folder = Path(os.environ.get("KBEVAL_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("the shared data folder (../shared/data, or KBEVAL_SHARED_DATA) is absent")
    return folder


@pytest.fixture(scope="session")
def project_root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session", autouse=True)
def _signals_arrive() -> None:
    """Undoes that whoever started the tests (nohup, a background job) made them deaf to signals, and their children."""
    import signal

    for number, handler in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGHUP, signal.SIG_DFL),
        (signal.SIGTERM, signal.SIG_DFL),
    ):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, handler)
