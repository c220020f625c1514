"""``kbeval import``: questions that people asked, and other tools' test sets, into the cache."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbeval.cli import options
from kbeval.errors import KbevalError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kbeval.formats.foreign import Foreign
    from kbeval.testset.importing import Imported


MOST_COLUMNS = 12  # that are named; a table of an export can have hundreds


class Kind(StrEnum):
    """What the file is; all but ``auto`` are the kinds of ``formats.foreign``."""

    AUTO = "auto"
    LOGS = "logs"
    LLAMA_INDEX = "llama-index"
    RAGAS = "ragas"
    AUTORAG = "autorag"
    BEIR = "beir"


class Source(StrEnum):
    """Who asked the questions."""

    HISTORICAL = "historical"
    SYNTHETIC = "synthetic"
    AUTHORED = "authored"


class By(StrEnum):
    """How a sample is drawn."""

    RANDOM = "random"
    DOMAIN = "domain"
    AMBIGUOUS = "ambiguous"


def import_questions(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="CSV, JSONL, JSON or Parquet, plain or gzipped; or a BEIR or AutoRAG folder."
        ),
    ],
    kind: Annotated[Kind, typer.Option("--from", help="What it is; told by its content otherwise.")] = Kind.AUTO,
    texts: Annotated[
        Path | None, typer.Option("--texts", help="For logs without texts: a table of hashes and texts.")
    ] = None,
    source: Annotated[
        Source | None,
        typer.Option(
            "--source", help="Who asked: historical for logs and synthetic for test sets, unless the file says it."
        ),
    ] = None,
    size: Annotated[
        int | None, typer.Option("--sample", min=1, metavar="N", help="Take N questions; all otherwise.")
    ] = None,
    by: Annotated[
        By,
        typer.Option(
            "--by",
            help="How: at random; each domain in turn; or the ambiguous first, where --runs disagree or the log's "
            "scores are close.",
        ),
    ] = By.RANDOM,
    seed: Annotated[int, typer.Option("--seed", min=0, max=options.MOST, help="What the sample is drawn with.")] = 0,
    runs: Annotated[
        list[Path] | None,
        typer.Option(
            "--runs", metavar="RUN", help="TREC runs over the file's query ids, for --by ambiguous. May repeat."
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns",
            metavar="WHAT=NAME,...",
            help="Which column is what: query, id, hash, relevant, returned, scores, domain, when.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be taken, and write nothing.")] = False,
    config: options.Config = None,
) -> None:
    """Takes questions from logs or from another tool's test set into the cache of questions.

    E-mail addresses, telephone, card and bank account numbers are masked. A question that the file has no labels for
    waits for `kbeval judge` and `kbeval review`.
    """
    from kbeval.config import load_project
    from kbeval.formats.foreign import read_foreign, read_texts
    from kbeval.formats.questions import read_questions, read_rejected, write_questions
    from kbeval.terminal import printable
    from kbeval.testset.importing import Sample, import_records
    from kbeval.testset.project import project_chunks, project_documents

    project = load_project(config)
    chosen = _columns(columns)
    foreign = read_foreign(file, None if kind is Kind.AUTO else kind.value, columns=chosen)
    who = _source(foreign, source, file)
    sample = Sample(size, by.value, seed, _rankings(runs or [])) if size is not None else None
    _check_sample(foreign, by, size, runs or [])
    cache = project.path(project.settings.test_set.questions)
    existing = read_questions(cache) if cache.exists() else []
    documents = project_documents(project)
    done = import_records(
        foreign,
        existing,
        documents,
        project_chunks(project, documents.values()),
        source=who,
        file=file.name or file.resolve().name,
        texts=read_texts(texts, _only(chosen, ("hash", "query"))) if texts else None,
        sample=sample,
    )
    if not done.sampled:
        reasons = "; ".join(f"{count} {reason}" for reason, count in sorted(done.left_out.items()))
        raise KbevalError(f"{file}: expected at least one question, found none in {done.rows} rows ({reasons})")
    if not dry_run and (done.new or done.labelled):
        write_questions(cache, done.questions, read_rejected(cache) if cache.exists() else ())
    _report(foreign, done, who)
    if dry_run:
        for question in done.new[:10]:
            typer.echo(printable(f"  {question.id}: {question.text}"))
        typer.echo("nothing was written (--dry-run)")
    elif done.new or done.labelled:
        typer.echo(f"wrote {options.shown(cache)}")
    else:
        typer.echo("nothing changed")


def _columns(text: str | None) -> dict[str, str]:
    pairs = {}
    for part in (text or "").split(","):
        if part.strip():
            what, equals, name = part.partition("=")
            if not equals or not name.strip():
                raise KbevalError(f"--columns {part.strip()}: expected WHAT=NAME, found no equals sign and name")
            pairs[what.strip()] = name.strip()
    return pairs


def _only(pairs: dict[str, str], keys: Iterable[str]) -> dict[str, str]:
    return {key: pairs[key] for key in keys if key in pairs}


def _source(foreign: Foreign, asked: Source | None, file: Path) -> str | None:
    """The source of all questions; None where each row has its own. Nothing invented is called historical."""
    invented = foreign.kind in ("llama-index", "ragas", "autorag")
    own = {record.source for record in foreign.records}
    if asked is Source.HISTORICAL and (invented or own & {"synthetic", "authored"}):
        found = f"a test set of {foreign.kind}" if invented else "questions that it says were written for it"
        raise KbevalError(f"{file}: expected questions that people asked, for --source historical, found {found}")
    if asked is not None:
        return asked.value
    if invented:
        return Source.SYNTHETIC.value
    if foreign.kind == "logs":
        return Source.HISTORICAL.value
    if own <= {each.value for each in Source}:
        return None
    raise KbevalError(f"{file}: expected --source historical, synthetic or authored, as the file does not say it")


def _check_sample(foreign: Foreign, by: By, size: int | None, runs: Sequence[Path]) -> None:
    if size is None and (by is not By.RANDOM or runs):
        raise KbevalError("--by and --runs choose a sample: expected --sample N with them, found none")
    if runs and by is not By.AMBIGUOUS:
        raise KbevalError(f"--runs are for --by ambiguous, found --by {by.value}")
    if by is By.AMBIGUOUS and len(runs) == 1:
        raise KbevalError("--by ambiguous: expected two or more --runs to disagree, found one")
    if by is By.AMBIGUOUS and not runs and not any(len(record.scores) > 1 for record in foreign.records):
        raise KbevalError("--by ambiguous: expected two --runs, or a log with the scores of its results, found neither")
    if by is By.DOMAIN and not any(record.domain for record in foreign.records):
        raise KbevalError("--by domain: expected a column with the domain (--columns domain=NAME), found none")


def _rankings(runs: Sequence[Path]) -> list[dict[str, list[str]]]:
    from kbeval.formats.trec import read_run

    rankings = []
    for path in runs:
        frame = read_run(path).frame
        grouped = frame.group_by("query", maintain_order=True).agg("document")
        rankings.append(dict(grouped.iter_rows()))
    return rankings


def _report(foreign: Foreign, done: Imported, source: str | None) -> None:
    from kbeval.terminal import printable
    from kbeval.testset.importing import by_reason
    from kbeval.testset.masking import mask

    if foreign.columns:
        columns = ", ".join(f"{what}: {name}" for what, name in sorted(foreign.columns.items()))
        typer.echo(printable(f"read as {columns}"))
    if foreign.ignored:
        more = f", and {len(foreign.ignored) - MOST_COLUMNS} more" if len(foreign.ignored) > MOST_COLUMNS else ""
        names = ", ".join(mask(name)[0] for name in foreign.ignored[:MOST_COLUMNS])
        typer.echo(printable(f"not read: {names}{more}"))
    typer.echo(
        f"{done.rows} rows of {foreign.kind}, {done.distinct} different questions, {done.sampled} taken: "
        f"{len(done.new)} new, {done.known} there already"
    )
    if done.new:
        sources = source or ", ".join(sorted({question.source for question in done.new}))
        gold = len(done.new) - done.unlabelled
        typer.echo(f"source {sources}; {gold} with gold, {done.unlabelled} to be labelled")
    if done.labelled:
        typer.echo(f"{done.labelled} that were there without gold have it now")
    for line in by_reason(done.left_out):
        typer.echo(line)
    if done.masked:
        typer.echo("masked: " + ", ".join(f"{count} {kind}" for kind, count in sorted(done.masked.items())))
    if done.unknown:
        distinct = list(dict.fromkeys(done.unknown))
        named = ", ".join(repr(name) for name in distinct[:5]) + (", ..." if len(distinct) > 5 else "")
        options.warn(f"{len(distinct)} labels are not in the corpus and were left out: {named}")
