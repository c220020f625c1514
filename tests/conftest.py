"""Fixtures that every kind of test shares."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


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
