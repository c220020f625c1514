"""What ``kbeval generate`` says at its end, and what ``--dry-run`` says instead."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kbeval.testset.generation.cache import GONE
from kbeval.testset.generation.prompts import STYLES
from kbeval.testset.generation.round_trip import BIAS
from kbeval.testset.generation.written import GENERATOR

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kbeval.model import Question
    from kbeval.testset.generation.work import Outcome, Plan

SHOWN = 20
_TEXT = 110


def planned(plan: Plan) -> list[str]:
    """The lines of ``--dry-run``."""
    lines = [
        f"{len(plan.calls)} calls to make, {plan.there} questions there already",
        f"about {plan.expected} tokens, {plan.most} at the most; questions that miss their overlap band cost one more "
        "call each",
    ]
    if plan.token_limit:
        lines.append(
            f"the limit of {plan.token_limit} tokens allows about {plan.within_limit} of these calls"
            f"{'' if plan.within_limit < len(plan.calls) else ': all'}"
        )
    if plan.empty:
        lines.append(f"{len(plan.empty)} chunks without a word are skipped: {_some(plan.empty)}")
    return lines


def summary(outcome: Outcome, round_trip_k: int | None) -> list[str]:
    """The lines for people: questions by style, what was rejected and why, what failed, what it has cost."""
    return [
        *_calls(outcome),
        "",
        *_styles(outcome),
        *_rejected(outcome),
        *_failed(outcome),
        *_gold(outcome),
        *([f"note: {BIAS.format(k=round_trip_k)}"] if round_trip_k is not None else []),
    ]


def _calls(outcome: Outcome) -> Iterator[str]:
    if not outcome.asked and not outcome.second:
        yield "nothing to ask: every chunk has its questions"
    else:
        resumed = f" ({outcome.resumed} of them answered in an interrupted run before)" if outcome.resumed else ""
        yield (
            f"{outcome.asked} questions asked for{resumed}, {outcome.second} once more for their overlap: "
            f"{outcome.written_now} taken, {len(outcome.failed)} calls failed, {outcome.not_asked} not made"
        )
        yield (
            f"{outcome.prompt_tokens + outcome.completion_tokens} tokens spent: {outcome.prompt_tokens} sent, "
            f"{outcome.completion_tokens} received"
        )
    if outcome.retries:
        counts = ", ".join(f"{reason} {count}" for reason, count in sorted(outcome.retries.items()))
        yield f"{outcome.retries.total()} calls were repeated: {counts}"
    if outcome.busy:
        slowest = f"; the rate fell to {outcome.lowest_rate:.0f} calls a minute" if outcome.lowest_rate else ""
        yield f"the server asked {outcome.busy} times to slow down (429){slowest}"
    if outcome.empty:
        yield f"{len(outcome.empty)} chunks without a word were skipped: {_some(outcome.empty)}"


def _styles(outcome: Outcome) -> Iterator[str]:
    ours = [q for q in outcome.built.questions if q.provenance.get("generator") == GENERATOR]
    others = len(outcome.built.questions) - len(ours)
    rejected = [each.question for each in outcome.built.rejected if each.reason != GONE]
    yield f"{'style':<8}{'questions':>10}{'mean overlap':>14}{'rejected':>10}"
    for style in STYLES:
        of_style = [question for question in ours if question.style == style]
        away = sum(question.style == style for question in rejected)
        if of_style or away:
            yield f"{style:<8}{len(of_style):>10}{_mean(of_style):>14}{away:>10}"
    yield f"{'all':<8}{len(ours):>10}{_mean(ours):>14}{len(rejected):>10}"
    if others:
        yield f"beside {others} questions that were not generated, and are as they were"


def _rejected(outcome: Outcome) -> Iterator[str]:
    rejected = [each for each in outcome.built.rejected if each.reason != GONE]
    if not rejected:
        return
    yield ""
    yield f'rejected: {len(rejected)}, kept in the cache under "rejected"'
    counts = Counter(each.reason for each in rejected)
    for reason, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        example = next(each for each in rejected if each.reason == reason)
        yield f"  {reason} {count}, such as {example.question.id}: {_short(example.question.text)}"
        yield f"    {_short(example.detail)}"


def _failed(outcome: Outcome) -> Iterator[str]:
    if not outcome.failed:
        return
    counts = Counter(reason for _, reason, _ in outcome.failed)
    yield ""
    yield f"failed: {', '.join(f'{reason} {count}' for reason, count in sorted(counts.items()))}"
    for label, reason, detail in outcome.failed[:SHOWN]:
        yield f"  {label}: {reason}: {_short(detail)}"
    if more := outcome.failed[SHOWN:]:
        yield f"  and {len(more)} more: {', '.join(f'{label} ({reason})' for label, reason, _ in more)}"


def _gold(outcome: Outcome) -> Iterator[str]:
    built = outcome.built
    if built.moved or built.lost or built.replaced:
        yield ""
    if built.moved:
        yield f"gold chunks of {len(built.moved)} questions have another number now: {_some(built.moved)}"
    if built.replaced:
        yield f"{len(built.replaced)} questions were replaced by newer ones: {_some(built.replaced)}"
    if built.lost:
        ours = {each.question.id for each in built.rejected}
        yield (
            f"gold chunks of {len(built.lost)} questions are no longer in the corpus (generated ones are put aside "
            f'under "rejected" as {GONE}, others stay):'
        )
        for name, chunks in built.lost.items():
            yield f"  {name}: {', '.join(chunks)}{' (put aside)' if name in ours else ''}"


def _mean(questions: Sequence[Question]) -> str:
    overlaps = [question.overlap for question in questions if question.overlap is not None]
    return f"{sum(overlaps) / len(overlaps):.2f}" if overlaps else "-"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _TEXT else f"{text[: _TEXT - 3]}..."


def _some(names: Sequence[str]) -> str:
    return f"{', '.join(names[:5])}{', ...' if len(names) > 5 else ''}"
