"""kbeval.toml: found, read, refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kbeval.config import load_project, parse_assignments
from kbeval.errors import KbevalError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("KBEVAL_DSN", "KBEVAL_LLM_BASE_URL", "KBEVAL_LLM_MODEL"):
        monkeypatch.delenv(variable, raising=False)


def test_it_is_found_upwards_and_its_folder_is_the_root(tmp_path: Path) -> None:
    (tmp_path / "kbeval.toml").write_text('[corpus]\npath = "docs"\n')
    deep = tmp_path / "x" / "y"
    deep.mkdir(parents=True)
    project = load_project(start=deep)
    assert project.root == tmp_path.resolve()
    assert project.path(project.settings.corpus.path) == tmp_path.resolve() / "docs"


def test_without_one_every_setting_has_its_default(tmp_path: Path) -> None:
    project = load_project(start=tmp_path)
    assert project.file is None
    assert project.settings.corpus.provider == "files"
    assert {name: table["type"] for name, table in project.settings.engines.items()} == {
        "a": "hybrid",
        "b": "keyword",
        "bm25": "bm25",
    }


def test_the_environment_overrides_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kbeval.toml").write_text('[llm]\nmodel = "from-file"\n')
    monkeypatch.setenv("KBEVAL_LLM_MODEL", "from-environment")
    monkeypatch.setenv("KBEVAL_DSN", "postgresql://localhost/x")
    settings = load_project(start=tmp_path).settings
    assert settings.llm.model == "from-environment"
    assert settings.store.dsn == "postgresql://localhost/x"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[corpus]\npaht = "x"\n', "kbeval.toml: expected a known key (nearest: 'path'), found 'corpus.paht'"),
        ('[corpsu]\npath = "x"\n', "kbeval.toml: expected a known key (nearest: 'corpus'), found 'corpsu'"),
        ("[corpus]\npath = \n", "kbeval.toml, line 2: expected TOML, found Invalid value"),
        ("[test_set]\nlevel = 0\n", "expected test_set.level to be greater than or equal to 1, found 0"),
        ('[targets]\nmrr = "high"\n', "expected targets.mrr to be a valid number"),
    ],
)
def test_bad_settings_are_one_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "kbeval.toml").write_text(text)
    with pytest.raises(KbevalError) as caught:
        load_project(start=tmp_path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_settings_file_that_is_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(KbevalError, match="expected a settings file, found nothing there"):
        load_project(tmp_path / "other.toml")


def test_assignments() -> None:
    assert parse_assignments(["candidates=50", "reranker=none"], ["a"]) == {
        "a": {"candidates": "50", "reranker": "none"}
    }
    assert parse_assignments(['a.legs=["bm25"]', "c.x=1"], ["a", "c"]) == {
        "a": {"legs": ["bm25"]},
        "c": {"x": "1"},
    }


@pytest.mark.parametrize(
    ("assignment", "names", "message"),
    [
        ("candidates", ["a"], "expected KEY=VALUE"),
        ("candidates=5", ["a", "b"], "expected NAME.candidates=..., as there are 2 engines"),
        ("z.candidates=5", ["a", "b"], "expected one of the engines a, b, found 'z'"),
        ("a.legs=[1", ["a"], "expected a TOML value"),
    ],
)
def test_bad_assignments_are_one_line(assignment: str, names: list[str], message: str) -> None:
    with pytest.raises(KbevalError, match=r".") as caught:
        parse_assignments([assignment], names)
    assert message in str(caught.value)
