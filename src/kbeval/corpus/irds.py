"""The documents of a data set in the catalogue of ir_datasets (https://ir-datasets.com)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbeval.errors import KbevalError
from kbeval.model import Document
from kbeval.secrets import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator


class IrDatasetsProvider:
    """The documents of the data set ``identifier``, such as ``beir/scifact``, one at a time, in its order.

    The text is the field ``text``, beside which a ``title`` and a ``url`` are kept; where a data set has no such
    field, the text is what ir_datasets says is a document's default text.
    """

    def __init__(self, identifier: str) -> None:
        self._identifier = identifier

    def get_documents(self) -> Iterator[Document]:
        """Yields the documents; ir_datasets downloads them the first time.

        Raises:
            KbevalError: there is no such data set, it has no documents, or it cannot be had.
        """
        import ir_datasets

        try:
            for row in ir_datasets.load(self._identifier).docs_iter():
                yield _document(row)
        except Exception as error:
            # An id that is not known, a download that fails, a licence to be agreed to: ir_datasets says which.
            raise KbevalError(f"[corpus] ir_datasets {self._identifier}: cannot be read: {one_line(error)}") from error


def _document(row: Any) -> Document:
    has_text = isinstance(getattr(row, "text", None), str)
    url = getattr(row, "url", None)
    return Document(
        id=str(row.doc_id),
        text=row.text if has_text else row.default_text(),
        title=str(getattr(row, "title", None) or "") if has_text else "",
        metadata={"url": url} if isinstance(url, str) and url else {},
    )
