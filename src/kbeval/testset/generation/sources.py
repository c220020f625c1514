"""The texts that questions are written from: the corpus' chunks, equal ones together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kbeval.corpus.chunking import text_hash
from kbeval.errors import KbevalError
from kbeval.testset.overlap import content_stems
from kbeval.testset.project import project_chunks, project_documents

if TYPE_CHECKING:
    from kbeval.config import Project
    from kbeval.model import Chunk, Document


@dataclass(frozen=True, slots=True)
class Source:
    """One text, and every chunk that consists of it: whichever of them is found answers the question.

    Attributes:
        digest: the hash by which a gold chunk is found again.
        place: its place in the corpus, to sort by.
    """

    digest: str
    text: str
    chunks: tuple[Chunk, ...]
    domain: str | None
    place: int

    @property
    def documents(self) -> list[str]:
        """The documents that hold it, each once, in the order of the corpus."""
        return list(dict.fromkeys(chunk.document_id for chunk in self.chunks))


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documents by id, texts by their hash, the hash of each chunk, and the chunks that say nothing."""

    documents: dict[str, Document]
    sources: dict[str, Source]
    hashes: dict[str, str]
    empty: list[str]


def read_corpus(project: Project) -> Corpus:
    """Cuts the project's corpus into chunks, as ``[corpus]`` says.

    Raises:
        KbevalError: the corpus is empty, holds an id twice, or has no chunk with a word to ask about.
    """
    documents = project_documents(project)
    chunks = project_chunks(project, documents.values())
    equal: dict[str, list[Chunk]] = {}
    hashes: dict[str, str] = {}
    empty = []
    for chunk in chunks:
        hashes[chunk.id] = digest = text_hash(chunk.text)
        if content_stems(chunk.text):
            equal.setdefault(digest, []).append(chunk)
        else:
            empty.append(chunk.id)
    if not equal:
        raise KbevalError(
            f"[corpus] {project.settings.corpus.path}: expected chunks with words, found {len(empty)} without any"
        )
    sources = {
        digest: Source(digest, same[0].text, tuple(same), documents[same[0].document_id].domain, place)
        for place, (digest, same) in enumerate(equal.items())
    }
    return Corpus(documents, sources, hashes, empty)
