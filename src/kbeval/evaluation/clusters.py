"""Which questions stand or fall together: the unit of every statistic (METHOD 4).

Questions written from one document share its luck: where an engine finds the document for one of them it
tends to find it for the others. Counted as independent they make differences look more certain than they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kbeval.evaluation.strata import GENERATED_STYLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray


def clusters(queries: Sequence[tuple[str, str | None, Iterable[str]]]) -> NDArray[np.int64]:
    """The cluster of each question.

    Generated questions (``near``, ``mid``, ``far``) are in one cluster with all others that share a gold
    document with them, directly or through further questions: the connected components. Any other question,
    and a generated one without a gold document, stands for itself, also where its gold documents are
    somebody's.

    Args:
        queries: (question id, style, ids of its gold documents), one a question.

    Returns:
        shape (questions,): a label from 0, numbered by first appearance.

    Raises:
        ValueError: where a question id comes twice.
    """
    if len({identifier for identifier, _, _ in queries}) != len(queries):
        raise ValueError("clusters: a question id comes twice")
    parent: dict[str, str] = {}

    def root(document: str) -> str:
        while parent[document] != document:
            parent[document] = document = parent[parent[document]]
        return document

    anchors: list[str | None] = []
    for _, style, gold in queries:
        anchor: str | None = None
        if style in GENERATED_STYLES:
            for document in gold:
                parent.setdefault(document, document)
                found = root(document)
                if anchor is None:
                    anchor = found
                else:
                    parent[found] = root(anchor)
        anchors.append(anchor)

    labels = np.empty(len(queries), dtype=np.int64)
    label_of: dict[str, int] = {}
    count = 0
    for position, anchor in enumerate(anchors):
        component = None if anchor is None else root(anchor)
        if component is not None and component in label_of:
            labels[position] = label_of[component]
            continue
        if component is not None:
            label_of[component] = count
        labels[position] = count
        count += 1
    return labels
