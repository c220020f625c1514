"""report.html in a real browser: opened from disk, searched, filtered, read by keyboard."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page
    from tests.end_to_end.conftest import Kbeval

HOSTILE = (
    "</script><script>document.title='owned'</script>"
    "<!--<svg onload=\"document.title='owned'\">'\u202e\u05d0\u2028&amp;"
)
PASSAGE = (
    "A cashier may give money back up to fifty pounds without asking and must "
    "write down the reason in the book of the day."
)
DOCUMENTS = {
    "refunds": PASSAGE,
    "copy": PASSAGE + " It is the same in every branch.",
    "payouts": "Card takings arrive on the bank account.",
    "printer": HOSTILE + " <b>" + "x" * 100_000,
    "other": "Nothing to do with it.",
}
# Each query is a reason; the relevant document of all but one is refunds.
GOLD = {"absent": "ghost", "hostile": "printer"}
QUERIES = ("absent", "deep", "error", "first", "hostile", "judged", "never", "nothing", "tie", "twin", "unjudged")
# What run a returns, with scores; ranks beyond 2 are cut off by --depth 2.
RUN_A = {
    "absent": [("other", 2.0)],
    "deep": [("other", 3.0), ("payouts", 2.0), ("refunds", 1.0)],
    "first": [("refunds", 2.0), ("copy", 1.0)],
    "hostile": [("printer", 1.0)],
    "judged": [("payouts", 2.0), ("refunds", 1.0)],
    "never": [("other", 1.0)],
    "tie": [("zzz", 1.0), ("refunds", 1.0)],
    "twin": [("copy", 2.0), ("refunds", 1.0)],
    "unjudged": [("other", 2.0), ("refunds", 1.0)],
}
RUN_B = {query: [("refunds", 9.0), ("other", 8.0), ("copy", 7.0)] for query in QUERIES}
WHY_A = {
    "absent": [
        "gold not in the corpus",
        "gold below the cut-off (1 shown)",
        "gold in no list of this run",
        "beaten by an unjudged document",
    ],
    "deep": ["gold below the cut-off (rank 3)", "beaten by an unjudged document"],
    "error": ["engine error: " + "boom </script><b>\u202e"],
    "first": [],
    "hostile": [],
    "judged": ["beaten by a document judged not relevant"],
    "never": ["gold below the cut-off (1 shown)", "beaten by an unjudged document"],
    "nothing": ["nothing returned"],
    "tie": ["beaten by an unjudged document", "tied with the document above"],
    "twin": ["beaten by a near-duplicate of the gold", "beaten by an unjudged document"],
    "unjudged": ["beaten by an unjudged document"],
}


@pytest.fixture
def report(kbeval: Kbeval) -> Path:
    folder = kbeval.folder / "set"
    (folder / "qrels").mkdir(parents=True)
    lines = [{"_id": name, "title": f"{name} {HOSTILE}", "text": text} for name, text in DOCUMENTS.items()]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    asked = [{"_id": query, "text": f"about {query} {HOSTILE} money"} for query in QUERIES]
    (folder / "queries.jsonl").write_text("".join(json.dumps(line) + "\n" for line in asked))
    judged = "".join(f"{query}\t{GOLD.get(query, 'refunds')}\t1\n" for query in QUERIES)
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}judged\tpayouts\t0\n")
    for name, run in (("a<i>", RUN_A), ("b", RUN_B)):
        (folder / f"{name}.trec").write_text(
            "".join(
                f"{query} Q0 {document} {rank} {score} x\n"
                for query, hits in run.items()
                for rank, (document, score) in enumerate(hits, 1)
            )
        )
    sidecar = {
        "engine": {"name": "a", "type": "x"}, "k": 3, "corpus_hash": "x", "queries_hash": "x",
        "errors": {"error": "boom </script><b>\u202e"}, "latencies_ms": {"first": {"total": 12.5}},
    }  # fmt: skip
    (folder / "a<i>.json").write_text(json.dumps(sidecar))
    result = kbeval(
        "compare", "set/a<i>.trec", "set/b.trec", "--dataset", "set", "--depth", 2, "--force", "--out", "out"
    )
    assert result.code == 1, result.err  # an engine failed on a question
    return kbeval.folder / "out" / "report.html"


@pytest.fixture
def opened(browser: Browser, report: Path) -> Iterator[Callable[..., Page]]:
    """Opens the page from disk; afterwards nothing may have been asked for, said, or run that was data."""
    problems: list[str] = []
    requests: list[str] = []
    pages = []

    def open_page(width: int = 1280, scheme: str = "light") -> Page:
        page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(report.as_uri())
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        assert page.title() == "Which engine finds the right document"
        page.close()
    assert problems == []
    assert requests == [report.as_uri()] * len(pages)


def pick(page: Page, query: str) -> None:
    page.locator("#search").fill(f"about {query} ")
    page.locator(".question").get_by_text(f"about {query}").wait_for()


def test_why_each_question_was_lost(opened: Callable[..., Page]) -> None:
    page = opened()
    assert page.inner_text("#status") == "11 of 11 questions"
    for query, reasons in WHY_A.items():
        pick(page, query)
        found = page.locator(".run").first.locator(".why li").all_text_contents()
        assert sorted(found) == sorted(reasons), query
    assert page.locator(".question").text_content() == f"about unjudged {HOSTILE} money"


def test_moves_gold_and_texts(opened: Callable[..., Page]) -> None:
    page = opened()
    pick(page, "unjudged")
    second = page.locator(".run").nth(1)
    # a: other, refunds; b: refunds, other (cut at 2): refunds went up by one, other down by one.
    assert second.locator(".m").all_text_contents() == ["▲1", "▼1"]
    assert second.locator(".hit.gold").count() == 1
    page.locator("#reference").select_option("1")
    # Seen from b: other is up from 2 to 1 in a, refunds down from 1 to 2.
    assert page.locator(".run").first.locator(".m").all_text_contents() == ["▲1", "▼1"]
    pick(page, "twin")
    assert "≈ holds 100 % of a gold passage" in page.locator(".run").first.locator(".hit").first.inner_text()
    pick(page, "hostile")
    length = len(DOCUMENTS["printer"])
    assert page.locator(".goldbox").inner_text().endswith(f"the first 4,000 of {length:,} characters")
    page.locator(".hit").first.click()
    assert HOSTILE in (page.locator(".text").first.text_content() or "")


def test_filters_and_keyboard(opened: Callable[..., Page]) -> None:
    page = opened(width=390, scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator("#why").select_option(label="engine error")
    assert page.inner_text("#status") == "1 of 11 questions"
    page.locator("#filters button").click()
    page.get_by_text("11 of 11 questions").wait_for()
    page.locator("#wins").select_option(label="a<i> alone is best")
    # b never returns printer; everywhere else it has refunds first.
    assert page.inner_text("#status") == "1 of 11 questions"
    page.locator("#filters button").click()
    page.get_by_text("11 of 11 questions").wait_for()
    page.locator("#found").select_option(label="lost by every run")
    assert page.inner_text("#status") == "1 of 11 questions"  # absent
    page.locator("#filters button").click()
    page.get_by_text("11 of 11 questions").wait_for()
    page.locator("#order").select_option(label="by id")
    page.locator("#list").focus()
    for key, place in (("ArrowDown", 1), ("End", 10), ("ArrowUp", 9), ("Home", 0), ("j", 1), ("k", 0), ("j", 1)):
        page.keyboard.press(key)
        assert page.locator("#list").get_attribute("aria-activedescendant") == f"row-{place}"
    assert page.locator(".question").text_content() == f"about deep {HOSTILE} money"
    assert page.url.endswith("#q=deep")
    page.keyboard.press("/")
    page.keyboard.type("about never")
    assert page.inner_text("#status") == "1 of 11 questions"


def test_what_was_not_asked_is_lost_by_nobody(kbeval: Kbeval, browser: Browser) -> None:
    (kbeval.folder / "qrels.tsv").write_text(
        "query-id\tcorpus-id\tscore\n" + "".join(f"q{n}\tgold\t1\n" for n in range(6))
    )
    lists = {"half": {n: ["gold"] for n in range(3)}, "other": {n: ["wrong", "gold"] if n else [] for n in range(6)}}
    for name, found in lists.items():
        lines = [f"q{n} Q0 {d} {r} {9 - r} x\n" for n, of in found.items() for r, d in enumerate(of, 1)]
        (kbeval.folder / f"{name}.trec").write_text("".join(lines))
    sidecar = {
        "engine": {"name": "half", "type": "x"}, "k": 2, "corpus_hash": "x", "queries_hash": "x",
        "partial": {"of": 6, "queries": ["q0", "q1", "q2"]},
    }  # fmt: skip
    (kbeval.folder / "half.json").write_text(json.dumps(sidecar))
    made = kbeval("compare", "half.trec", "other.trec", "--qrels", "qrels.tsv", "--force", "--out", "out")
    assert made.code == 0, made.err
    page = browser.new_page()
    page.goto((kbeval.folder / "out" / "report.html").as_uri() + "#q=q4")
    expected = {
        "found": {"lost by half": 0, "lost by other": 1, "found by half alone": 1, "found by other alone": 0},
        "wins": {"half alone is best": 3, "other alone is best": 0, "they differ": 3, "all equal": 0},
    }
    for select, options in expected.items():
        for words, count in options.items():
            page.locator(f"#{select}").select_option(label=words)
            assert page.inner_text("#status") == f"{count} of 6 questions", words
        page.locator("#filters button").click()
        page.get_by_text("6 of 6 questions").wait_for()
    # A link to a question that a filter hides lifts the filter.
    page.locator("#found").select_option(label="lost by other")
    page.evaluate("location.hash = '#q=q5'")
    page.get_by_text("6 of 6 questions").wait_for()
    first = page.locator(".run").first
    assert "not asked" in first.inner_text()
    assert "MRR" not in first.inner_text()
    assert "half not asked" in page.locator("#list [aria-selected=true]").inner_text()
    # The focus stays where keys are heard, and on paper every table is open.
    page.locator(".hit").first.focus()
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.id") == "list"
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details:not([open])").count() > 0
    page.close()
