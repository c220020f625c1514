"""Engine A with models on this machine: tiny ones made here, loaded by the code that loads Nomic's and BGE's."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kbeval.engines.components.embedders import make_embedder
from kbeval.engines.components.services import ServiceError
from kbeval.engines.hybrid import HybridEngine, HybridSettings
from kbeval.errors import KbevalError
from kbeval.model import Document

from haystack import Document as Chunk  # isort: skip - after ours, which keep its telemetry off

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Kbeval
    from kbeval.engines.base import BuildContext

os.environ["HF_HUB_OFFLINE"] = "1"  # read once, when it is imported
pytest.importorskip("sentence_transformers", reason="sentence-transformers (the extra `offline`) is not installed")

CORPUS = [
    Document(id="refunds", title="Refund", text="A cashier may give money back."),
    Document(id="payouts", title="Takings", text="Takings arrive on the bank account."),
    Document(id="printer", title="Printer", text="The red light is the paper roll."),
    Document(id="blank", title="", text=" "),
]
QUERY = "how do i give money back?"


@dataclass(frozen=True)
class Models:
    plain: Path
    nomic: Path
    spoiled: Path
    ranker: Path
    two_labels: Path
    spoiled_ranker: Path


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    from tiny_models import save_cross_encoder, save_embedder

    def folder() -> Path:
        return tmp_path_factory.mktemp("models")

    return Models(
        plain=save_embedder(folder(), prompts={"query": "query: ", "document": "passage: "}),
        nomic=save_embedder(folder(), kind="nomic"),
        spoiled=save_embedder(folder(), spoil=True),
        ranker=save_cross_encoder(folder()),
        two_labels=save_cross_encoder(folder(), labels=2),
        spoiled_ranker=save_cross_encoder(folder(), spoil=True),
    )


@contextmanager
def built(context: BuildContext, **settings: object) -> Iterator[HybridEngine]:
    engine = HybridEngine.build(HybridSettings(**settings), context)
    try:
        yield engine
    finally:
        engine.close()


def embedder(model: Path, **settings: Any) -> Any:
    return make_embedder(f"sentence-transformers:{model}", base_url=None, timeout_s=1, retries=0, **settings)


def directly(model: Path, texts: list[str]) -> np.ndarray[Any, Any]:
    """The library by itself: every text with its prefix written out, made to length 1 here."""
    from sentence_transformers import SentenceTransformer

    vectors = SentenceTransformer(str(model), device="cpu", prompts={"query": "", "document": ""}).encode(texts)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("which", "settings", "before"),
    [
        ("nomic", {}, ("search_query: ", "search_document: ")),  # known by the model's name
        ("plain", {}, ("query: ", "passage: ")),  # the model says so itself
        ("plain", {"query_prefix": "", "document_prefix": "the "}, ("", "the ")),  # the settings say so
    ],
)
def test_prefixes_reach_the_model(
    models: Models, which: str, settings: dict[str, str], before: tuple[str, str]
) -> None:
    model = getattr(models, which)
    made = embedder(model, **settings)
    text = "money back refund"
    [chunk] = made.embed_chunks([Chunk(id="1", content=text)])
    found = np.array([made.embed_query(text), chunk.embedding])
    np.testing.assert_allclose(found, directly(model, [before[0] + text, before[1] + text]), atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)
    assert not np.allclose(found[0], found[1], atol=1e-3)
    assert (made.query_prefix, made.document_prefix) == before


def test_batches_change_nothing_and_blank_text_has_no_vector(models: Models) -> None:
    texts = ["refund", "the paper roll of the printer is red", "", "bank account", " \n", "a " * 200]
    chunks = [Chunk(id=str(i), content=text) for i, text in enumerate(texts)]
    one, all_at_once = (
        [chunk.embedding for chunk in embedder(models.nomic, batch_size=size).embed_chunks(chunks)] for size in (1, 8)
    )
    assert [vector is None for vector in one] == [False, False, True, False, True, False]
    for a, b in zip(one, all_at_once, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a, b, atol=1e-6)
    assert embedder(models.nomic).embed_query("  ") is None


def test_a_vector_that_is_no_number(context: Callable[..., BuildContext], models: Models) -> None:
    with built(context(CORPUS), legs="vector", embedder=f"sentence-transformers:{models.spoiled}") as engine:
        # The red one and the blank one.
        assert engine.counts() == {"documents": 4, "chunks": 4, "chunks_without_vector": 2}
        assert len(engine.retrieve("refund", 5).hits) == 2
        with pytest.raises(ServiceError, match=r"gives a vector that is not finite$"):
            engine.retrieve("red light", 5)


def test_the_whole_engine_ranks_as_the_models_do(context: Callable[..., BuildContext], models: Models) -> None:
    from sentence_transformers import CrossEncoder

    contents = [f"{d.title}\n{d.text}" for d in CORPUS[:3]]
    vectors = directly(models.nomic, ["search_query: " + QUERY, *("search_document: " + text for text in contents)])
    nearest = [CORPUS[i].id for i in np.argsort(-(vectors[1:] @ vectors[0]))]
    ranker = CrossEncoder(str(models.ranker), device="cpu")
    tokens = ranker.tokenizer([QUERY] * 3, contents, padding=True, return_tensors="pt")
    logits = np.asarray(ranker.model(**tokens)["logits"].detach()).reshape(-1)
    scores = {CORPUS[i].id: 1 / (1 + np.exp(-float(logits[i]))) for i in range(3)}

    with built(
        context(CORPUS),
        legs="vector",
        embedder=f"sentence-transformers:{models.nomic}",
        reranker=f"cross-encoder:{models.ranker}",
        device="cpu",
    ) as engine:
        answer = engine.retrieve(QUERY, 5)
        assert answer.stages["vector"] == nearest
        assert dict(answer.hits) == pytest.approx(scores, abs=1e-6)
        assert [d for d, _ in answer.hits] == sorted(scores, key=lambda d: -scores[d])
        assert engine.retrieve(QUERY, 5).hits == answer.hits
        assert engine.deterministic
        assert engine.notes == ()
        configuration = engine.configuration()
        assert configuration["query_prefix"] == "search_query: "
        assert configuration["embedder_device"] == "cpu"
        assert not configuration["trust_remote_code"]
        assert engine.retrieve(" ", 5).hits == []


def test_the_pipeline_runs_by_itself(context: Callable[..., BuildContext], models: Models) -> None:
    from haystack import Pipeline

    with built(
        context(CORPUS),
        embedder=f"sentence-transformers:{models.nomic}",
        reranker=f"cross-encoder:{models.ranker}",
    ) as engine:
        expected = engine.retrieve(QUERY, 5)
        loaded = Pipeline.loads(engine.pipeline.dumps(), allowed_modules=["kbeval"])
        output = loaded.run({"lexical": {"query": QUERY}, "embedder": {"text": QUERY}, "reranker": {"query": QUERY}})
        found = [(chunk.meta["document_id"], chunk.score) for chunk in output["reranked"]["documents"]]
        assert found == list(expected.hits)
        loaded.get_component("lexical").document_store.close()
        loaded.get_component("vector").document_store.close()


def test_a_ranker_that_gives_no_number_fails_the_question(context: Callable[..., BuildContext], models: Models) -> None:
    with (
        built(context(CORPUS), legs="bm25", reranker=f"cross-encoder:{models.spoiled_ranker}") as engine,
        pytest.raises(ServiceError, match=r"answered with a score that is no number$"),
    ):
        engine.retrieve("red light", 5)


def test_what_cannot_be_loaded_is_one_line_before_any_work(
    context: Callable[..., BuildContext], models: Models, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    for settings, message in (
        ({"embedder": "sentence-transformers:./nowhere"}, "expected a folder with a model, found nothing at ./nowhere"),
        ({"reranker": "cross-encoder:/no/where"}, "expected a folder with a model, found nothing at /no/where"),
        ({"embedder": "sentence-transformers:empty"}, "cannot be loaded: "),  # a folder of the project's
        ({"reranker": "cross-encoder:kbeval/no-such-model"}, "cannot be loaded: "),
        (
            {"reranker": f"cross-encoder:{models.two_labels}"},
            "expected a model that gives one score for a pair, found 2",
        ),
    ):
        with pytest.raises(KbevalError) as raised, built(context(CORPUS), **settings):
            pass
        assert message in str(raised.value)
        assert "\n" not in str(raised.value)


def test_loading_is_silent(models: Models) -> None:
    code = f"""
import kbeval.engines.components.local_models as local
local.embedding_model({str(models.nomic)!r}).encode("a")
local.ranking_model({str(models.ranker)!r}).predict([("a", "b")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert (done.stdout, done.stderr) == ("", "")


def test_the_preset_with_models_of_ones_own(tiny: Kbeval, models: Models) -> None:
    result = tiny(
        "run", "--preset", "offline",
        "--set", f"embedder=sentence-transformers:{models.nomic}", "--set", f"reranker=cross-encoder:{models.ranker}",
    )  # fmt: skip
    assert result.code == 0, result.err
    assert "4 questions, 0 errored" in result.out
    assert '"query_prefix": "search_query: "' in (tiny.folder / "runs" / "offline.json").read_text()
