"""The page itself: who gets in, and that whatever a document holds is shown as text."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from kbeval.corpus.chunking import chunk_document
from kbeval.errors import KbevalError
from kbeval.formats.label_journal import LabelJournal
from kbeval.model import Document, Label, Question
from kbeval.testset.review.material import Finding, Material
from kbeval.testset.review.passages import Passages
from kbeval.testset.review.queues import build_queues
from kbeval.testset.review.serve import listen, reviewer_name
from kbeval.testset.review.session import Session

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.testclient import TestClient

EVIL = '<script>alert(1)</script><img src=x onerror="alert(2)">\' " & {{ 7 * 7 }} </mark></textarea>\u202eright'
NASTY = {
    "evil": Document("evil", f"{EVIL}\n" + "word " * 300, EVIL, EVIL),
    "long": Document("long", "x" * 100_000 + " refund", "Long"),
    "עברית": Document("עברית", "שלום עולם", "כותרת"),
    "nul": Document("nul", "a\x00b\x07", "Nul"),
    "empty": Document("empty", ""),
}


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    from starlette.testclient import TestClient

    from kbeval.testset.review.app import Reviewing, make_app

    question = Question("q", EVIL, {}, {}, "historical")
    labels = [Label("q", "evil", 3, "llm", EVIL, why=EVIL, votes=(3, None), confidence=0.5)]
    found = {"q": {name: [Finding("engine-a", 1)] for name in NASTY}}
    material = Material({"q": question}, NASTY, labels, found=found)
    journal = LabelJournal(tmp_path / "labels.jsonl")
    session = Session(material, build_queues(material, "ana"), journal.fold(), journal, "ana")
    app = make_app(Reviewing(session, Passages(NASTY, cut=chunk_document), "secret", 4000))
    client = TestClient(app, base_url="http://127.0.0.1:4000", follow_redirects=False)
    client.session_under_test = session  # type: ignore[attr-defined]
    return client


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def place_of(client: TestClient, document: str) -> int:
    return client.session_under_test.queues["unlabelled"].tasks[0].documents.index(document) + 1  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/", {}),
        ("/wrong/", {}),
        ("/secre/", {}),
        ("/static/review.css", {}),
        ("/secret/", {"host": "evil.example:4000"}),
        ("/secret/", {"host": "127.0.0.1"}),
        ("/secret/", {"host": "127.0.0.1:4001"}),
        ("/secret/", {"host": ""}),
    ],
)
def test_others_are_kept_out(client: TestClient, path: str, headers: dict[str, str]) -> None:
    answer = client.get(path, headers=headers)
    assert answer.status_code == 403
    assert "secret" not in answer.text


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:9"])
def test_forms_of_other_pages_are_refused(client: TestClient, origin: str) -> None:
    data = {"document": "evil", "grade": "3"}
    refused = client.post("/secret/review/unlabelled/1/grade", data=data, headers={"origin": origin})
    assert refused.status_code == 403
    assert client.post("/wrong/review/unlabelled/1/grade", data=data).status_code == 403
    assert client.session_under_test.answers == 0  # type: ignore[attr-defined]
    own = {"origin": "http://127.0.0.1:4000"}
    assert client.post("/secret/review/unlabelled/1/grade", data=data, headers=own).status_code == 303
    assert client.session_under_test.answers == 1  # type: ignore[attr-defined]


def test_every_answer_forbids_what_is_not_its_own(client: TestClient) -> None:
    for path in ("/secret/", "/secret/static/review.js", "/wrong/"):
        headers = client.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'self'; base-uri 'none'")
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-frame-options"] == "DENY"
        assert headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize("document", list(NASTY))
def test_whatever_a_document_holds_is_text(client: TestClient, document: str) -> None:
    at = place_of(client, document)
    client.post(f"/secret/review/unlabelled/1/reveal?d={at}", data={"document": document})
    page = client.get(f"/secret/review/unlabelled/1?d={at}")
    assert page.status_code == 200
    parsed = _Tags()
    parsed.feed(page.text)
    assert [attributes.get("src") for tag, attributes in parsed.tags if tag == "script"] == ["/secret/static/review.js"]
    assert not [tag for tag, _ in parsed.tags if tag in ("img", "iframe", "style")]
    assert not [
        name for _, attributes in parsed.tags for name in attributes if name.startswith("on") or name == "style"
    ]
    assert EVIL in parsed.text
    assert NASTY[document].text[:200].replace("\x00", "�")[:3] in parsed.text.replace("\x00", "�")
    assert "49" not in parsed.text.replace("149", "")


def test_blind_until_asked(client: TestClient) -> None:
    at = place_of(client, "evil")
    before = client.get(f"/secret/review/unlabelled/1?d={at}").text
    assert "engine-a" not in before
    assert "confidence" not in before
    client.post(f"/secret/review/unlabelled/1/reveal?d={at}", data={"document": "evil"})
    after = client.get(f"/secret/review/unlabelled/1?d={at}").text
    assert "engine-a put it at rank 1." in after
    assert "grade 3, votes 3 and ?, confidence 0.50" in after


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("review/nowhere", None),
        ("review/unlabelled/0", None),
        ("review/unlabelled/2", None),
        ("review/unlabelled/1?d=9", None),
        ("review/unlabelled/1?d=-1", None),
        ("review/unlabelled/1?d=99999999999999", None),
        ("review/unlabelled/9/search?q=x", None),
        ("review/unlabelled/9/skip", None),
        ("review/unlabelled/1/grade", {"document": "nowhere", "grade": "1"}),
        ("review/unlabelled/1/grade", {"document": "evil", "grade": "4"}),
        ("review/unlabelled/1/grade", {"document": "evil", "grade": "x"}),
        ("review/unlabelled/1/grade", {}),
        ("review/unlabelled/1/mark", {"mark": "odd"}),
        ("review/unlabelled/1/add", {"document": "nowhere"}),
        ("review/unlabelled/1/odd", {}),
        ("review/unlabelled/7/note", {"document": "evil", "note": "x"}),
        ("review/unlabelled/7/reveal", {"document": "evil"}),
    ],
)
def test_what_is_not_there(client: TestClient, path: str, data: dict[str, str] | None) -> None:
    answer = client.get(f"/secret/{path}") if data is None else client.post(f"/secret/{path}", data=data)
    assert answer.status_code == 404
    assert client.session_under_test.answers == 0  # type: ignore[attr-defined]


def test_a_request_that_is_too_long(client: TestClient) -> None:
    assert client.post("/secret/review/unlabelled/1/note", data={"note": "x" * 1_100_000}).status_code == 413


def test_without_javascript_links_and_forms_do(client: TestClient) -> None:
    assert client.get("/secret/review/unlabelled").headers["location"] == "/secret/review/unlabelled/1"
    assert "/secret/review/unlabelled" in client.get("/secret/").text
    for _ in range(len(NASTY)):
        place = client.get("/secret/review/unlabelled").headers["location"]
        parsed = _Tags()
        parsed.feed(client.get(place).text)
        action = next(a["action"] for tag, a in parsed.tags if tag == "form" and a.get("id") == "grades")
        document = next(a["value"] for tag, a in parsed.tags if tag == "input" and a.get("name") == "document")
        assert client.post(str(action), data={"document": document, "grade": "1"}).status_code == 303
    assert "All 5 are answered and saved" in client.get("/secret/review/unlabelled").text
    found = client.get("/secret/review/unlabelled/1/search", params={"q": "refund"}).text
    assert "Long" in found
    assert "No document holds" in client.get("/secret/review/unlabelled/1/search", params={"q": "zzz"}).text
    assert "How to label" in client.get("/secret/help").text
    assert "All saved" in client.post("/secret/finish").text
    assert client.post("/secret/undo", data={"back": "/review/unlabelled/1"}).status_code == 303
    assert client.session_under_test.progress("unlabelled").left == 1  # type: ignore[attr-defined]


def test_names_and_ports() -> None:
    assert reviewer_name("  Ana Müller ") == "Ana Müller"
    for wrong in ("", "a\nb", "x" * 81):
        with pytest.raises(KbevalError, match=r"--reviewer: expected a name"):
            reviewer_name(wrong)
    with listen(0) as taken:
        taken.listen()
        assert taken.getsockname()[0] == "127.0.0.1"
        with pytest.raises(KbevalError, match="expected a free port, found address already in use"):
            listen(taken.getsockname()[1])
