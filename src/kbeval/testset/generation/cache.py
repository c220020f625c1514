"""From what was written to the cache: which questions are taken, which are rejected and why, which gold has moved.

A pure function of the answers, the corpus and the settings: it is worked out anew by every ``generate``, so that a
wider band or a repaired chunk brings back what had been rejected, without asking anybody.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kbeval.formats.questions import read_questions, read_rejected
from kbeval.model import Question, Rejected
from kbeval.testset.filters import Duplicates, Rejection, wording
from kbeval.testset.generation.prompts import STYLES
from kbeval.testset.generation.written import SOURCE, Written
from kbeval.testset.overlap import overlap

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from pathlib import Path

    from kbeval.testset.generation.sources import Corpus, Source

GONE = "gold_changed"
BAND = "overlap_band"
ROUND_TRIP = "round_trip"

REASONS = frozenset(
    {"empty", "too_long", "not_a_question", "several", "refers", "language", "quotes", "duplicate"}
    | {GONE, BAND, ROUND_TRIP}
)
"""What ``generate`` rejects for. A question that stands rejected for anything else was so by somebody else, and stays
so."""

Bands = dict[str, tuple[float, float]]


@dataclass
class Cache:
    """The cache's file, sorted by whose its entries are.

    Attributes:
        questions, rejected: as the file holds them.
        others: questions that ``generate`` never touches: written by people, imported, or corrected by hand.
        put_aside: rejected by somebody else.
        written: what it has written, by key.
        covered: (hash of the text, style) for which there is a question already that it does not touch.
    """

    questions: list[Question] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    others: list[Question] = field(default_factory=list)
    put_aside: list[Rejected] = field(default_factory=list)
    written: dict[str, Written] = field(default_factory=dict)
    covered: set[tuple[str, str]] = field(default_factory=set)


def read_cache(path: Path) -> Cache:
    """Reads the cache; a missing one is empty.

    Raises:
        InputError: it is no JSON of this format, or holds an id twice.
    """
    if not path.exists():
        return Cache()
    cache = Cache(questions=read_questions(path), rejected=read_rejected(path))
    for question in cache.questions:
        if (written := Written.from_question(question)) is None:
            cache.others.append(question)
            _cover(cache, question)
        else:
            cache.written[written.key] = written
    for each in cache.rejected:
        written = Written.from_question(each.question) if each.reason in REASONS else None
        if written is None:
            cache.put_aside.append(each)
            _cover(cache, each.question)
        else:
            cache.written.setdefault(written.key, written)
    return cache


def _cover(cache: Cache, question: Question) -> None:
    digest = question.provenance.get("chunk_hash")
    if isinstance(digest, str) and question.source == SOURCE:
        cache.covered.add((digest, question.style or ""))


@dataclass
class Built:
    """What the cache becomes.

    Attributes:
        questions, rejected: all entries, in the file's order: other people's first, then by chunk and style.
        replaced: ids of questions that a newer answer to the same text and style has taken the place of.
        moved: ids of questions whose gold chunks have another number now.
        lost: for each question whose gold chunks are no longer in the corpus, those. Generated ones stand under
            rejected; other people's stay where they are.
    """

    questions: list[Question] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    moved: list[str] = field(default_factory=list)
    lost: dict[str, list[str]] = field(default_factory=dict)


def first_look(written: Written, source: Source, bands: Bands, max_words: int) -> Rejection | None:
    """What is wrong with a question's wording, or with its overlap; None where nothing is."""
    wrong = wording(written.text, source.text, max_words=max_words)
    if wrong is not None:
        return wrong
    least, most = bands[written.style]
    share = overlap(written.text, source.text)
    if least <= share <= most:
        return None
    return Rejection(BAND, f"an overlap of {share:.2f}, and {written.style} is {least:g} to {most:g}")


def build(
    cache: Cache,
    corpus: Corpus,
    *,
    current: Collection[str],
    bands: Bands,
    max_words: int,
    found: Callable[[str, Collection[str]], bool] | None = None,
) -> Built:
    """Works the cache out.

    Args:
        current: the keys that the settings of today lead to. Where there is an answer to one, answers to the same
            text and style by other models or prompts make room for it.
        found: the round trip, where it is wanted.
    """
    built = Built()
    others = [_at_place(question, corpus, built) for question in cache.others]
    live, gone = _sorted(cache.written.values(), corpus)
    answered = {(each.digest, each.style) for each in live if each.key in current}
    names = _Names({question.id for question in cache.others}, corpus.documents)
    duplicates = Duplicates((question.id, question.text) for question in others)
    earlier = {question.provenance.get("key"): question for question in cache.questions}
    taken: list[Question] = []
    rejected: list[Rejected] = []
    for each in live:
        name = names.of(each)
        if each.key not in current and (each.digest, each.style) in answered:
            built.replaced.append(name)
            continue
        source = corpus.sources[each.digest]
        question = _question(name, each, {c.id: each.digest for c in source.chunks}, source.documents, source.domain)
        question = replace(question, overlap=round(overlap(each.text, source.text), 4))
        if (before := earlier.get(each.key)) is not None and dict(before.gold_chunks) != dict(question.gold_chunks):
            built.moved.append(name)
        wrong = first_look(each, source, bands, max_words)
        if wrong is None and (same := duplicates.find(each.text)):
            wrong = Rejection("duplicate", f"of {same[0]}: {same[1]}")
        if wrong is None and found is not None and not found(each.text, source.documents):
            wrong = Rejection(ROUND_TRIP, "neither of the two retrievers finds its document")
        if wrong is None:
            duplicates.add(name, each.text)
            taken.append(question)
        else:
            rejected.append(Rejected(question, wrong.reason, wrong.detail))
    for each in gone:
        name = names.of(each)
        built.lost[name] = list(each.chunks)
        question = _question(name, each, each.chunks, each.documents, each.domain)
        rejected.append(Rejected(question, GONE, f"the text of {', '.join(each.chunks)} is no longer in the corpus"))
    built.questions = [*others, *taken]
    built.rejected = [*cache.put_aside, *rejected]
    return built


def _question(
    name: str, each: Written, chunks: Mapping[str, str], documents: Iterable[str], domain: str | None
) -> Question:
    return Question(
        id=name,
        text=each.text,
        gold_chunks=dict(chunks),
        gold_documents=dict.fromkeys(documents, 1),
        source=SOURCE,
        style=each.style,
        domain=domain,
        provenance=each.provenance(),
    )


def _sorted(written: Iterable[Written], corpus: Corpus) -> tuple[list[Written], list[Written]]:
    """Those whose text is in the corpus, by its place; and those whose text is not, by their old chunks."""
    every = list(written)
    live = [each for each in every if each.digest in corpus.sources]
    gone = [each for each in every if each.digest not in corpus.sources]
    live.sort(key=lambda each: (corpus.sources[each.digest].place, STYLES.index(each.style), each.key))
    gone.sort(key=lambda each: (list(each.chunks), STYLES.index(each.style), each.key))
    return live, gone


def _at_place(question: Question, corpus: Corpus, built: Built) -> Question:
    """Somebody's own question, with the numbers that its gold chunks have now; nothing else of it changes."""
    chunks: dict[str, str] = {}
    lost = []
    for chunk, digest in question.gold_chunks.items():
        if corpus.hashes.get(chunk) == digest:
            chunks[chunk] = digest
            continue
        source = corpus.sources.get(digest)
        here = [c.id for c in source.chunks if c.document_id in question.gold_documents] if source else []
        if here:
            chunks.update(dict.fromkeys(here, digest))
        else:
            chunks[chunk] = digest
            lost.append(chunk)
    if lost:
        built.lost[question.id] = lost
    if chunks == dict(question.gold_chunks):
        return question
    built.moved.append(question.id)
    return replace(question, gold_chunks=chunks)


class _Names:
    """Ids for generated questions: ``g-``, the first 8 digits of the key, the style.

    Longer where that is somebody else's id, or a document's, which no question's may be.
    """

    def __init__(self, others: Collection[str], documents: Collection[str]) -> None:
        self._taken = {*others, *documents}

    def of(self, written: Written) -> str:
        digits = written.key + hashlib.sha256(written.key.encode()).hexdigest()
        for length in range(8, len(digits)):
            name = f"g-{digits[:length]}-{written.style}"
            if name not in self._taken:
                self._taken.add(name)
                return name
        raise ValueError(f"no id is free for key {written.key}")
