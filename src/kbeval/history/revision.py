"""Which commit was evaluated, where there is a repository and git."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Revision:
    """A commit, and whether tracked files differed from it. Both None outside a repository."""

    commit: str | None = None
    dirty: bool | None = None


def revision_of(folder: Path) -> Revision:
    """HEAD of the repository that ``folder`` lies in; nothing where there is none."""
    commit = _git(folder, "rev-parse", "--verify", "HEAD")
    if commit is None:
        return Revision()
    status = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return Revision(commit.strip(), None if status is None else bool(status.strip()))


def _git(folder: Path, *arguments: str) -> str | None:
    program = shutil.which("git")
    if program is None:
        return None
    command = [program, "--no-optional-locks", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, UnicodeError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
