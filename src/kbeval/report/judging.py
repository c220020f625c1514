"""What a session of judging has to say, before and after."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kbeval.report.tables import Table, as_text
from kbeval.testset.judge import ANSWER_TOKENS
from kbeval.testset.judge_prompts import GRADES
from kbeval.testset.judgments import agreement_of_votes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kbeval.model import Label
    from kbeval.testset.judge_session import Outcome, Plan

_NAMED = 5
_MEANINGS = ("nothing to do with it", "related, no answer", "answers in part", "answers fully")


def plan_text(plan: Plan) -> str:
    """The pool, and what of it would be asked."""
    return "\n".join([*_pool_lines(plan), *_asked_lines(plan)]) + "\n"


def outcome_text(plan: Plan, outcome: Outcome) -> str:
    """How many pairs, their grades, how far the votes agree, what is for a person, what it cost."""
    lines = [*_pool_lines(plan), ""]
    lines += [as_text(_grades_table(outcome.labels)).rstrip("\n"), ""]
    lines += _agreement_lines(outcome.labels)
    lines += _review_lines(outcome)
    lines += _spent_lines(outcome)
    return "\n".join(lines) + "\n"


def shortfalls(plan: Plan, outcome: Outcome, max_unparsed: float) -> list[str]:
    """What makes the command fail, a sentence each; empty where all went well."""
    found = []
    if outcome.spent.failed:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(outcome.spent.reasons.items()))
        example = next(iter(outcome.spent.examples.values()), "")
        found.append(
            f"{outcome.spent.failed} of {len(plan.ballots)} votes could not be had ({reasons}; {example}); "
            "run it again: what has come in is kept"
        )
    if outcome.unparsed_share > max_unparsed:
        cut = (
            f"; {outcome.cut_votes} ended at [judge] max_answer_tokens = {plan.judge.max_answer_tokens}, which a model "
            "that thinks first needs more of"
            if outcome.cut_votes
            else ""
        )
        found.append(
            f"{outcome.unparsed_share:.1%} of the votes could not be read as a grade, and [judge] max_unparsed is "
            f"{max_unparsed:.1%}{cut}; they count as no judgment, and --retry-unparsed asks for them again"
        )
    return found


def _pool_lines(plan: Plan) -> Iterator[str]:
    docket = plan.docket
    runs = "1 run" if len(plan.runs) == 1 else f"{len(plan.runs)} runs"
    gold = sum(one.gold and not one.ranks for one in plan.candidates)
    twins = sum(one.twin and not one.ranks for one in plan.candidates)
    beyond = [
        f"{count} {what}"
        for count, what in ((gold, "by their own labels alone"), (twins, "near-duplicates of gold that no run found"))
        if count
    ]
    more = f" ({', '.join(beyond)})" if beyond else ""
    yield f"pool: {len(plan.candidates)} pairs of question and document; {runs}, {plan.depth} documents deep{more}"
    votes = "two votes" if plan.votes_a_pair == 2 else "one vote"
    yield f"judge: {plan.judge.model}, {votes} a pair, {len(docket.cases)} pairs"
    if docket.by_people:
        yield f"  {docket.by_people} left out: a person has labelled them (--include-human has them judged too)"
    if docket.excerpts:
        yield f"  {docket.excerpts} of long documents: shown by the chunks that BM25 ranks best for the question"
    if docket.absent:
        yield f"  left out, as the corpus does not hold them: {_some(docket.absent)}"
    if docket.textless:
        yield f"  left out, as they have no text: {_some(docket.textless)}"


def _asked_lines(plan: Plan) -> Iterator[str]:
    pairs = len({(ballot.question.id, ballot.document.id) for ballot in plan.ballots})
    tokens = plan.estimated_tokens
    yield (
        f"to ask: {len(plan.ballots)} calls about {pairs} pairs, roughly {tokens:,} tokens "
        f"(4 characters a token, {ANSWER_TOKENS} tokens an answer); {plan.known} votes are known"
    )


def _grades_table(labels: Sequence[Label]) -> Table:
    counts = Counter(label.grade for label in labels)
    rows = [
        [f"{grade} {meaning}", str(counts[grade]), _share(counts[grade], len(labels))]
        for grade, meaning in zip(GRADES, _MEANINGS, strict=True)
    ]
    rows.append(["null (unreadable)", str(counts[None]), _share(counts[None], len(labels))])
    return Table(["grade", "pairs", "share"], rows)


def _agreement_lines(labels: Sequence[Label]) -> Iterator[str]:
    agreement = agreement_of_votes(labels)
    if agreement.equal is not None:
        yield (
            f"votes: {agreement.equal:.1%} equal over {agreement.pairs} pairs, kappa {_fixed(agreement.kappa)}, "
            f"quadratic {_fixed(agreement.quadratic)}"
        )


def _review_lines(outcome: Outcome) -> Iterator[str]:
    disputed = [f"{query} {document}" for query, document in outcome.disputed]
    yield f"disputed (below the level on generated gold): {_some(disputed)}"
    yield f"low confidence (the votes differ, or the model was not sure): {_some(_names(outcome.doubtful))}"
    if outcome.found_answers:
        names = _some(_names(outcome.found_answers))
        yield f"answers to questions that are said to have none: {names}"
    if outcome.unreadable:
        yield f"null, as no vote could be read: {_some(_names(outcome.unreadable))}"


def _spent_lines(outcome: Outcome) -> Iterator[str]:
    spent = outcome.spent
    line = f"asked: {spent.calls} answers, {spent.prompt_tokens:,} tokens sent, {spent.completion_tokens:,} received"
    notes = []
    if spent.again:
        notes.append(f"{spent.again} asked again, as they could not be read")
    if spent.retries:
        notes.append(f"{spent.retries} repeated after an error")
    if spent.busy:
        slowed = f", slowed down to {spent.lowest_rate:.0f} calls a minute" if spent.lowest_rate is not None else ""
        notes.append(f"{spent.busy} times too busy{slowed}")
    yield line + (f" ({'; '.join(notes)})" if notes else "")
    if outcome.open_pairs:
        yield f"not judged yet: {outcome.open_pairs} pairs; the pool is put on record when all are"
    if spent.not_asked:
        yield f"not asked, as [llm] max_tokens_total was reached: {spent.not_asked} votes; run it again to go on"
    if not outcome.open_pairs and not outcome.recorded:
        yield "the pool is not put on record, as too many votes could not be read"


def _names(labels: Iterable[Label]) -> list[str]:
    return [f"{label.query} {label.document}" for label in labels]


def _some(names: Sequence[str]) -> str:
    if not names:
        return "none"
    return f"{len(names)} ({'; '.join(names[:_NAMED])}{'; ...' if len(names) > _NAMED else ''})"


def _share(count: int, total: int) -> str:
    return f"{count / total:.1%}" if total else ""


def _fixed(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"
