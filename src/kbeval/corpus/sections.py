"""What stands under which heading, in Markdown: by markdown-it, so that a ``#`` in a code block is no heading."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markdown_it import MarkdownIt

_LINE_END = re.compile(r"\r\n?|\n")  # as markdown-it counts lines
_HTML_HEADING = re.compile(r"<h([1-6])\b[^>]*>(.*?)</h\1\s*>", re.I | re.S)
_TAG = re.compile(r"<[^>]*>")


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and the text up to the next heading of any level.

    Attributes:
        span: (start, end) in characters, the heading's own line included.
        above: the headings that it stands under, outermost first, without its own.
        continued: the same with its own.
    """

    span: tuple[int, int]
    above: tuple[str, ...]
    continued: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Heading:
    level: int
    text: str
    start: int
    end: int


def sections(text: str) -> Iterator[Section]:
    """The sections of a Markdown text, in order, which together are all of it.

    A heading is ``# x``, one underlined by ``===`` or ``---``, or an HTML ``<h1>`` to ``<h6>`` that begins a line;
    never one inside a list, a quotation or code. A heading with nothing under it but the next heading begins the
    section of that one.
    """
    start = 0
    above: tuple[str, ...] | None = None
    path: list[_Heading] = []
    end = 0
    for heading in _headings(text):
        if text[end : heading.start].strip():
            yield Section((start, heading.start), above or (), tuple(each.text for each in path))
            start, above = heading.start, None
        path = [each for each in path if each.level < heading.level]
        if above is None:
            above = tuple(each.text for each in path)
        path.append(heading)
        end = heading.end
    yield Section((start, len(text)), above or (), tuple(each.text for each in path))


def _headings(text: str) -> Iterator[_Heading]:
    tokens = _parser().parse(text)
    lines = [0, *(match.end() for match in _LINE_END.finditer(text)), len(text)]
    for place, token in enumerate(tokens):
        if token.level or token.map is None:
            continue
        first, last = token.map
        if token.type == "heading_open":
            words = " ".join(tokens[place + 1].content.split())
            yield _Heading(int(token.tag[1]), words, lines[first], lines[min(last, len(lines) - 1)])
        elif token.type == "html_block":
            block = text[lines[first] : lines[min(last, len(lines) - 1)]]
            for match in _HTML_HEADING.finditer(block):
                before = block.rfind("\n", 0, match.start()) + 1
                if not block[before : match.start()].strip():
                    words = " ".join(_TAG.sub(" ", match[2]).split())
                    yield _Heading(int(match[1]), words, lines[first] + before, lines[first] + match.end())


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").disable("inline")  # headings are found without what stands in them
