"""Takes questions from logs and other tools' test sets into the cache, without taking what names a person.

The way of a row: text (joined by its hash where the log has only that), masked, put together with the rows that ask
the same, labelled where the file says what answers it, sampled, given an id, and set beside what is there already.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kbeval.corpus.chunking import text_hash
from kbeval.model import Question
from kbeval.testset.masking import mask
from kbeval.testset.sampling import ambiguous_first, at_random, by_stratum, disagreement, rankings_of, thinness
from kbeval.testset.twins import find_passages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kbeval.formats.foreign import Foreign, Record
    from kbeval.model import Chunk, Document

MOST_WORDS = 400  # a pasted e-mail is no question that an engine is asked
MOST_CHARACTERS = 4000  # nor is what has no blanks: a pasted token, or a picture as text


@dataclass
class Asked:
    """Rows that ask the same."""

    text: str
    records: list[Record] = field(default_factory=list)

    @property
    def ids(self) -> list[str]:
        """The ids that the file knows it by, in its order."""
        return list(dict.fromkeys(record.id for record in self.records if record.id is not None))

    @property
    def domain(self) -> str | None:
        """What most of the rows say; of several, the first by bytes."""
        count = Counter(record.domain for record in self.records if record.domain)
        return min(count, key=lambda name: (-count[name], name.encode())) if count else None


@dataclass
class Imported:
    """What became of a file.

    Attributes:
        questions: the cache as it is to be.
        new, labelled: how many were added, and how many that were there got their gold.
        known: how many were there already.
        unlabelled: how many of the new ones nobody has labelled yet.
        rows, distinct, sampled: how many rows, different questions, and of these taken.
        left_out: rows without a use, by reason.
        masked: what was masked in the questions that were taken, by kind.
        unknown: labels that the corpus does not hold, as the file has them.
    """

    questions: list[Question]
    new: list[Question] = field(default_factory=list)
    labelled: int = 0
    known: int = 0
    rows: int = 0
    distinct: int = 0
    sampled: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    masked: Counter[str] = field(default_factory=Counter)
    unknown: list[str] = field(default_factory=list)

    @property
    def unlabelled(self) -> int:
        return sum(not question.gold_documents for question in self.new)


@dataclass(frozen=True)
class Sample:
    """How many questions are taken, and which: ``random``, ``domain`` or ``ambiguous``."""

    size: int | None = None
    by: str = "random"
    seed: int = 0
    runs: Sequence[Mapping[str, Sequence[str]]] = ()


def normalised(text: str) -> str:
    """What two texts share that ask the same: capitals, blanks, and marks at the ends do not count."""
    plain = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return re.sub(r"^[^\w\[(]+|[^\w\])%+]+$", "", plain)


def import_records(
    foreign: Foreign,
    existing: Sequence[Question],
    documents: Mapping[str, Document],
    chunks: Sequence[Chunk],
    *,
    source: str | None,
    file: str,
    texts: Mapping[str, str] | None = None,
    sample: Sample | None = None,
) -> Imported:
    """Puts the questions of a file beside those of the cache.

    Args:
        foreign: the file.
        existing: the cache. None of it is lost or changed, but for gold that a question had none of.
        documents, chunks: the corpus, in which labels are looked up.
        source: of every question; where it is None each row's own.
        file: how the provenance names the file.
        texts: questions by their hash, for logs without texts.
        sample: which questions are taken; all without it.

    An id is the file's own (of a log masked, with ``-`` for blanks), else ``log-`` and ten digits of a hash of the
    masked text; one that is a document's or another question's gets ``-`` and six digits of that hash behind it.
    """
    done = Imported(
        questions=list(existing), rows=len(foreign.records) + sum(foreign.odd.values()), left_out=Counter(foreign.odd)
    )
    asked = _grouped(_with_texts(foreign, texts or {}, done))
    done.distinct = len(asked)
    taken = _sampled(asked, sample or Sample())
    done.sampled = len(taken)
    find = _Gold(foreign, documents, chunks)
    find.look_up(taken)
    by_text = {normalised(question.text): place for place, question in enumerate(done.questions)}
    ids = {question.id for question in done.questions} | documents.keys()
    for each in sorted(taken, key=lambda one: normalised(one.text)):
        gold_documents, gold_chunks = find.of(each, done.unknown)
        place = by_text.get(normalised(each.text))
        if place is not None:
            before = done.questions[place]
            done.known += 1
            if gold_documents and not before.gold_documents and before.answerable:
                done.questions[place] = replace(before, gold_documents=gold_documents, gold_chunks=gold_chunks)
                done.labelled += 1
            continue
        done.masked += Counter(re.findall(r"(?<=\[)(?:email|iban|card|phone)(?=\])", each.text))
        question = Question(
            id=_identifier(each, ids),
            text=each.text,
            gold_chunks=gold_chunks,
            gold_documents=gold_documents,
            source=source or each.records[0].source or "",
            style=each.records[0].style,
            domain=each.domain or _common_domain(gold_documents, documents),
            provenance=_provenance(each, foreign, file, sample),
        )
        ids.add(question.id)
        done.new.append(question)
    done.new.sort(key=lambda question: question.id)
    done.questions += done.new
    return done


def _with_texts(foreign: Foreign, texts: Mapping[str, str], done: Imported) -> Iterator[Record]:
    for record in foreign.records:
        text = record.text if record.text is not None else texts.get(record.key or "")
        if text is None:
            done.left_out["no text" if record.key is None else "no text for its hash"] += 1
        elif len(text) > MOST_CHARACTERS:
            done.left_out[f"longer than {MOST_CHARACTERS} characters"] += 1
        elif not normalised(text):
            done.left_out["empty"] += 1
        elif len(text.split()) > MOST_WORDS:
            done.left_out[f"longer than {MOST_WORDS} words"] += 1
        else:
            identifier = record.id
            if foreign.kind == "logs" and identifier is not None:
                # A log's id can be who asked, and nobody wrote it to be one word of a TREC file.
                identifier = "-".join(_masked(identifier).split()) or None
            yield replace(record, text=_masked(text.strip()), id=identifier, domain=_masked(record.domain))


def _masked(text: str | None) -> Any:
    return None if text is None else mask(text)[0]


def _grouped(records: Iterable[Record]) -> list[Asked]:
    groups: dict[str, Asked] = {}
    for record in records:
        text = record.text or ""
        groups.setdefault(normalised(text), Asked(text)).records.append(record)
    return list(groups.values())


def _sampled(asked: list[Asked], sample: Sample) -> list[Asked]:
    def key(one: Asked) -> str:
        return normalised(one.text)

    def ambiguity(one: Asked) -> float | None:
        if sample.runs:
            return disagreement(rankings_of([*one.ids, _hash_id(one)], sample.runs))
        thin = [value for record in one.records if (value := thinness(record.scores)) is not None]
        return sum(thin) / len(thin) if thin else None

    if sample.size is None:
        return asked
    if sample.by == "domain":
        ordered = by_stratum(asked, key, lambda one: one.domain or "", sample.seed)
    elif sample.by == "ambiguous":
        ordered = ambiguous_first(asked, key, ambiguity, sample.seed)
    else:
        ordered = at_random(asked, key, sample.seed)
    return ordered[: sample.size]


def _digest(one: Asked) -> str:
    return hashlib.sha256(normalised(one.text).encode()).hexdigest()


def _hash_id(one: Asked) -> str:
    return f"log-{_digest(one)[:10]}"


def _identifier(one: Asked, taken: set[str]) -> str:
    identifier = one.ids[0] if one.ids else _hash_id(one)
    return identifier if identifier not in taken else f"{identifier}-{_digest(one)[:6]}"


class _Gold:
    """Finds what a file says is relevant in the corpus: by id of document or chunk, by file name, or by text."""

    def __init__(self, foreign: Foreign, documents: Mapping[str, Document], chunks: Sequence[Chunk]) -> None:
        self._texts = foreign.texts
        self._documents = documents
        self._chunk_list = chunks
        self._chunks = {chunk.id: chunk for chunk in chunks}
        names = Counter(document.filename for document in documents.values() if document.filename)
        self._by_name = {
            document.filename: identifier for identifier, document in documents.items() if names[document.filename] == 1
        }
        self._by_text: dict[str, str | None] = {}

    def look_up(self, asked: Iterable[Asked]) -> None:
        """Looks up all texts at once: comparing them needs an index of the corpus."""
        wanted: dict[str, None] = {}
        for one in asked:
            for record in one.records:
                wanted.update(dict.fromkeys(record.contexts))
                for name in record.relevant or ():
                    if name in self._texts and not self._direct(name):
                        wanted[self._texts[name]] = None
        self._by_text = dict(zip(wanted, find_passages(list(wanted), self._chunk_list), strict=True))

    def of(self, one: Asked, unknown: list[str]) -> tuple[dict[str, int], dict[str, str]]:
        """Gold documents with their grades, and gold chunks with their hashes; what is not found joins ``unknown``."""
        grades: dict[str, int] = {}
        hashes: dict[str, str] = {}

        def add(document: str, grade: int, chunk: str | None) -> None:
            grades[document] = max(grade, grades.get(document, grade))
            if chunk is not None:
                hashes[chunk] = text_hash(self._chunks[chunk].text)

        for record in one.records:
            for name, grade in (record.relevant or {}).items():
                if found := self._direct(name) or self._through(self._texts.get(name)):
                    add(found[0], grade, found[1])
                else:
                    unknown.append(name)
            for context in record.contexts:
                if found := self._through(context):
                    add(found[0], 1, found[1])
                else:
                    unknown.append(" ".join(context.split()[:8]))
        return dict(sorted(grades.items())), dict(sorted(hashes.items()))

    def _direct(self, name: str) -> tuple[str, str | None] | None:
        if name in self._documents:
            return name, None
        if name in self._chunks:
            return self._chunks[name].document_id, name
        return (self._by_name[name], None) if name in self._by_name else None

    def _through(self, text: str | None) -> tuple[str, str | None] | None:
        chunk = self._by_text.get(text) if text is not None else None
        return None if chunk is None else (self._chunks[chunk].document_id, chunk)


def _common_domain(gold: Iterable[str], documents: Mapping[str, Document]) -> str | None:
    """The domain of the gold documents, where they have one together."""
    domains = {documents[document].domain for document in gold}
    return domains.pop() if len(domains) == 1 else None


def _provenance(one: Asked, foreign: Foreign, file: str, sample: Sample | None) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for record in one.records:
        for key, value in record.kept.items():
            kept.setdefault(key, _masked(value) if isinstance(value, str) else value)
    days = sorted(day[0] for record in one.records if (day := re.match(r"\d{4}-\d\d-\d\d", record.when or "")))
    returned: dict[str, None] = {}
    for record in one.records:
        returned.update(dict.fromkeys(record.returned))
    return {
        "imported_from": _masked(file),
        "format": foreign.kind,
        **({"asked": len(one.records)} if foreign.kind == "logs" else {}),
        **({"first_asked": days[0], "last_asked": days[-1]} if days else {}),
        **({"returned": list(returned)[:20]} if returned else {}),
        **({"sampled_by": sample.by, "seed": sample.seed} if sample and sample.size is not None else {}),
        **kept,
    }


def by_reason(left_out: Mapping[str, int]) -> list[str]:
    """``12 rows left out: empty``, a line a reason, the most frequent first."""
    counts = defaultdict(int, left_out)
    return [
        f"{counts[reason]} {'row' if counts[reason] == 1 else 'rows'} left out: {reason}"
        for reason in sorted(counts, key=lambda reason: (-counts[reason], reason))
    ]
