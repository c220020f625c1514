"""A running ``kbeval review``, and a hand on its page."""

from __future__ import annotations

import re
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

    from conftest import Kbeval


@contextmanager
def reviewing(project: Kbeval, *arguments: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A running review and its address."""
    process = subprocess.Popen(
        project.command("review", "--no-browser", "--reviewer", "ana", *arguments),
        cwd=project.folder,
        env={**project.environment, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = process.stdout.readline()
        address = re.search(r"http://127\.0\.0\.1:\d+/[\w-]{20,}/\S*", line)
        assert address, line + process.stderr.read()
        yield process, address[0]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def count(page: Page) -> tuple[int, int]:
    """How many are done and left, as the page says."""
    done, left = re.findall(r"\d+", page.locator("#count").inner_text())
    return int(done), int(left)


def press(page: Page, key: str, done: int) -> None:
    """Presses a key, and waits until the page says that so many are done."""
    page.keyboard.press(key)
    page.locator("#count strong").first.get_by_text(str(done), exact=True).wait_for()
