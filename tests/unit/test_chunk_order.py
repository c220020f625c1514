"""Which chunk belongs to which document, and in what order chunks are kept."""

from __future__ import annotations

from kbeval.engines.components.chunks import haystack_chunks
from kbeval.model import Document


def test_ids_are_places_in_the_one_order() -> None:
    documents = [
        Document(id="a", title="First", text="one two three four five"),
        Document(id="a#1", text="six"),  # looks like a's second chunk
        Document(id="é", title="Last", text=""),
    ]
    made = list(haystack_chunks(documents, words=3, overlap=1))

    # bytes, highest first: é#0 (C3 A9 ..), then a#1#0 > a#1 > a#0
    assert [(c.id, c.meta["chunk_id"], c.meta["document_id"], c.content) for c in made] == [
        ("0000000000", "é#0", "é", "Last"),
        ("0000000001", "a#1#0", "a#1", "six"),
        ("0000000002", "a#1", "a", "First\nthree four five"),
        ("0000000003", "a#0", "a", "First\none two three"),
    ]
