"""One question: asked, timed, asked again where that may help, and never an exception."""

from __future__ import annotations

import hashlib
import math
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kbeval.engines.base import TransientError, Usage, added
from kbeval.engines.metering import metering
from kbeval.formats.sidecar import TOTAL, WAITED
from kbeval.inputs.values import is_unicode
from kbeval.secrets import one_line, well_formed
from kbeval.signals import Terminated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbeval.engines.base import Answer, Engine
    from kbeval.engines.metering import Meter
    from kbeval.model import LabelledQuery
    from kbeval.running.policy import Policy


MOST = 10**15
"""More of anything than one question takes; sums of it fit into 64 bits."""


@dataclass(frozen=True)
class Outcome:
    """What became of one query: an answer, or the error in one line.

    Attributes:
        seconds: what whoever asked had to wait; None where it was not asked.
        timed_out: whether it is an error because it took too long.
        retries: requests that were repeated for it, by the engine or by asking again.
        waited: seconds of the pauses before them; part of ``seconds``, and of no stage's.
        usage: what it took of paid services, failed attempts included.
        cold: whether it was the first that the engine was asked, and its time stands apart.
        resumed: whether an earlier run had asked it.
    """

    query: LabelledQuery
    seconds: float | None
    answer: Answer | None = None
    error: str | None = None
    timed_out: bool = False
    retries: int = 0
    waited: float = 0.0
    usage: Sequence[Usage] = ()
    cold: bool = False
    resumed: bool = False

    def milliseconds(self) -> dict[str, float]:
        """By stage, with the total; empty where it was not asked."""
        if self.seconds is None:
            return {}
        stages = {**(self.answer.seconds if self.answer else {}), TOTAL: self.seconds}
        if self.waited:
            stages[WAITED] = self.waited
        return {stage: round(seconds * 1000, 3) for stage, seconds in stages.items()}


def ask(
    engine: Engine,
    query: LabelledQuery,
    k: int,
    policy: Policy,
    *,
    timeout_s: float | None = None,
    signals: bool = True,
) -> Outcome:
    """Asks one query, and times it. It asks again after a ``TransientError``, and after no other.

    Args:
        timeout_s: what whoever calls will wait: no pause is begun that would end later.
        signals: whether signals arrive where this runs: if not, a KeyboardInterrupt is the engine's own doing, and an
            error like any other.
    """
    started = time.perf_counter()
    failed, waited = 0, 0.0
    with metering() as meter:
        while True:
            error: BaseException
            try:
                return _answered(query, engine.answer(query, k), k, started, failed, waited, meter)
            except TransientError as caught:
                error = caught
                pause = _pause(caught, failed, query.id, policy)
                ends = time.perf_counter() - started + pause
                again = failed < policy.retries and pause <= policy.max_wait_s and (not timeout_s or ends < timeout_s)
            except BaseException as caught:
                if signals and isinstance(caught, (KeyboardInterrupt, Terminated)):
                    raise
                # An engine that calls sys.exit, or lets a CancelledError out, has failed on its query like any
                # other: it must not end the evaluation in silence.
                error, again = caught, False
            if not again:
                return _failed(query, error, started, failed, waited, meter)
            time.sleep(pause)
            waited += pause
            failed += 1


def _answered(
    query: LabelledQuery, answer: Answer, k: int, started: float, failed: int, waited: float, meter: Meter
) -> Outcome:
    seconds = time.perf_counter() - started
    return Outcome(
        query=query,
        seconds=seconds,
        answer=_kept_to(answer, k),
        retries=failed + meter.retries + answer.retries,
        waited=waited + meter.waited + answer.waited,
        usage=added([*meter.usage, *answer.usage]),
    )


def _kept_to(answer: Answer, k: int) -> Answer:
    """The answer, as ``Engine.retrieve`` promises it: whoever brings an engine may not have kept to that.

    Raises:
        TypeError: an id is no text, or a score no number.
        ValueError: an id cannot be written, a score is not finite, or a document is there twice.
    """
    hits = [(_written(document), float(score)) for document, score in answer.hits]
    seen: set[str] = set()
    for document, score in hits:
        if not math.isfinite(score):
            raise ValueError(f"expected a finite score of {document}, found {score}")
        if document in seen:
            raise ValueError(f"expected each document once, found {document} twice")
        seen.add(document)
    for name, number in (("retries", answer.retries), ("repeats", answer.repeats)):
        _count(name, number)
    for name, seconds in (*answer.seconds.items(), ("waited", answer.waited)):
        if not math.isfinite(seconds) or seconds < 0:
            raise ValueError(f"expected seconds of {name}, found {seconds}")
    for usage in answer.usage:
        for name in ("calls", "tokens", "completion_tokens", "rerank_units"):
            _count(f"{name} of {usage.service}", getattr(usage, name))
    stages = {str(stage): [_written(document) for document in ids] for stage, ids in answer.stages.items()}
    return replace(answer, hits=hits[:k], stages=stages)


def _count(name: str, number: int) -> None:
    if not isinstance(number, int) or not 0 <= number <= MOST:
        raise ValueError(f"expected a number of {name}, found {str(number)[:40]}")


def _written(identifier: str) -> str:
    """An id as plain text: no subclass of it, which JSON and other processes need not know."""
    if not isinstance(identifier, str):
        raise TypeError(f"expected a document id as text, found {type(identifier).__name__}")
    plain = str(identifier)
    if not plain:
        raise ValueError("expected a document id, found empty text")
    if not is_unicode(plain):
        raise ValueError(f"expected a document id in Unicode, found half of a surrogate pair in {well_formed(plain)}")
    return plain


def _failed(
    query: LabelledQuery, error: BaseException, started: float, failed: int, waited: float, meter: Meter
) -> Outcome:
    times = f" (asked {failed + 1} times)" if failed else ""
    return Outcome(
        query=query,
        seconds=time.perf_counter() - started,
        error=f"{one_line(error)}{times}",
        retries=failed + meter.retries,
        waited=waited + meter.waited,
        usage=meter.usage,
    )


def _pause(error: TransientError, failed: int, query: str, policy: Policy) -> float:
    """The seconds that it was told to wait, else between half and all of a pause that doubles each time."""
    told = error.retry_after
    if isinstance(told, int | float) and not math.isnan(told):
        return max(float(told), 0.0)
    longest = min(policy.backoff_s * 2.0**failed, policy.max_wait_s)
    # A jitter that needs no generator: questions that failed together part.
    share = int.from_bytes(hashlib.sha256(f"{query} {failed}".encode()).digest()[:4]) / 2**32
    return longest * (0.5 + 0.5 * share)
