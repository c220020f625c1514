"""A document from an HTML page: its text as Markdown, so that headings, tables and code stay what they are."""

from __future__ import annotations

import codecs
import re
from functools import cache
from typing import TYPE_CHECKING

from kbeval.errors import InputError
from kbeval.model import Document

if TYPE_CHECKING:
    from pathlib import Path

    from bs4 import BeautifulSoup, Tag
    from markdownify import MarkdownConverter

# What a page holds besides what it says. A page's own header stays: it may hold the only heading.
_NOT_TEXT = (
    "head, script, style, template, noscript, svg, iframe, object, canvas, nav, [role=navigation], [role=contentinfo], "
    "body > footer, button, select, input, textarea, dialog, [hidden], [aria-hidden=true]"
)
_MAIN = "main, [role=main]"
_BLOCKS = ("address", "aside", "details", "fieldset", "figure", "footer", "form", "header", "main", "summary")
_PLAIN = ["a", "b", "strong", "i", "em", "del", "s"]  # what is said is kept, and no mark around it


def read_html(file: Path, identifier: str) -> Document:
    """Reads one page. A broken one is read as browsers read it, and has the text that they would show.

    The title is ``<title>``, else the first ``<h1>``; the description that of ``<meta name="description">``. The text
    is that of ``<main>`` where there is one, else of the body; without scripts, styles, forms, navigation and the
    page's footer, and of links and pictures only the words. Headings become lines with ``#``.

    The encoding is that of the byte order mark, else the one declared in the page, else UTF-8 where the bytes are
    that, else Windows-1252.

    Raises:
        InputError: the file cannot be read, or the extra ``html`` is not installed.
    """
    try:
        from bs4 import BeautifulSoup
        from markdownify import MarkdownConverter  # noqa: F401 - to know that it is there
    except ImportError:
        raise InputError(
            file, expected="the packages of the extra html: pip install 'kbeval[html]'", found="none"
        ) from None
    try:
        data = file.read_bytes()
    except OSError as error:
        raise InputError(file, expected="a readable file", found=str(error.strerror).lower()) from error
    page = BeautifulSoup(_decoded(data), "lxml")
    title = _words(page.title) or _words(page.find("h1"))
    meta = page.find("meta", attrs={"name": re.compile("^description$", re.I)})
    description = str(meta.get("content", "")) if meta else ""
    return Document(
        id=identifier,
        text=_text(page),
        title=title,
        description=" ".join(description.split()),
        filename=file.name,
    )


def _text(page: BeautifulSoup) -> str:
    for element in page.select(_NOT_TEXT):
        element.extract()
    main = page.select_one(_MAIN)
    part = main if main is not None and _words(main) else page
    try:
        text = str(_converter().convert_soup(part))
    except RecursionError:  # elements a thousand deep: the words all the same
        text = part.get_text("\n")
    text = re.sub(r"[ \t\u00a0]+$", "", text.replace("\r\n", "\n"), flags=re.M).replace("\u00a0", " ")
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def _words(element: Tag | None) -> str:
    return " ".join(element.get_text(" ").split()) if element is not None else ""


@cache
def _converter() -> MarkdownConverter:
    from markdownify import MarkdownConverter

    class Converter(MarkdownConverter):
        """Pictures as their alternative text, and every element that stands on lines of its own on such lines."""

        def convert_img(self, el: Tag, text: str, parent_tags: set[str]) -> str:  # noqa: ARG002 - the library's call
            return str(el.get("alt") or "")

    for name in _BLOCKS:
        setattr(Converter, f"convert_{name}", vars(MarkdownConverter)["convert_div"])
    return Converter(
        heading_style="atx",
        bullets="-",
        strip=_PLAIN,
        table_infer_header=True,
        escape_asterisks=False,
        escape_underscores=False,
    )


def _decoded(data: bytes) -> str:
    """The text of a page, by the rules of https://encoding.spec.whatwg.org, in short."""
    from bs4.dammit import EncodingDetector

    rest, marked = EncodingDetector.strip_byte_order_mark(data)
    if marked:
        return rest.decode(marked, errors="replace")
    declared = _known(EncodingDetector.find_declared_encoding(data, is_html=True))
    if declared is None:
        try:
            return data.decode()
        except UnicodeDecodeError:
            declared = "cp1252"
    return data.decode(declared, errors="replace")


def _known(declared: str | None) -> str | None:
    try:
        name = codecs.lookup(declared).name if declared else None
    except (LookupError, ValueError):
        return None
    if name in ("iso8859-1", "ascii"):
        return "cp1252"  # what pages that claim these are written in
    # A page whose declaration can be read byte by byte is not in an encoding of two bytes a character.
    return None if name is None or name.startswith(("utf-16", "utf-32")) else name
