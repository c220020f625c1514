"""``haystack:`` engines: what a pipeline file may load, and what is said where it cannot be run."""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING, Any

import pytest

from kbeval.engines.base import BuildContext
from kbeval.engines.registry import plan_engines
from kbeval.errors import KbevalError
from kbeval.model import Document
from kbeval.progress import Silent

if TYPE_CHECKING:
    from pathlib import Path

    from kbeval.engines.base import Engine

STORE = """
      document_store:
        type: haystack.document_stores.in_memory.document_store.InMemoryDocumentStore
        init_parameters: {index: of-a-test}
"""
BM25 = f"""
components:
  retriever:
    type: haystack.components.retrievers.in_memory.bm25_retriever.InMemoryBM25Retriever
    init_parameters: {STORE}
connections: []
"""


def build(folder: Path, text: str, **table: Any) -> Engine:
    (folder / "p.yaml").write_text(text)
    (plan,) = plan_engines([], {"mine": {"type": "haystack:p.yaml", **table}})
    documents = [Document(id="d1", title="Refunds", text="money back"), Document(id="d2", text="paper rolls")]
    store: Any = None
    return plan.build(BuildContext(documents=documents, store=store, progress=Silent(), root=folder))


def refusal(folder: Path, text: str, **table: Any) -> str:
    with pytest.raises(KbevalError) as caught:
        build(folder, text, **table)
    line = str(caught.value)
    assert "\n" not in line
    assert "p.yaml" in line
    return line


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module that leaves a file when it is imported, or when its function is called."""
    ran = tmp_path / "it-ran"
    (tmp_path / "trap_of_a_test.py").write_text(
        f"from pathlib import Path\nPath({str(ran)!r}).touch()\n"
        "from haystack import component\n"
        "@component\nclass Trap:\n"
        "    @component.output_types(documents=list)\n"
        "    def run(self, query: str): return {'documents': []}\n"
        "def call(*a, **k): pass\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "trap_of_a_test", raising=False)
    return ran


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("components:\n  x:\n    type: trap_of_a_test.Trap\n", ["line 3", "'trap_of_a_test.Trap'", "allow"]),
        ("components:\n  x:\n    type: os.system\n    init_parameters: {command: touch it-ran}\n", ["'os.system'"]),
        ("components:\n  x: {type: subprocess.Popen, init_parameters: {args: [touch, it-ran]}}\n", ["line 2"]),
        ("components:\n  x: {type: haystackevil.Thing}\n", ["'haystackevil.Thing'"]),
        (BM25.replace("haystack.document_stores", "trap_of_a_test"), ["'trap_of_a_test.in_memory"]),
        # By an alias, a merge key, and as the second of two equal keys.
        ("a: &a {type: os.system}\ncomponents:\n  x: *a\n", ["'os.system'"]),
        ("a: &a {type: os.system}\ncomponents:\n  x:\n    <<: *a\n", ["'os.system'"]),
        ("components:\n  x: {type: haystack.a.B, type: os.system}\n", ["'os.system'"]),
        ("components: !!python/object/apply:os.system [touch it-ran]\n", ["plain values"]),
        ("components:\n  x: !!python/name:trap_of_a_test.call ''\n", ["plain values"]),
        ("components: [\n", ["expected YAML"]),
        ("just text\n", ["a serialised pipeline with components"]),
        ("components: {}\n", ["a serialised pipeline with components"]),
        ("components:\n  x: {}\n", ["cannot be built", "Missing 'type'"]),
        ("components:\n  x: {type: haystack.no_such_module.Thing}\n", ["cannot be built", "No module named"]),
        (
            # Not a class but a function that an allowed component is to call.
            "components:\n  x:\n    type: haystack.components.converters.output_adapter.OutputAdapter\n"
            "    init_parameters:\n      template: '{{ documents | f }}'\n      output_type: str\n"
            "      custom_filters: {f: trap_of_a_test.call}\n",
            ["cannot be built", "custom filters"],
        ),
        (
            "components:\n  x:\n    type: haystack.components.generators.chat.openai.OpenAIChatGenerator\n"
            "    init_parameters:\n      api_key: {type: env_var, env_vars: [NO_KEY], strict: false}\n"
            "      streaming_callback: trap_of_a_test.call\n",
            ["cannot be built", "'trap_of_a_test.call'"],
        ),
        (
            "components:\n  x:\n    type: haystack.components.converters.output_adapter.OutputAdapter\n"
            "    init_parameters: {template: '{{ documents }}', output_type: str, unsafe: true}\n",
            ["cannot be built", "unsafe"],
        ),
    ],
)
def test_nothing_that_nobody_allowed_is_loaded(trap: Path, text: str, words: list[str]) -> None:
    line = refusal(trap.parent, text)
    for word in words:
        assert word in line, line
    assert not trap.exists()


def test_a_few_lines_that_stand_for_billions_are_refused(tmp_path: Path) -> None:
    nest = ["a: &a [" + ", ".join("x" * 10) + "]"]
    pairs = itertools.pairwise("abcdefghi")
    nest += [f"{name}: &{name} [" + ", ".join([f"*{inner}"] * 10) + "]" for inner, name in pairs]
    line = refusal(tmp_path, BM25 + "\n".join(nest) + "\n")
    assert "expected at most 50 YAML aliases, found 80" in line


def test_what_is_allowed_is_loaded(trap: Path) -> None:
    text = "components:\n  x: {type: trap_of_a_test.Trap, init_parameters: {}}\n"
    assert "expected one output with documents" in refusal(trap.parent, text, allow=["trap_of_a_test."])
    assert trap.exists()


def test_a_list_that_the_environment_widened_does_not_count(trap: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAYSTACK_DESERIALIZATION_ALLOWLIST", "*")
    assert "'trap_of_a_test.Trap'" in refusal(trap.parent, "components:\n  x: {type: trap_of_a_test.Trap}\n")
    monkeypatch.setenv("HAYSTACK_UNSAFE_DESERIALIZATION", "1")
    assert "unset HAYSTACK_UNSAFE_DESERIALIZATION" in refusal(trap.parent, BM25, documents="corpus")
    assert not trap.exists()


def test_an_allow_that_allows_everything_is_refused(tmp_path: Path) -> None:
    for allow in (["*"], [""], ["my-package"]):
        with pytest.raises(KbevalError, match=r"allow to name packages like my_package\."):
            build(tmp_path, BM25, allow=allow)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({}, ['documents = "corpus"', "serialised without any"]),
        ({"documents": "nowhere.json"}, ["nowhere.json"]),
        ({"documents": "p.yaml"}, ["a document store in JSON"]),
        ({"documents": "corpus", "query_input": "retreiver.query"}, ["nearest: 'retriever.query'"]),
        ({"documents": "corpus", "documents_output": "retriever.document"}, ["nearest: 'retriever.documents'"]),
        ({"documents": "corpus", "k_input": ["retriever.topk"]}, ["nearest: 'retriever.top_k'"]),
        ({"documents": "corpus", "inputs": {"retriever.filtres": {}}}, ["inputs", "nearest: 'retriever.filters'"]),
        ({"documents": "corpus", "query_input": ["retriever.top_k"]}, ["a value for each input", "retriever.query"]),
    ],
)
def test_what_cannot_run_is_said_before_anything_is_asked(
    tmp_path: Path, table: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(KbevalError) as caught:
        build(tmp_path, BM25, **table)
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_vectors_are_not_made_up(tmp_path: Path) -> None:
    text = BM25.replace("bm25_retriever.InMemoryBM25", "embedding_retriever.InMemoryEmbedding")
    assert "which has none: name a file" in refusal(tmp_path, text, documents="corpus")


def test_other_inputs_get_their_values_and_an_error_is_its_querys(tmp_path: Path) -> None:
    engine = build(tmp_path, BM25, documents="corpus", inputs={"retriever.top_k": 1})
    try:
        assert [document for document, _ in engine.retrieve("money paper rolls", 2).hits] == ["d2"]
        assert engine.counts() == {"store_documents": 2, "questions_below_k": 1}
        with pytest.raises(Exception, match=r"non-empty"):
            engine.retrieve("", 2)  # Haystack's own refusal of an empty query
    finally:
        engine.close()


def test_the_environments_telemetry_is_off(tmp_path: Path) -> None:
    build(tmp_path, BM25, documents="corpus").close()
    import os

    assert os.environ["HAYSTACK_TELEMETRY_ENABLED"] == "False"
