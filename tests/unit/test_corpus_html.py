"""What is left of an HTML page."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

import pytest

from kbeval.corpus.html import read_html
from kbeval.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from kbeval.model import Document

PAGE = """<!doctype html>
<html lang="en"><head>
<title>Refunds &amp; returns</title>
<META NAME="Description" content="How money
  goes back.">
<style>p { color: red }</style>
</head><body>
<header><nav><a href="/">Home</a> | <a href="/help">Help</a></nav><h1>Refunds</h1></header>
<p>A <b>cashier</b> may give back <a href="https://example.org/limits">fifty&nbsp;pounds</a> &lt; once a day.</p>
<script>var secret = "never shown";</script>
<h2>By card</h2>
<table><tr><th>Card</th><th>Days</th></tr><tr><td>Visa</td><td>2</td></tr></table>
<ul><li>snake_case * kept</li><li>two</li></ul>
<pre><code># not a heading
refund --all</code></pre>
<img src="till.png" alt="The till's keys"><button>Share</button>
<footer>Imprint</footer>
</body></html>"""


def read(folder: Path, content: str | bytes) -> Document:
    file = folder / "page.html"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_html(file, "page")


def test_a_page_is_its_words_and_their_shape(tmp_path: Path) -> None:
    page = read(tmp_path, PAGE)
    assert (page.id, page.filename, page.title, page.description) == (
        "page", "page.html", "Refunds & returns", "How money goes back."
    )  # fmt: skip
    assert (
        page.text
        == """# Refunds

A cashier may give back fifty pounds < once a day.

## By card

| Card | Days |
| --- | --- |
| Visa | 2 |

- snake_case * kept
- two

```
# not a heading
refund --all
```

The till's keys"""
    )


def test_the_main_part_of_a_page_is_all_that_counts(tmp_path: Path) -> None:
    page = read(tmp_path, "<h1>Site</h1><main><h1>Article</h1>Text<aside>Note</aside></main><div>Related</div>")
    assert (page.title, page.text) == ("Site", "# Article\n\nText\n\nNote")
    assert read(tmp_path, "<main> </main><p>Elsewhere").text == "Elsewhere"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("<p>naïve".encode(), "naïve"),
        ("<p>naïve €".encode("cp1252"), "naïve €"),
        (b"<meta charset=iso-8859-1>\x80 5", "€ 5"),  # browsers take it for Windows-1252, which has the sign
        ("<meta charset=shift_jis><p>日本".encode("shift_jis"), "日本"),
        ('<meta http-equiv="Content-Type" content="text/html; charset=koi8-r">Да'.encode("koi8-r"), "Да"),
        ("\ufeff<meta charset=koi8-r><p>Да".encode(), "Да"),  # the mark wins
        ("<p>Да".encode("utf-16"), "Да"),
        ("<meta charset=utf-16><p>Да".encode(), "Да"),  # it cannot be, or its declaration could not be read
        ("<meta charset=klingon><p>Да".encode(), "Да"),
        (b"<meta charset=utf-8><p>one \xff bad byte", "one \ufffd bad byte"),
    ],
)
def test_encodings(tmp_path: Path, content: bytes, text: str) -> None:
    assert read(tmp_path, content).text == text


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("", ""),
        ("just words", "just words"),
        ("</p><b>a<i>b</b>c</i", "abc"),
        ("<p>one<p>two<table><tr><td>three", "one\n\ntwo\n\n| three |\n| --- |"),
        ("<!-- never closed <p>x", ""),
        ("&nosuch; &#x41; &copy", "&nosuch; A ©"),
        ("a\0b", "a\ufffdb"),
    ],
)
def test_a_broken_page_is_still_text(tmp_path: Path, content: str, text: str) -> None:
    assert read(tmp_path, content).text == text


def test_a_page_too_deep_to_be_walked_keeps_its_words(tmp_path: Path) -> None:
    assert read(tmp_path, "<div>" * 5000 + "deep" + "</div>" * 5000 + "<p>after").text.split() == ["deep", "after"]


def test_what_cannot_be_read_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"gone\.html: expected a readable file, found no such file"):
        read_html(tmp_path / "gone.html", "gone")
    real = builtins.__import__

    def without_it(name: str, *arguments: Any) -> Any:
        if name == "markdownify":
            raise ImportError(name)
        return real(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without_it)
    with pytest.raises(InputError, match=r"page\.html: expected the packages of the extra html: pip install 'kbeval\["):
        read(tmp_path, "x")
