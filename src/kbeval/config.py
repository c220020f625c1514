"""kbeval.toml: finding it, reading it, and refusing what it must not hold."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from kbeval.errors import InputError, KbevalError

CONFIG_NAME = "kbeval.toml"

CORPUS_DSN_VARIABLE = "KBEVAL_CORPUS_DSN"

# Environment variable -> the setting that it overrides.
ENVIRONMENT = {
    "KBEVAL_DSN": ("store", "dsn"),
    "KBEVAL_HISTORY": ("history", "store"),
    CORPUS_DSN_VARIABLE: ("corpus", "dsn"),
    "KBEVAL_LLM_BASE_URL": ("llm", "base_url"),
    "KBEVAL_LLM_MODEL": ("llm", "model"),
}

DEFAULT_ENGINES: dict[str, dict[str, Any]] = {
    "a": {"type": "hybrid"},
    "b": {"type": "keyword"},
    "bm25": {"type": "bm25"},
}


LONGEST_S = 1_000_000.0
"""The longest that anything can be told to wait, in seconds: what the clocks of threads and sockets can hold."""

# A number and nothing that can be read as one: true is not the target 1.
_Number = Annotated[float, Field(strict=True)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CorpusSettings(_Table):
    """Where documents come from, and how questions' chunks are cut.

    Attributes:
        provider: ``files`` (.md with front matter, .txt, .html), ``postgres``, ``beir`` (a corpus.jsonl),
            ``ir_datasets``, or ``package.module:Class``.
        path: the folder or file; the id of an ir_datasets collection, such as ``beir/scifact``.
        dsn: of the database that is read and never written; better in the variable that ``dsn_env`` names.
        dsn_env: the variable that holds the DSN; ``KBEVAL_CORPUS_DSN`` without it.
        table: the table that holds the documents; either this or ``query``.
        query: a SELECT that gives them.
        columns: which column is what: ``{ id = "slug", title = "title", text = "body" }``. Any other name becomes
            metadata; without it columns are taken by their own names.
        timeout_s: how long the database may take to answer, in seconds.
        chunker: how chunks are cut that questions are written from.
        chunk_words: the most words of a chunk.
        chunk_overlap: the words that a chunk shares with the one before.
    """

    # ``dsn`` to ``timeout_s`` are the Postgres provider's. They are judged where a corpus is read, and not here: what
    # pydantic says about a table as a whole quotes it, and a DSN may hold a password.
    provider: str = "files"
    path: str = "corpus/seed_docs"
    dsn: str | None = Field(default=None, repr=False)
    dsn_env: str | None = None
    table: str | None = None
    query: str | None = None
    columns: dict[str, str] = {}
    timeout_s: float = Field(default=60.0, gt=0, le=LONGEST_S)
    chunker: Literal["words", "sentences", "headings"] = "words"
    chunk_words: int = Field(default=120, gt=0)
    chunk_overlap: int = Field(default=20, ge=0)


class TestSetSettings(_Table):
    """Which questions are asked, and from which grade on a document counts as relevant.

    Attributes:
        questions: the labelled questions. Committed, and replayed by every run.
        labels: what people and models have judged since.
        level: from which grade on a document is relevant; 1 without it, and 2 where judged grades are in the test set.
    """

    questions: str = "corpus/questions.cache.json"
    labels: str = "corpus/labels.jsonl"
    level: int | None = Field(default=None, ge=1)


class CompareSettings(_Table):
    """What is compared, fixed before a run so that the family of tests is known.

    Attributes:
        primary: the one metric that verdicts are about. Fix it before a run, not after.
        metrics: what is reported; kbeval's own choice without it.
        alpha: the level of significance.
    """

    primary: str = "mrr"
    metrics: list[str] | None = None
    alpha: float = Field(default=0.05, ge=1e-6, le=0.5)


class LlmSettings(_Table):
    """Any OpenAI-compatible server. The key is in OPENROUTER_API_KEY, else OPENAI_API_KEY.

    Attributes:
        base_url: where it is: OpenRouter, OpenAI, Ollama (``http://localhost:11434/v1``), vLLM.
        model: the model that writes questions, and grades where ``[judge] model`` names no other.
        timeout_s: for one whole answer, in seconds.
        retries: of one call after server errors, timeouts and cut connections; 429 is none of these.
        concurrency: calls at once.
        requests_per_minute: evenly spaced; 0 for as many as there are. On 429 the rate falls by half and recovers.
        max_tokens_total: what one command may spend, sent and received together; 0 for no limit.
        backoff_s: the first pause after a failure; doubled each time, up to 30 s.
        max_wait_s: how long a server may answer nothing but 429 before the calls that are left fail.
    """

    base_url: str = "https://openrouter.ai/api/v1"
    model: str = "openai/gpt-4o-mini"
    timeout_s: float = Field(default=60.0, gt=0, le=LONGEST_S)
    retries: int = Field(default=5, ge=0)
    concurrency: int = Field(default=8, ge=1, le=256)
    requests_per_minute: float = Field(default=0.0, ge=0)
    max_tokens_total: int = Field(default=0, ge=0)
    backoff_s: float = Field(default=1.0, gt=0, le=LONGEST_S)
    max_wait_s: float = Field(default=900.0, ge=0, le=LONGEST_S)


class BandSettings(_Table):
    """For each style the least and the most overlap that its questions may have with their text.

    Overlap is the share of a question's content words that its text holds (METHOD 5).

    Attributes:
        near: in the text's own words.
        mid: between the two.
        far: in other words.
    """

    near: tuple[float, float] = (0.7, 1.0)
    mid: tuple[float, float] = (0.35, 0.8)
    far: tuple[float, float] = (0.0, 0.35)

    @field_validator("near", "mid", "far")
    @classmethod
    def _ordered(cls, band: tuple[float, float]) -> tuple[float, float]:
        if not 0 <= band[0] <= band[1] <= 1:
            raise ValueError("two numbers from 0 to 1, the smaller one first")
        return band

    def by_style(self) -> dict[str, tuple[float, float]]:
        """The bands by the names of the styles."""
        return {"near": self.near, "mid": self.mid, "far": self.far}


class GenerateSettings(_Table):
    """What ``kbeval generate`` asks for, and what it takes.

    Attributes:
        styles: which questions are written of each chunk.
        max_words: longer questions are rejected.
        max_answer_tokens: of one answer; a model that thinks aloud needs more.
        round_trip: reject what neither BM25 nor static word vectors find. This flatters engines like these two, and
            drops questions that only a better one would answer.
        round_trip_k: within how many documents they must find it.
    """

    styles: list[Literal["near", "mid", "far"]] = Field(default=["near", "mid", "far"], min_length=1)
    bands: BandSettings = BandSettings()
    max_words: int = Field(default=60, ge=1)
    max_answer_tokens: int = Field(default=300, ge=1)
    round_trip: bool = False
    round_trip_k: int = Field(default=10, ge=1)


class JudgeSettings(_Table):
    """How a model judges what runs found. The server and its limits are those of ``[llm]``.

    Attributes:
        model: who grades; ``[llm] model`` without it. Better of another family than the one that wrote the questions.
        depth: how many documents of each run's answers are judged.
        votes: differently worded; 1 halves the price, and leaves no agreement to tell doubt from.
        max_unparsed: a larger share of votes that cannot be read makes the command fail.
        max_characters: a longer document is shown by the chunks that BM25 ranks best for the question.
        max_answer_tokens: of one answer; a model that thinks before it answers needs more.
    """

    model: str | None = Field(default=None, min_length=1)
    depth: int = Field(default=10, ge=1)
    votes: int = Field(default=2, ge=1, le=2)
    max_unparsed: float = Field(default=0.05, ge=0, le=1)
    max_characters: int = Field(default=8000, ge=500)
    max_answer_tokens: int = Field(default=300, ge=20)


class CheckSettings(_Table):
    """Which words of ``kbeval check`` fail it, besides a missed target and a regression, which always do.

    Attributes:
        unreachable: a target that no ranking can reach on this test set.
        cannot_tell: too few questions to tell whether the run is worse by more than its margin.
    """

    unreachable: Literal["warn", "fail"] = "warn"
    cannot_tell: Literal["warn", "fail"] = "warn"


class HistorySettings(_Table):
    """Where evaluated runs are recorded: an SQLite file, or a PostgreSQL database by its DSN.

    Attributes:
        store: the file or the DSN; ``results/history.sqlite`` beside what ``evaluate`` writes without it.
        record: whether ``kbeval evaluate`` records its runs.
    """

    store: str | None = Field(default=None, min_length=1, repr=False)
    record: bool = True


class StoreSettings(_Table):
    """The evaluation database.

    Attributes:
        dsn: a PostgreSQL server with pgvector, in which a schema of its own is made and dropped; an embedded one is
            started without it.
    """

    dsn: str | None = None


class RunSettings(_Table):
    """How engines are asked. The options of ``run`` and ``evaluate`` override these.

    Attributes:
        concurrency: questions at once.
        timeout_s: how long one question may take, retries and all; 0 for no limit.
        retries: how often a question is asked again after an error that its engine calls transient.
        backoff_s: the first pause before that; doubled each time, up to ``max_wait_s``.
        max_wait_s: the longest pause that an engine may ask for: the question fails where it asks for more.
        max_failures_in_a_row: so many, and the run ends with what there is; 0 for no such end.
    """

    concurrency: int = Field(default=1, ge=1, le=256)
    timeout_s: float = Field(default=0.0, ge=0, le=LONGEST_S)
    retries: int = Field(default=2, ge=0)
    backoff_s: float = Field(default=0.5, gt=0, le=LONGEST_S)
    max_wait_s: float = Field(default=60.0, ge=0, le=LONGEST_S)
    max_failures_in_a_row: int = Field(default=20, ge=0)


class Price(_Table):
    """What a service costs, in whatever currency. A kind of unit without a price is one that it does not charge for.

    Attributes:
        per_million_tokens: sent to it.
        per_million_completion_tokens: that a model writes.
        per_thousand_rerank_units: as a reranker counts them.
    """

    per_million_tokens: float = Field(default=0.0, ge=0)
    per_million_completion_tokens: float = Field(default=0.0, ge=0)
    per_thousand_rerank_units: float = Field(default=0.0, ge=0)


class SweepSettings(_Table):
    """What ``kbeval sweep`` tries. Its options override these.

    Attributes:
        engine: the name of an ``[engines.NAME]`` table, or a type; the first configured engine where it is not set.
        grid: for each setting of that engine the values that are tried.
        sample: how many combinations are drawn; 0 for all.
        seed: of the draw, and of the cut into dev and held-out questions.
        metric: that a configuration is picked by; ``[compare] primary`` where it is not set.
        dev: the share of the questions that it is picked on.
        cache: the file that stages are remembered in.
    """

    engine: str | None = Field(default=None, min_length=1)
    grid: dict[str, list[Any]] = {}
    sample: int = Field(default=0, ge=0)
    seed: int = Field(default=0, ge=0)
    metric: str | None = Field(default=None, min_length=1)
    dev: float = Field(default=0.5, gt=0, lt=1)
    cache: str = Field(default=".kbeval/stages.sqlite", min_length=1)


class Settings(_Table):
    """Everything that kbeval.toml can hold. Every key has a default but the targets."""

    corpus: CorpusSettings = CorpusSettings()
    test_set: TestSetSettings = TestSetSettings()
    compare: CompareSettings = CompareSettings()
    llm: LlmSettings = LlmSettings()
    generate: GenerateSettings = GenerateSettings()
    judge: JudgeSettings = JudgeSettings()
    store: StoreSettings = StoreSettings()
    run: RunSettings = RunSettings()
    prices: dict[str, Price] = {}
    check: CheckSettings = CheckSettings()
    history: HistorySettings = HistorySettings()
    sweep: SweepSettings = SweepSettings()
    engines: dict[str, dict[str, Any]] = DEFAULT_ENGINES
    targets: dict[str, _Number] = {}
    margins: dict[str, _Number] = {}


@dataclass(frozen=True)
class Project:
    """The settings in force, and the folder that their paths are relative to."""

    root: Path
    settings: Settings
    file: Path | None = None

    def path(self, setting: str) -> Path:
        """A path from the settings, relative to the project's root."""
        return self.root / setting


def load_project(config: Path | None = None, *, start: Path | None = None) -> Project:
    """Finds kbeval.toml upwards from ``start`` (the working folder), or takes ``config``.

    Without one every setting has its default and the root is the working folder.

    Raises:
        InputError: the file is missing, is no TOML, or holds a key or value that it must not hold.
    """
    folder = (start or Path.cwd()).resolve()
    file = config
    if file is None:
        file = next((f for f in (p / CONFIG_NAME for p in (folder, *folder.parents)) if f.is_file()), None)
    data: dict[str, Any] = {}
    shown: object = CONFIG_NAME
    if file is not None:
        shown = config or os.path.relpath(file, folder)
        data = _read_toml(file, shown)
    for variable, (table, key) in ENVIRONMENT.items():
        value = os.environ.get(variable)
        if value and isinstance(data.setdefault(table, {}), dict):
            data[table][key] = value
    try:
        settings = Settings.model_validate(data)
    except ValidationError as error:
        words = explain(error, Settings)
        raise InputError(shown, expected=words["expected"], found=words["found"]) from None
    root = folder if file is None else file.resolve().parent
    return Project(root=root, settings=settings, file=file)


def _read_toml(file: Path, shown: object) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise InputError(shown, expected="a settings file", found="nothing there") from None
    except OSError as error:
        raise InputError(shown, expected="a settings file", found=str(error.strerror)) from None
    except UnicodeDecodeError:
        raise InputError(shown, expected="UTF-8 text", found="other bytes") from None
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"\s*\(at line (\d+), column \d+\)", str(error))
        line = int(place[1]) if place else None
        found = re.sub(r"\s*\(at [^)]*\)", "", str(error))
        raise InputError(shown, line=line, expected="TOML", found=found) from None


def explain(error: ValidationError, model: type[BaseModel]) -> dict[str, str]:
    """The first problem of a validation, as the words ``expected`` and ``found``.

    An unknown key names the nearest one that is known at its place.
    """
    problem = error.errors(include_url=False)[0]
    place = [str(part) for part in problem["loc"]]
    dotted = ".".join(place)
    if problem["type"] == "extra_forbidden":
        known = _keys_at(model, place[:-1])
        near = difflib.get_close_matches(place[-1], known, n=1, cutoff=0.0)
        hint = f" (nearest: {near[0]!r})" if near else " (there is none: nothing can be set here)"
        return {"expected": f"a known key{hint}", "found": repr(dotted)}
    if problem["type"] == "missing":
        return {"expected": f"the key {dotted!r}", "found": "none"}
    said = problem["msg"].removeprefix("Value error, ")
    if not place and ", found " in said:
        expected, _, found = said.removeprefix("expected ").rpartition(", found ")
        return {"expected": expected, "found": found}
    if not place:
        found = str(problem["input"]) if not isinstance(problem["input"], dict) else "other values"
        return {"expected": problem["msg"].removeprefix("Value error, ").removeprefix("expected "), "found": found}
    if said.startswith("expected ") and ", found " in said:
        # A validator that says it whole, and does not repeat what may be a secret.
        expected, _, found = said.removeprefix("expected ").rpartition(", found ")
        return {"expected": expected, "found": found}
    message = problem["msg"].removeprefix("Input should be ").removeprefix("Value error, ").removeprefix("expected ")
    return {"expected": f"{dotted} to be {message}", "found": repr(problem["input"])}


def _keys_at(model: type[BaseModel], place: list[str]) -> list[str]:
    for part in place:
        annotation = model.model_fields[part].annotation
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return []
        model = annotation
    return list(model.model_fields)


def parse_assignments(assignments: list[str], names: list[str]) -> dict[str, dict[str, Any]]:
    """``--set KEY=VALUE`` and ``--set NAME.KEY=VALUE``, by engine.

    A value is text, which the engine's settings turn into the type of the key; one that opens with a bracket, a
    brace or a quotation mark is read as TOML.

    Raises:
        KbevalError: no equals sign, a key without a name although there are several engines, an unknown name.
    """
    settings: dict[str, dict[str, Any]] = {name: {} for name in names}
    for assignment in assignments:
        left, equals, text = assignment.partition("=")
        if not equals or not left:
            raise KbevalError(f"--set {assignment}: expected KEY=VALUE, found no equals sign")
        name, dot, key = left.partition(".")
        if not dot:
            if len(names) != 1:
                raise KbevalError(
                    f"--set {assignment}: expected NAME.{left}=..., as there are {len(names)} engines "
                    f"({', '.join(names)}), found no name"
                )
            name, key = names[0], left
        if name not in settings:
            raise KbevalError(f"--set {assignment}: expected one of the engines {', '.join(names)}, found {name!r}")
        settings[name][key] = _value(assignment, text)
    return settings


def _value(assignment: str, text: str) -> Any:
    if not text.startswith(("[", "{", '"', "'")):
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        raise KbevalError(f"--set {assignment}: expected a TOML value, found {text!r}") from None
