"""Where documents come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kbeval.model import Document


class CorpusProvider(Protocol):
    """Anything that can give the documents of a knowledge base.

    A seed folder, a BEIR folder and the rows of a production database look the same from here; what a project
    uses is named in ``[corpus] provider``, where ``package.module:Class`` names one of your own. It is called
    with the ``[corpus] path`` setting, resolved against the project's root.
    """

    def get_documents(self) -> Iterable[Document]:
        """The documents, in an order that is the same every time. Ids are unique."""
        ...
