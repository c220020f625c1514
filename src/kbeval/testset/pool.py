"""Pooling: what several runs found for each question, to be judged once for all of them (METHOD 6)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kbeval.evaluation.pooling import top

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kbeval.model import Question, Run


@dataclass(frozen=True, slots=True)
class Candidate:
    """A document to be judged for a question, and why it is one.

    Attributes:
        ranks: for each pooled run that returned it within the depth, its rank from 1; by name in the runs' order.
        gold: the question's own labels name it. It is judged whether or not a run found it: a label that is
            wrong is most likely on a document that nobody finds.
        twin: it holds nearly what a gold passage holds.
        passage: the hash of the text of the chunk that does, where it is known: a judge has to see that one.
    """

    query: str
    document: str
    ranks: Mapping[str, int] = field(default_factory=dict)
    gold: bool = False
    twin: bool = False
    passage: str | None = None

    @property
    def best_rank(self) -> int | None:
        """The best rank that a run gave it; none where no run returned it."""
        return min(self.ranks.values(), default=None)


def pool_candidates(
    runs: Sequence[Run],
    questions: Iterable[Question],
    depth: int,
    *,
    twins: Mapping[tuple[str, str], str | None] | None = None,
) -> list[Candidate]:
    """The union of the runs' first ``depth`` documents for each question, its gold, and the gold's twins.

    Args:
        runs: with distinct names.
        questions: the test set. What a run answers beyond it is left out.
        depth: how many documents of each answer are pooled.
        twins: pairs of a question and a near-duplicate of its gold (``testset.twins``), each with the hash of the chunk
            that is one, None where the whole document is.

    Returns:
        Each (question, document) once, best ranks first, so that a limited budget goes where it counts for
        every metric; what no run returned comes last. Equal ranks by question and document, ascending bytes.
    """
    wanted = {question.id: question for question in questions}
    ranks: dict[tuple[str, str], dict[str, int]] = {}
    for run in runs:
        for query, document, rank in top(run, wanted, depth).iter_rows():
            ranks.setdefault((query, document), {})[run.name] = rank
    gold = {(q.id, document) for q in wanted.values() for document, grade in q.gold_documents.items() if grade > 0}
    near = {pair: chunk for pair, chunk in (twins or {}).items() if pair[0] in wanted and pair not in gold}
    candidates = [
        Candidate(*pair, ranks=ranks.get(pair, {}), gold=pair in gold, twin=pair in near, passage=near.get(pair))
        for pair in ranks.keys() | gold | near.keys()
    ]
    return sorted(candidates, key=lambda one: (one.best_rank or depth + 1, one.query, one.document))
