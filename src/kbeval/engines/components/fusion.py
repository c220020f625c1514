"""Putting lists of chunks together: ties, reciprocal rank fusion, and what goes to a reranker."""

# No postponed annotations here: Haystack would not see that an input is Variadic.

from haystack import Document, component
from haystack.components.joiners import DocumentJoiner
from haystack.core.component.types import Variadic

# The constant of the paper, and the only one that Haystack's joiner has.
# Cormack, Clarke, Buettcher: Reciprocal Rank Fusion outperforms Condorcet, SIGIR 2009.
HAYSTACK_CONSTANT = 60


def with_score(chunk: Document, score: float) -> Document:
    """The chunk with another score: what ``dataclasses.replace`` gives, at a tenth of its price.

    Haystack watches every assignment to a document's attributes while it is made; a hundred chunks a question, that
    costs more than searching them.
    """
    copied: Document = object.__new__(type(chunk))
    copied.__dict__.update(chunk.__dict__)
    copied.__dict__["score"] = score
    return copied


@component
class ReciprocalRankFusion:
    """Haystack's ``DocumentJoiner(join_mode="reciprocal_rank_fusion")`` with a constant of one's own.

    A chunk scores the sum over the lists of 1 / (k + rank), rank from 1, times (k + 1) / number of lists: a
    chunk that leads every list scores 1. Equal scores keep the order of the lists.
    """

    def __init__(self, k: int, top_k: int | None = None) -> None:
        """Args:
        k: the constant; the larger, the less the first ranks count.
        top_k: how many chunks are kept, all where it is None.
        """
        self.k = k
        self.top_k = top_k

    @component.output_types(documents=list[Document])
    def run(self, documents: Variadic[list[Document]], top_k: int | None = None) -> dict[str, list[Document]]:
        """Returns ``{"documents": [...]}``: each chunk of the lists once, best first."""
        lists = list(documents)
        scores: dict[str, float] = {}
        chunks: dict[str, Document] = {}
        for ranked in lists:
            for place, chunk in enumerate(ranked):
                scores[chunk.id] = scores.get(chunk.id, 0.0) + 1 / (self.k + 1 + place)
                chunks[chunk.id] = chunk
        # The same arithmetic in the same order as Haystack's, so that equal constants give equal bits.
        norm = len(lists) / (self.k + 1)
        fused = [with_score(chunk, scores[chunk.id] / norm) for chunk in chunks.values()]
        fused.sort(key=lambda chunk: scores[chunk.id], reverse=True)
        return {"documents": fused[: self.top_k if top_k is None else top_k]}


@component
class TieOrder:
    """Orders equal scores by id and leaves out what has no score.

    Postgres returns equal distances in any order, and chunks without a vector last, with an empty score.
    """

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, list[Document]]:
        """Returns ``{"documents": [...]}``, best first."""
        scored = [(-document.score, document.id, document) for document in documents if document.score is not None]
        return {"documents": [document for _, _, document in sorted(scored, key=lambda item: item[:2])]}


@component
class Head:
    """Splits a list into what a reranker sees and the rest."""

    def __init__(self, size: int) -> None:
        self.size = size

    @component.output_types(head=list[Document], rest=list[Document])
    def run(self, documents: list[Document]) -> dict[str, list[Document]]:
        """Returns ``{"head": the first size, "rest": the others}``."""
        return {"head": documents[: self.size], "rest": documents[self.size :]}


@component
class Behind:
    """Puts the chunks that no reranker saw behind those that it ranked, in the order that they had."""

    @component.output_types(documents=list[Document])
    def run(self, head: list[Document], rest: list[Document]) -> dict[str, list[Document]]:
        """Returns ``{"documents": [...]}``.

        Scores of the rest fall by 1 a place from the lowest of the head: they say no more than "behind", for
        the two kinds of score cannot be compared.
        """
        lowest = min((chunk.score for chunk in head if chunk.score is not None), default=0.0)
        return {
            "documents": [
                *head,
                *(with_score(chunk, lowest - place) for place, chunk in enumerate(rest, 1)),
            ]
        }


def make_fusion(constant: int, top_k: int | None) -> DocumentJoiner | ReciprocalRankFusion:
    """Haystack's joiner where the constant is its own, ours for any other."""
    if constant == HAYSTACK_CONSTANT:
        return DocumentJoiner(join_mode="reciprocal_rank_fusion", top_k=top_k)
    return ReciprocalRankFusion(k=constant, top_k=top_k)
