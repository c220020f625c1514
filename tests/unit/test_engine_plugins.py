"""Engine types that installed packages bring: found by name, loaded when used, never in kbeval's place."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from kbeval.engines.base import BuildContext
from kbeval.engines.registry import plan_engines
from kbeval.errors import KbevalError
from kbeval.progress import Silent

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MODULE = """
from kbeval.engines.base import Answer, Engine, EngineSettings
class Factory(Engine):
    type = "shelf"
    class Settings(EngineSettings):
        first: str = "d1"
    def __init__(self, first): self.first = first
    @classmethod
    def build(cls, settings, context): return cls(settings.first)
    def retrieve(self, query, k): return Answer(hits=[(self.first, 1.0)])
no_factory = 7
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Installs a package as pip leaves one: a module, and a folder of metadata with its entry points."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "shelf_of_a_test", raising=False)
    (tmp_path / "shelf_of_a_test.py").write_text(MODULE)

    def make(package: str, entry: str) -> None:
        folder = tmp_path / f"{package}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(f"[kbeval.engines]\n{entry}\n")

    return make


def plan(**table: Any) -> Any:
    return plan_engines([], {"mine": table})[0]


def test_a_package_brings_a_type(install: Callable[[str, str], None], tmp_path: Path) -> None:
    install("shelves", "shelf = shelf_of_a_test:Factory")
    plan(type="bm25")
    assert "shelf_of_a_test" not in sys.modules  # only a configuration that names the type loads it
    store: Any = None
    context = BuildContext(documents=[], store=store, progress=Silent(), root=tmp_path)
    assert plan(type="shelf", first="d9").build(context).retrieve("q", 1).hits == [("d9", 1.0)]
    with pytest.raises(KbevalError, match=r"nearest: 'first'"):
        plan(type="shelf", frist="d9")
    with pytest.raises(KbevalError, match=r"run:FILE\.trec, shelf; found none of that name \(nearest: 'shelf'\)"):
        plan(type="shelv")


@pytest.mark.parametrize(
    ("entries", "kind", "message"),
    [
        (
            ["bm25 = shelf_of_a_test:Factory"],
            "bm25",
            "kbeval's own type alone, found one of that name in the package p0",
        ),
        (["s = shelf_of_a_test:Factory", "s = shelf_of_a_test:Other"], "s", "the package p0 and the package p1"),
        (["s = shelf_of_a_test:nothing"], "s", "engine 's' of the package p0: cannot be loaded: AttributeError"),
        (["s = shelf_of_a_test:no_factory"], "s", "expected a factory with Settings, an EngineSettings"),
    ],
)
def test_what_is_no_clear_factory_is_refused(
    install: Callable[[str, str], None], entries: list[str], kind: str, message: str
) -> None:
    for number, entry in enumerate(entries):
        install(f"p{number}", entry)
    plan(type="keyword")  # others are not disturbed
    with pytest.raises(KbevalError) as caught:
        plan(type=kind)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
