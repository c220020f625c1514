"""Every example of the documents runs, what is shown comes out, and the pages made from the code are its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from documents import Reader, fences, same

from kbeval.evaluation.metrics.registry import families

if TYPE_CHECKING:
    from pathlib import Path

PAGES = ("index", "tutorial", "metrics", "statistics", "labelling", "migrating", "ci", "library")
HIDDEN = re.compile(r"<!-- (?:not run: \S.*|exit \d|metric: \S+|end|Made by .*) -->")


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_run(project_root: Path, tmp_path: Path, page: str) -> None:
    text = (project_root / "docs" / f"{page}.md").read_text(encoding="utf-8")
    examples = [
        fence
        for fence in fences(text)
        if not fence.mark.startswith("not run: ") and (fence.language != "text" or fence.title is not None)
    ]
    assert Reader(tmp_path).follow(text) == len(examples) > 0


def test_every_page_is_read(project_root: Path) -> None:
    docs = project_root / "docs"
    assert {path.stem for path in docs.glob("*.md")} == set(PAGES)
    for path in [*docs.glob("*.md"), *docs.glob("reference/*.md")]:
        for comment in re.findall(r"<!--.*?-->", path.read_text(encoding="utf-8"), re.DOTALL):
            assert HIDDEN.fullmatch(comment), comment


def test_the_reference_is_what_the_code_says(project_root: Path) -> None:
    """Also with another width of the terminal, and in colour, so that it is the same on every machine."""
    done = subprocess.run(
        [sys.executable, project_root / "tools" / "write_reference.py", "--check"],
        env={**os.environ, "COLUMNS": "60", "FORCE_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"python tools/write_reference.py writes them anew\n{done.stdout}{done.stderr}"


def test_each_metric_says_when_it_misleads(project_root: Path) -> None:
    sections = (project_root / "docs" / "metrics.md").read_text(encoding="utf-8").split("\n## ")[1:]
    described = [section for section in sections if "<!-- metric: " in section]
    assert len(described) == len(families())
    assert all("\n**Misleads** " in section for section in described)


def test_the_site_builds_without_a_broken_link_or_a_foreign_address(project_root: Path, tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed (pip install 'kbeval[docs]')")
    pytest.importorskip("material", reason="mkdocs-material is not installed (pip install 'kbeval[docs]')")
    site = tmp_path / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", site],
        cwd=project_root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|iframe|link)\b[^>]*?(?:src|href)=\"?([^\s\">]+)", text)
        assert loaded
        assert not [address for address in loaded if re.match(r"(?:https?:)?//", address)], page
    assert "ten minutes" in (site / "tutorial.html").read_text(encoding="utf-8").lower()


@pytest.mark.parametrize(
    ("found", "shown", "alike"),
    [
        ("a\nb\nc\n", "a\n...\nc", True),
        ("a\nc\n", "a\n...\nc", True),
        ("took 3 ms\n", "took ... ms", True),
        ("a\nb\n", "a", False),
        ("took 3 s\n", "took ... ms", False),
        ("MRR 0.5\n", "MRR 0.6", False),
    ],
)
def test_what_is_shown_is_compared(found: str, shown: str, alike: bool) -> None:
    if alike:
        same(found, shown)
    else:
        with pytest.raises(AssertionError):
            same(found, shown)
