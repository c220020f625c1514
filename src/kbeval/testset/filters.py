"""What a written question must not be. Each filter says a word to count by, and what it saw.

They look at wording alone. They were tried on questions that people wrote (the project's own) and that a careful
model wrote (docs-qa): what they reject of those is pinned in the tests, and is nearly nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kbeval.testset.overlap import content_stems

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_WORDS = 60
RUN = 5
QUOTED_SHARE = 0.2
QUOTED_RUN = 8
NEAR_DUPLICATE = 0.9
"""The share of content words in common from which two questions are one: with fewer than twenty such words, all but
the order of the words and what questions are built of must be the same."""

_WORD = re.compile(r"\w+")
_TOKEN = re.compile(r"\w+(?:['._/:-]+\w+)*")  # claude-3-haiku is one word, and so is stop_reason
_APOSTROPHES = str.maketrans({"’": "'", "‘": "'"})

# What only somebody who looks at the passage can mean.
_PASSAGE = r"(?:passage|excerpt|snippet|paragraph)"
_TEXT = r"(?:document|text|passage|excerpt|snippet|paragraph|article|section|chunk|context|page|material|content)"
_REFERS = re.compile(
    rf"\b(?:the|this|that) {_PASSAGE}\b"
    rf"|\b(?:the|this|that) (?:given|provided|supplied|above|following|preceding|present|source|original) {_TEXT}\b"
    rf"|\b(?:the|this|that) {_TEXT} (?:above|below|provided|given|here|says?|states?|mentions?|describes?|explains?)\b"
    rf"|\b(?:according to|based on|as per|per|from|in|by|does|do|did|is|are|of) (?:the|this|that) (?P<noun>{_TEXT})\b"
    rf"|\bin (?:the )?{_TEXT} (?:above|provided|given)\b"
    r"|\b(?:described|mentioned|stated|shown|listed|given|discussed|outlined) (?:above|here|below)\b"
    r"|\bthe (?:text|author|writer) (?:above|says?|states?|mentions?|describes?|means?|wants?)\b"
    r"|\bthe author\b",
    re.IGNORECASE,
)

_INTERROGATIVE = (
    r"(?:what|which|who|whom|whose|when|where|why|how|whats|hows|wheres|whos"
    r"|(?:is|are|am|was|were|do|does|did|can|could|will|would|shall|should|may|might|must|has|have|had)(?:n'?t)?)"
)
# At the start of a sentence or of one of its clauses: "I can't log in, what now".
_ASKS = re.compile(
    rf"(?:^|[,;:.!–—-]\s*|\b(?:and|but|so|or|tell me|know|see|wonder(?:ing)?|idea|sure|ask)\s+){_INTERROGATIVE}\b",
    re.IGNORECASE,
)
# Somebody speaks of himself, or wants something: a customer's message needs no question mark.
_WANTS = re.compile(
    r"\b(?:i|i'm|im|i've|ive|i'd|my|mine|me|we|we're|we've|our|ours|us|please|pls|plz|help|thanks|thx)\b"
    r"|^\W*(?:tell|show|explain|list|describe|give|walk|need|looking|trying|want|compare|find|hi|hello)\b",
    re.IGNORECASE,
)
_SENTENCE_ASKED = re.compile(r"[^.?!\n]*\?+")
_NUMBERED = re.compile(r"^\s*(?:\d+[.)]|[-*•])\s+\S", re.MULTILINE)

# What sentences are built of; words that two of the languages share are in neither list.
_ENGLISH = frozenset(
    word
    for words in (
        "the and or of to for with from at by is are be been do does did can could will would should have has had",
        "what which who when where why how if not it its this that these those there you we they she my your our",
        "their but than then after before into out about any some all more much many whats i'm don't can't",
    )
    for word in words.split()
)
_OTHERS = frozenset(
    word
    for words in (
        "der das den dem ein eine einen einem und oder ist sind wie wann warum kann ich wir nicht mit für auf wenn",
        "le les des du est sont comment quand pourquoi peut puis je nous une pour dans avec sur mon ma mes ne pas si",
        "el los las del qué cómo cuándo cuánto puedo puede mi una para por si es está desde donde dónde",
        "il lo gli della di che quando perché posso può sono una mio mia nel alla",
        "het een hoe wanneer waarom kan ik wij niet met voor mijn als zijn naar op",
        "os um uma como quando quanto posso pode meu minha não para com é do da no",
    )
    for word in words.split()
)
_LETTERS_OF_LATIN = "\u024f"  # the last of Unicode's Latin letters with marks; Greek, Cyrillic, Han lie beyond
_ENGLISH_SHARE = 0.15


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a question is not taken: a word to count by, and a line to read."""

    reason: str
    detail: str


def wording(question: str, source: str, *, max_words: int = MAX_WORDS) -> Rejection | None:
    """What is wrong with a question by itself and beside the text that it was written from; None where nothing is."""
    words = _WORD.findall(question)
    if not words:
        return Rejection("empty", "no word in it")
    if len(question.split()) > max_words:
        return Rejection("too_long", f"{len(question.split())} words, and {max_words} are the most")
    if not is_question(question):
        return Rejection("not_a_question", "nothing is asked or wanted")
    if (count := questions_in(question)) > 1:
        return Rejection("several", f"{count} questions in one")
    if found := refers(question, source):
        return Rejection("refers", f"{found!r} means something only beside the text")
    if other_language(question, source):
        return Rejection("language", "in another language than the text")
    if found := quoted(question, source):
        return Rejection("quotes", f"{found!r} is the text's own")
    return None


def is_question(text: str) -> bool:
    """Whether something is asked or wanted: a question mark, a question's word order, or somebody with a problem."""
    text = text.translate(_APOSTROPHES)
    return "?" in text or _ASKS.search(text) is not None or _WANTS.search(text) is not None


def questions_in(text: str) -> int:
    """How many sentences of three words or more end with a question mark, or items a list has; at least 1."""
    asked = sum(len(_WORD.findall(sentence)) >= 3 for sentence in _SENTENCE_ASKED.findall(text))
    return max(asked, len(_NUMBERED.findall(text)), 1)


def refers(question: str, source: str) -> str | None:
    """The words by which a question points at the text that it was written from; None where it does not.

    A noun that the text uses itself ("does the document need a signature" about a contract) is its subject.
    """
    subjects = {word.lower() for word in _WORD.findall(source)}
    for match in _REFERS.finditer(question):
        noun = match["noun"]
        if noun is None or noun.lower() not in subjects:
            return match[0]
    return None


def quoted(question: str, source: str) -> str | None:
    """The longest run of words that the question takes over from its text, if that makes it a quotation; else None.

    It is one where a fifth of the question's runs of five words are the text's, or where eight words in a row are: a
    long question may hold the name of a thing ("time to first token (TTFT)") and quotes nothing by it.
    """
    words, there = _tokens(question), _tokens(source)
    runs = {tuple(there[i : i + RUN]) for i in range(len(there) - RUN + 1)}
    taken = [tuple(words[i : i + RUN]) in runs for i in range(len(words) - RUN + 1)]
    if not any(taken):
        return None
    # Five-word runs that follow each other may each be from another place: that is a quotation all the same.
    longest, length = 0, 0
    where = 0
    for i, hit in enumerate(taken):
        length = length + 1 if hit else 0
        if length > longest:
            longest, where = length, i - length + 1
    if sum(taken) / len(taken) < QUOTED_SHARE and longest + RUN - 1 < QUOTED_RUN:
        return None
    return " ".join(words[where : where + longest + RUN - 1])


def _tokens(text: str) -> list[str]:
    return [word.lower() for word in _TOKEN.findall(text.translate(_APOSTROPHES))]


def other_language(question: str, source: str) -> bool:
    """Whether the text is English and the question is not, told by its script and by the words that join sentences.

    Other languages that are told: German, French, Spanish, Italian, Dutch, Portuguese, and every other script. Texts
    that are not English are not judged.
    """
    there = _tokens(source)
    if sum(word in _ENGLISH for word in there) < _ENGLISH_SHARE * len(there):
        return False
    letters = [character for character in question if character.isalpha()]
    if sum(character > _LETTERS_OF_LATIN for character in letters) * 2 > len(letters):
        return True
    words = _tokens(question)
    foreign = sum(word in _OTHERS for word in words)
    return foreign >= 2 and foreign > sum(word in _ENGLISH for word in words)


class Duplicates:
    """Finds the question that says the same as another, in other order or with other small words.

    Args:
        known: (id, text) of the questions that are there already.
    """

    def __init__(self, known: Iterable[tuple[str, str]] = ()) -> None:
        self._texts: dict[str, str] = {}
        self._stems: dict[str, frozenset[str]] = {}
        self._with: dict[str, set[str]] = {}
        for name, text in known:
            self.add(name, text)

    def add(self, name: str, text: str) -> None:
        """Takes a question in."""
        self._texts.setdefault(_plain(text), name)
        self._stems[name] = stems = content_stems(text)
        for stem in stems:
            self._with.setdefault(stem, set()).add(name)

    def find(self, text: str) -> tuple[str, str] | None:
        """The (id, how) of a question that is the same or nearly; None where there is none."""
        if same := self._texts.get(_plain(text)):
            return same, "the same words"
        stems = content_stems(text)
        if len(stems) < 3:  # too little to tell "when is the refund" from "can I have a refund"
            return None
        shared: dict[str, int] = {}
        for stem in stems:
            for name in self._with.get(stem, ()):
                shared[name] = shared.get(name, 0) + 1
        for name in sorted(shared):
            alike = shared[name] / (len(stems) + len(self._stems[name]) - shared[name])
            if alike >= NEAR_DUPLICATE:
                return name, f"{alike:.0%} of the content words in common"
        return None


def _plain(text: str) -> str:
    return " ".join(_WORD.findall(text.lower()))
