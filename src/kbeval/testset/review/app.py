"""The pages of a review: rendered here, filled in by ``Session``. They work without JavaScript."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from kbeval.testset.review.guard import Guard
from kbeval.testset.review.queues import AGREEMENT, ALL, DISPUTED, MISSES, QUEUES, UNLABELLED
from kbeval.testset.review.session import Place

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

    from kbeval.testset.review.passages import Passages
    from kbeval.testset.review.session import Session

_HERE = Path(__file__).parent
SEARCH_RESULTS = 20

RUBRIC = (
    ("Nothing to do with it", "It is about something else."),
    ("Related, no answer", "The right topic, but whoever asks knows no more than before."),
    ("Answers partly", "Part of the answer is in it, or the answer for another case."),
    ("Answers fully", "Whoever asks needs nothing else."),
)
"""What each grade means, in a few words and in a sentence."""

TITLES = {
    DISPUTED: ("In doubt", "Labels that a model disputes or was not sure of, and near-copies of right answers."),
    AGREEMENT: ("Random sample", "Drawn by lot, to measure how far people and the model agree. Grade without looking."),
    MISSES: ("First answers", "What an engine put first and the labels do not know. Does it answer the question?"),
    UNLABELLED: ("Not labelled yet", "Questions of which nobody has said what answers them."),
    ALL: ("Every question", "Every question with every document that was named for it."),
}


@dataclass(frozen=True)
class Reviewing:
    """What the pages need.

    Attributes:
        session: the reviewer's work.
        passages: what to read first, and the search.
        token: the key in the address.
        port: where it listens.
        touched: called after every answer.
    """

    session: Session
    passages: Passages
    token: str
    port: int
    touched: Callable[[], None] = lambda: None


def make_app(reviewing: Reviewing) -> ASGIApp:
    """The ASGI app. Every path begins with the token; see ``Guard``."""
    pages = _Pages(reviewing)
    inside = [
        Route("/", pages.start),
        Route("/help", pages.help),
        Route("/finish", pages.finish, methods=["POST"]),
        Route("/undo", pages.undo, methods=["POST"]),
        Route("/review/{queue}", pages.enter),
        Route("/review/{queue}/{task:int}", pages.show),
        Route("/review/{queue}/{task:int}/skip", pages.skip),
        Route("/review/{queue}/{task:int}/search", pages.search),
        Route("/review/{queue}/{task:int}/{what}", pages.answer, methods=["POST"]),
        Mount("/static", StaticFiles(directory=_HERE / "static")),
    ]
    app = Starlette(routes=[Mount(f"/{reviewing.token}", routes=inside)])
    return Guard(app, token=reviewing.token, port=reviewing.port)


class _Pages:
    def __init__(self, reviewing: Reviewing) -> None:
        self._on = reviewing
        self._session = reviewing.session
        self._base = f"/{reviewing.token}"
        self._templates = Environment(
            loader=FileSystemLoader(_HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )

    # Pages ------------------------------------------------------------------------------------------------------

    async def start(self, request: Request) -> Response:  # noqa: ARG002
        """The queues, and how far each is."""
        return self._render("start.html", queues=self._queues(), finished=False)

    async def enter(self, request: Request) -> Response:
        """The first open question of a queue."""
        queue = request.path_params["queue"]
        if queue not in self._session.queues:
            return self._missing()
        place = self._session.next_task(Place(queue, -1))
        if place is None:
            return self._render("done.html", **self._named(queue))
        return self._to(self._path(place))

    async def show(self, request: Request) -> Response:
        """A document of a question."""
        place = self._place(request)
        task = self._session.task(place)
        if task is None or (place.document and not 0 <= place.document < len(task.documents)):
            return self._missing()
        return self._render("question.html", **self._question(place))

    async def skip(self, request: Request) -> Response:
        """On to the next open question; this one stays open."""
        place = self._place(request)
        if self._session.task(place) is None:
            return self._missing()
        return self._onward(place, self._session.next_task(place))

    async def search(self, request: Request) -> Response:
        """Looks for a document that nobody named."""
        place = self._place(request)
        task = self._session.task(place)
        if task is None:
            return self._missing()
        words = request.query_params.get("q", "").strip()
        found = await run_in_threadpool(self._on.passages.search, words, SEARCH_RESULTS) if words else []
        results = [
            {
                "id": document,
                "title": self._session.material.documents[document].title or document,
                "text": self._on.passages.first(document, words).text,
                "there": document in task.documents,
            }
            for document in found
        ]
        return self._render(
            "search.html",
            words=words,
            results=results,
            question=self._session.material.questions[task.query].text,
            here=self._path(place),
            address=self._address(place),
            document=place.document,
            **self._named(place.queue),
        )

    async def help(self, request: Request) -> Response:  # noqa: ARG002
        """The keys, for browsers without JavaScript."""
        return self._render("help.html")

    async def finish(self, request: Request) -> Response:  # noqa: ARG002
        """Everything into labels.jsonl, and a word of thanks."""
        await run_in_threadpool(self._session.fold)
        return self._render("start.html", queues=self._queues(), finished=True)

    # Answers ----------------------------------------------------------------------------------------------------

    async def undo(self, request: Request) -> Response:
        """One step back, and to where it was."""
        form = await _form(request)
        place = await run_in_threadpool(self._session.undo)
        self._on.touched()
        if place is not None:
            return self._to(self._path(place))
        back = form.get("back", "")
        return self._to(back if back.startswith("/review/") else "/")

    async def answer(self, request: Request) -> Response:
        """A grade, a note, a mark, a document to add, or the wish to look."""
        place, what = self._place(request), request.path_params["what"]
        try:
            form = await _form(request)
            document = form.get("document", "")
            after = await run_in_threadpool(self._take, place, what, document, form)
        except ValueError:
            return self._missing()
        self._on.touched()
        if what == "note" and form.get("quiet"):
            return PlainTextResponse("")
        return self._onward(place, after)

    def _take(self, place: Place, what: str, document: str, form: dict[str, str]) -> Place | None:
        """Hands an answer to the session; returns where to go on."""
        session = self._session
        if what == "grade":
            session.grade(place, document, _grade(form.get("grade", "")), form.get("note"))
            return session.next_open(place)
        if what == "note":
            session.note(place, document, form.get("note", "").strip())
            return place
        if what == "mark":
            session.mark(place, form.get("mark", ""))
            task = session.task(place)
            return place if task is None or session.mark_of(task.query) is None else session.next_task(place)
        if what == "reveal":
            session.reveal(place, document)
            return place
        if what == "add":
            return session.add(place, document)
        raise ValueError(what)

    # ------------------------------------------------------------------------------------------------------------

    def _question(self, place: Place) -> dict[str, Any]:
        session, material = self._session, self._session.material
        queue = session.queues[place.queue]
        task = queue.tasks[place.task]
        question = material.questions[task.query]
        documents = [
            {
                "id": document,
                "title": material.documents[document].title or document,
                "grade": session.grade_of((task.query, document))
                if session.is_answered(place.queue, (task.query, document))
                else None,
                "path": self._path(Place(place.queue, place.task, number)),
                "current": number == place.document,
            }
            for number, document in enumerate(task.documents)
        ]
        return {
            **self._named(place.queue),
            "question": question,
            "number": place.task + 1,
            "count": len(queue.tasks),
            "documents": documents,
            "shown": self._document(place, task.documents[place.document]) if task.documents else None,
            "place": place,
            "address": self._address(place),
            "here": self._path(place),
            "mark": session.mark_of(task.query),
            "rubric": RUBRIC,
            "level": material.level,
            "previous": self._path(Place(place.queue, place.task - 1)) if place.task else None,
            "next": self._path(Place(place.queue, place.task + 1)) if place.task + 1 < len(queue.tasks) else None,
            "undo": session.can_undo,
        }

    def _document(self, place: Place, identifier: str) -> dict[str, Any]:
        session, material = self._session, self._session.material
        task = session.queues[place.queue].tasks[place.task]
        pair = (task.query, identifier)
        document, question = material.documents[identifier], material.questions[task.query]
        revealed = session.is_revealed(pair)
        return {
            "id": identifier,
            "title": document.title or identifier,
            "description": document.description,
            "passage": self._on.passages.first(identifier, question.text, question.gold_chunks.values()),
            "words": len(document.text.split()),
            "grade": session.grade_of(pair) if session.is_answered(place.queue, pair) else None,
            "note": session.note_of(pair),
            "revealed": revealed,
            "others": session.others(pair) if revealed else [],
            "found": material.found.get(task.query, {}).get(identifier, ()) if revealed else (),
            "gold": revealed and question.gold_documents.get(identifier, 0) > 0,
            "twin": revealed and identifier in material.twins.get(task.query, ()),
        }

    def _queues(self) -> list[dict[str, Any]]:
        return [self._named(name) for name in QUEUES if name in self._session.queues]

    def _named(self, queue: str) -> dict[str, Any]:
        title, words = TITLES[queue]
        return {
            "queue": queue,
            "queue_title": title,
            "queue_words": words,
            "progress": self._session.progress(queue),
        }

    def _place(self, request: Request) -> Place:
        number = request.query_params.get("d", "1")
        document = int(number) - 1 if number.isascii() and number.isdigit() and len(number) < 9 else -1
        return Place(request.path_params["queue"], request.path_params["task"] - 1, document)

    def _path(self, place: Place) -> str:
        path = f"/review/{place.queue}/{place.task + 1}"
        return f"{path}?{urlencode({'d': place.document + 1})}" if place.document > 0 else path

    def _address(self, place: Place) -> dict[str, str]:
        """Where the forms of a place go."""
        stem, tail = f"{self._base}/review/{place.queue}/{place.task + 1}", f"?d={place.document + 1}"
        return {what: f"{stem}/{what}{tail}" for what in ("grade", "note", "mark", "reveal", "add", "skip", "search")}

    def _onward(self, place: Place, after: Place | None) -> Response:
        return self._to(f"/review/{place.queue}" if after is None else self._path(after))

    def _to(self, path: str) -> Response:
        return RedirectResponse(self._base + path, status_code=303)

    def _missing(self) -> Response:
        return self._render("missing.html", status=404)

    def _render(self, template: str, status: int = 200, **values: Any) -> Response:
        page = self._templates.get_template(template).render(base=self._base, reviewer=self._session.reviewer, **values)
        return HTMLResponse(page, status_code=status)


def _grade(text: str) -> int:
    if text not in ("0", "1", "2", "3"):
        raise ValueError(text)
    return int(text)


async def _form(request: Request) -> dict[str, str]:
    """The fields of a form, the first value of each."""
    body = (await request.body()).decode("utf-8", "replace")
    return {name: values[0] for name, values in parse_qs(body, keep_blank_values=True, max_num_fields=20).items()}
