"""The ways in which a call to a language model goes wrong, told apart by what is to be done about each."""

from __future__ import annotations

from kbeval.errors import KbevalError


class CallError(Exception):
    """One call gave no usable answer. The message is one line and holds no secret.

    Attributes:
        reason: a word to count by.
        prompt_tokens, completion_tokens: what the call has cost although it failed, where that is known.
    """

    reason = "error"

    def __init__(self, message: str, *, prompt_tokens: int = 0, completion_tokens: int = 0) -> None:
        super().__init__(message)
        self.prompt_tokens = prompt_tokens
        self.completion_tokens = completion_tokens


class RateLimited(CallError):  # noqa: N818 - the word that the servers use
    """The server asks to slow down: everybody waits, and the call is asked again whatever its retries.

    Attributes:
        retry_after: seconds that the server asks for, None where it does not say.
    """

    reason = "rate_limited"

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Transient(CallError):  # noqa: N818
    """It may go well the next time: a server error, a cut connection.

    Attributes:
        retry_after: seconds that the server asks for, None where it does not say.
    """

    reason = "server_error"

    def __init__(
        self, message: str, retry_after: float | None = None, *, prompt_tokens: int = 0, completion_tokens: int = 0
    ) -> None:
        super().__init__(message, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens)
        self.retry_after = retry_after


class TimedOut(Transient):
    """No whole answer within the time."""

    reason = "timeout"


class Unreachable(Transient):
    """No connection."""

    reason = "unreachable"


class Unparsable(Transient):
    """An answer came, and what was asked for could not be found in it."""

    reason = "unparsable"


class Permanent(CallError):  # noqa: N818
    """This call would fail again: it is too long, say. Others may go well."""

    reason = "bad_request"


class Refused(Permanent):
    """The model, or a filter before it, does not want to answer this one."""

    reason = "refused"


class Fatal(KbevalError):  # noqa: N818
    """Every call would fail: a wrong key, an unknown model, no credit. Ends the whole work with one line."""
