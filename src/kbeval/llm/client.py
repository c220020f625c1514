"""One call to a language model behind any server that speaks OpenAI's chat completions.

OpenRouter, OpenAI, Ollama (``http://localhost:11434/v1``) and vLLM do. When and how often a call is made is not
decided here (:mod:`kbeval.llm.calls`): the client repeats nothing by itself.
"""

from __future__ import annotations

import asyncio
import email.utils
import ipaddress
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kbeval.errors import KbevalError
from kbeval.llm.errors import (
    CallError,
    Fatal,
    Permanent,
    RateLimited,
    Refused,
    TimedOut,
    Transient,
    Unparsable,
    Unreachable,
)
from kbeval.secrets import scrub, well_formed
from kbeval.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

__all__ = [
    "Answer",
    "CallError",
    "ChatModel",
    "Fatal",
    "Permanent",
    "RateLimited",
    "Refused",
    "TimedOut",
    "TokenLogprob",
    "Transient",
    "Unparsable",
    "Unreachable",
    "estimated_tokens",
]

KEY_VARIABLES = ("OPENROUTER_API_KEY", "OPENAI_API_KEY")
"""Where a key is looked for, in this order."""

CHARACTERS_PER_TOKEN = 4
"""What English text comes to, roughly; used where a server does not count, and for estimates beforehand."""

TOP_LOGPROBS = 5

_QUOTE_LENGTH = 200
LONGEST_ANSWER = 20_000
"""Characters of an answer that are looked at: a question or a grade with its reason has some hundreds."""
MOST_TOKENS = 10**9
"""A count beyond this, or below 0, is none."""
_CONNECT_S = 10.0
_NO_KEY = "none"  # the openai client insists on a key; a local server without one ignores it


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """One token of an answer, with its natural log-probability and those of the likeliest at its place."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model said.

    Attributes:
        text: its words; may be empty.
        prompt_tokens, completion_tokens: as the server counts, or estimated from the characters where it does not.
        logprobs: token by token, None where they were not asked for or the server has none.
        finish_reason: as the server says it: ``stop``, ``length``, ...
        model: what the server says has answered, which may be more exact than what was asked for.
        structured: whether the server was held to the JSON schema.
    """

    text: str
    prompt_tokens: int
    completion_tokens: int
    logprobs: tuple[TokenLogprob, ...] | None = None
    finish_reason: str | None = None
    model: str | None = None
    structured: bool = False


def estimated_tokens(text: str) -> int:
    """About how many tokens a text is."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def api_key(base_url: str) -> tuple[str, str | None]:
    """The key for a server, and the variable that it is from (None: a server on this machine that needs none).

    Raises:
        KbevalError: there is none, and the server is not on this machine.
    """
    for variable in KEY_VARIABLES:
        if key := os.environ.get(variable, "").strip():
            return key, variable
    if is_loopback(base_url):
        return _NO_KEY, None
    raise KbevalError(
        f"[llm] {_host(base_url)} needs a key: set the environment variable {' or '.join(KEY_VARIABLES)} "
        "(to any text where your server asks for none)"
    )


def is_loopback(base_url: str) -> bool:
    """Whether an address is this machine's own, by its spelling: nothing is looked up."""
    host = urlsplit(base_url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _host(base_url: str) -> str:
    return urlsplit(base_url).hostname or base_url


class ChatModel:
    """A model behind a server. An asynchronous context manager: it closes its connections at the end.

    What a server turns out not to take (structured output, log-probabilities) is left out from then on, and the call
    that showed it is sent once more at once.

    Args:
        base_url: such as ``https://openrouter.ai/api/v1``.
        model: as the server spells it.
        timeout_s: seconds for a whole answer.
        concurrency: how many connections may be open at once.

    Raises:
        KbevalError: the address is none or holds a password, or there is no key (see :func:`api_key`).
    """

    def __init__(self, base_url: str, model: str, timeout_s: float = 60.0, *, concurrency: int = 8) -> None:
        import openai

        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise KbevalError("[llm] base_url: expected an address like https://host/v1, found something else")
        if parts.username is not None or parts.password is not None:
            raise KbevalError("[llm] base_url: expected an address without user and password, found one with")
        self.model = model
        self.host = parts.hostname if parts.port is None else f"{parts.hostname}:{parts.port}"
        self._key, self._variable = api_key(base_url)
        self._timeout_s = timeout_s
        self._openai = openai
        timeout = openai.Timeout(timeout_s, connect=min(timeout_s, _CONNECT_S))
        # A proxy of the environment's cannot reach this machine's own servers; and what is sent is for one address.
        sender = openai.DefaultAsyncHttpxClient(
            trust_env=not is_loopback(base_url), follow_redirects=False, timeout=timeout
        )
        self._client = openai.AsyncOpenAI(
            api_key=self._key, base_url=base_url.rstrip("/"), timeout=timeout, max_retries=0, http_client=sender
        )
        self._slots = asyncio.Semaphore(concurrency)
        self._unsupported: set[str] = set()

    async def __aenter__(self) -> ChatModel:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.close()

    @property
    def structured(self) -> bool:
        """Whether the server is held to a schema, as far as is known."""
        return "response_format" not in self._unsupported

    async def ask(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        schema: dict[str, Any],
        temperature: float = 0.0,
        logprobs: bool = False,
        max_tokens: int = 300,
    ) -> Answer:
        """Asks once.

        Args:
            messages: each with ``role`` and ``content``.
            schema: the JSON schema of the object that is wanted. A server without structured output answers freely:
                say in the messages what is wanted too, and read it by :mod:`kbeval.llm.parsing`.
            temperature: 0 for the likeliest answer.
            logprobs: whether to ask for log-probabilities.
            max_tokens: the longest answer.

        Raises:
            RateLimited, Transient, Permanent, Refused: this call gave no answer.
            Fatal: none will.
        """
        wanted: dict[str, dict[str, Any]] = {
            "response_format": {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "answer", "strict": True, "schema": schema},
                }
            },
            "logprobs": {"logprobs": True, "top_logprobs": TOP_LOGPROBS} if logprobs else {},
        }
        while True:
            extras: dict[str, Any] = {}
            for name, arguments in wanted.items():
                if name not in self._unsupported:
                    extras |= arguments
            length = "max_completion_tokens" if "max_tokens" in self._unsupported else "max_tokens"
            try:
                return await self._once(
                    messages,
                    structured="response_format" in extras,
                    temperature=temperature,
                    **{length: max_tokens},
                    **extras,
                )
            except _NotTaken as error:
                # Sent once more for each thing that can be left out, so this ends.
                self._unsupported.add(error.name)

    async def _once(self, messages: Sequence[Mapping[str, str]], *, structured: bool, **arguments: Any) -> Answer:
        openai = self._openai
        try:
            async with self._slots, asyncio.timeout(self._timeout_s):
                said: list[Any] = [dict(message) for message in messages]
                completion: Any = await self._client.chat.completions.create(
                    model=self.model, messages=said, **arguments
                )
        except (TimeoutError, openai.APITimeoutError):
            raise TimedOut(f"{self.host}: no answer within {self._timeout_s:g} s") from None
        except openai.APIStatusError as error:
            raise self._status(error.status_code, error.body, error.response.headers, arguments) from None
        except openai.APIConnectionError as error:
            cause = error.__cause__ or error
            unsent = "Connect" in type(cause).__name__ and "Error" in type(cause).__name__
            kind = Unreachable if unsent else Transient
            raise kind(f"{self.host}: {self._quoted(f'{type(cause).__name__}: {cause}')}") from None
        except (openai.OpenAIError, ValueError, TypeError, LookupError, AttributeError) as error:
            # Clients check little of what they parse: a body of the wrong shape fails somewhere inside them.
            raise Transient(f"{self.host}: answered with a malformed body ({type(error).__name__})") from None
        return self._read(completion, messages, structured, arguments)

    def _read(
        self, completion: Any, messages: Sequence[Mapping[str, str]], structured: bool, arguments: Mapping[str, Any]
    ) -> Answer:
        # OpenRouter reports what went wrong behind it in a body with status 200.
        said = getattr(completion, "error", None)
        choices = getattr(completion, "choices", None)
        if not said and isinstance(choices, list) and choices:
            said = getattr(choices[0], "error", None)
        if said:
            code = said.get("code") if isinstance(said, dict) else None
            raise self._status(code if isinstance(code, int) else 502, {"error": said}, {}, arguments)
        if not isinstance(choices, list) or not choices or getattr(choices[0], "message", None) is None:
            raise Transient(f"{self.host}: answered with a malformed body (no choices)")
        choice = choices[0]
        if not hasattr(choice.message, "content"):
            raise Transient(f"{self.host}: answered with a malformed body (a message that is no object)")
        text = choice.message.content
        text = well_formed(text[:LONGEST_ANSWER]) if isinstance(text, str) else ""
        usage = getattr(completion, "usage", None)
        sent = sum(estimated_tokens(message["content"]) for message in messages)
        prompt = _counted(getattr(usage, "prompt_tokens", None), sent)
        written = _counted(getattr(usage, "completion_tokens", None), estimated_tokens(text))
        refusal = getattr(choice.message, "refusal", None)
        ended = getattr(choice, "finish_reason", None)
        if refusal or ended == "content_filter":
            words = self._quoted(str(refusal)) if refusal else "its content filter stopped the answer"
            raise Refused(f"the model refused: {words}", prompt_tokens=prompt, completion_tokens=written)
        return Answer(
            text=text,
            prompt_tokens=prompt,
            completion_tokens=written,
            logprobs=_logprobs(choice),
            finish_reason=well_formed(ended) if isinstance(ended, str) else None,
            model=well_formed(named) if isinstance(named := getattr(completion, "model", None), str) else None,
            structured=structured,
        )

    def _status(
        self, status: int, body: object, headers: Mapping[str, str], arguments: Mapping[str, Any]
    ) -> CallError | Fatal | _NotTaken:
        """What an HTTP status and the words beside it mean for this call, and for all."""
        words, code, flagged = _said(body)
        low = words.lower()
        quoted = f"{self.host} answered {status}: {self._quoted(words) or 'nothing'}"
        if status in (400, 404, 422, 501) and (name := _not_taken(low, arguments)):
            return _NotTaken(name)
        if status == 403 and (flagged or "moderation" in low or "flagged" in low):
            return Refused(f"refused before the model: {quoted}")
        if 300 <= status < 400:
            # Not followed: the question and the key are for the address that the user named.
            there = urlsplit(headers.get("location", "")).netloc or "another address"
            return Fatal(f"[llm] base_url: {self.host} sends on to {printable(there)}: name the address that answers")
        if status in (401, 403):
            key = f"the key in {self._variable}" if self._variable else "the missing key"
            return Fatal(f"[llm] {key} is not accepted: {quoted}")
        if status == 402 or code == "insufficient_quota":
            return Fatal(f"[llm] no credit left: {quoted}")
        if status == 404 or (status == 400 and (code == "model_not_found" or _unknown_model(low))):
            return Fatal(f"[llm] model {self.model!r}, or the address, is not known: {quoted}")
        if status == 400 and "temperature" in low:
            return Fatal(f"[llm] model {self.model!r} does not take temperature {arguments['temperature']:g}: {quoted}")
        if status == 429:
            return RateLimited(quoted, retry_after(headers))
        if status in (408, 409, 425) or status >= 500:
            return Transient(quoted, retry_after(headers))
        return Permanent(quoted)

    def _quoted(self, text: str) -> str:
        """A server's words as one line of bounded length. Some repeat the key that they were sent."""
        text = text[:LONGEST_ANSWER]
        text = scrub(" ".join(text.replace(self._key, "***").split()) if self._variable else " ".join(text.split()))
        text = printable(text)
        return text if len(text) <= _QUOTE_LENGTH else text[:_QUOTE_LENGTH] + "..."


def _counted(tokens: object, estimate: int) -> int:
    """The server's count where it can be one, else the estimate."""
    return tokens if type(tokens) is int and 0 <= tokens <= MOST_TOKENS else estimate


class _NotTaken(Exception):  # noqa: N818
    """The server refuses something that can be left out."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def _not_taken(words: str, arguments: Mapping[str, Any]) -> str | None:
    if "max_tokens" in arguments and "max_completion_tokens" in words:
        return "max_tokens"
    if "logprobs" in arguments and "logprobs" in words:
        return "logprobs"
    marks = ("response_format", "json_schema", "structured output", "guided", "response format")
    if "response_format" in arguments and any(mark in words for mark in marks):
        return "response_format"
    return None


def _unknown_model(words: str) -> bool:
    return "model" in words and any(
        mark in words for mark in ("not a valid model", "does not exist", "not found", "unknown model", "no such model")
    )


def _said(body: object) -> tuple[str, object, bool]:
    """The server's own words, its code, and whether it says that the input was flagged."""
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        body = body["error"]
    if not isinstance(body, dict):
        return ("" if body is None else str(body)), None, False
    metadata = body.get("metadata")
    flagged = isinstance(metadata, dict) and "reasons" in metadata
    message = body.get("message", body.get("detail", body.get("error")))
    words = message if isinstance(message, str) else str(body)
    parameter = body.get("param")
    if isinstance(parameter, str) and parameter not in words:
        words = f"{words} ({parameter})"
    return words, body.get("code") or body.get("type"), flagged


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a server asks to wait: ``retry-after-ms``, or ``Retry-After`` in seconds or as an HTTP date.

    https://www.rfc-editor.org/rfc/rfc9110#name-retry-after. None where there is neither, or it cannot be read.
    """
    milliseconds, value = headers.get("retry-after-ms"), headers.get("retry-after")
    for text, unit in ((milliseconds, 0.001), (value, 1.0)):
        try:
            seconds = float(text) * unit if text is not None else -1.0
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    if value is None:
        return None
    try:
        return max(email.utils.parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def _logprobs(choice: Any) -> tuple[TokenLogprob, ...] | None:
    content = getattr(getattr(choice, "logprobs", None), "content", None)
    if not content:
        return None
    try:
        found = tuple(
            TokenLogprob(
                well_formed(str(token.token)),
                float(token.logprob),
                tuple((well_formed(str(other.token)), float(other.logprob)) for other in token.top_logprobs or ()),
            )
            for token in content
        )
    except (AttributeError, TypeError, ValueError, OverflowError):
        return None  # they are an extra: a server that spells them otherwise has none
    # So is one that gives what is no log-probability.
    return found if all(token.logprob <= 0 for token in found) else None
