"""Tries every configuration, picks one on the dev split, and tests it on the held-out split: once."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kbeval.engines.base import BuildContext, added
from kbeval.engines.hybrid import HybridSettings, cutting
from kbeval.errors import KbevalError
from kbeval.evaluation.comparison import Options, RunSource, compare_runs
from kbeval.evaluation.metrics import parse_metric
from kbeval.formats.dataset import corpus_hash, queries_hash
from kbeval.formats.sidecar import EngineFacts, Sidecar
from kbeval.progress import Silent
from kbeval.running.runner import ask_all
from kbeval.running.session import SharedStore
from kbeval.secrets import one_line
from kbeval.sweep.budget import Budget
from kbeval.sweep.grid import BASE
from kbeval.sweep.measuring import failed, measured, part_of
from kbeval.sweep.split import split
from kbeval.sweep.stages import Workshop, group_of
from kbeval.sweep.thresholds import bearing, curve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from kbeval.engines.base import Usage
    from kbeval.evaluation.comparison import Comparison
    from kbeval.evaluation.metrics import Metric
    from kbeval.evaluation.test_set import TestSet
    from kbeval.formats.dataset import Dataset
    from kbeval.progress import Progress
    from kbeval.running.policy import Policy
    from kbeval.sweep.grid import Configuration, Grid
    from kbeval.sweep.measuring import Measured
    from kbeval.sweep.memory import StageMemory
    from kbeval.sweep.split import Split
    from kbeval.sweep.thresholds import Curve

BESIDE = ("recall@10", "ndcg@10")


@dataclass(frozen=True)
class Asked:
    """How a sweep is made: what decides about its numbers, and ``named_by``, the options that named its data."""

    k: int
    primary: Metric
    alpha: float
    share: float
    seed: int
    metrics: Sequence[Metric] = field(default_factory=lambda: [parse_metric(name) for name in BESIDE])
    named_by: Sequence[str] = ()


@dataclass(frozen=True)
class Sweep:
    """What came out.

    Attributes:
        measured: every configuration in the grid's order, the base first where it is not of the grid.
        picked: the best on the dev split.
        comparison: the picked one against the base on the held-out split: the sweep's one test. None where the base
            is picked, or could not be measured.
        curves: of score thresholds.
        no_curve: why there are none, or why one is missing.
        front: names of the configurations that no other beats in both quality and p95.
        done, recalled: how many stages of each kind were done, and found in the memory.
        asked_of_services: what was really used of paid services.
    """

    grid: Grid
    asked: Asked
    split: Split
    measured: Sequence[Measured]
    picked: Measured
    comparison: Comparison | None
    curves: Sequence[Curve]
    no_curve: str
    front: Sequence[str]
    done: Mapping[str, int]
    recalled: Mapping[str, int]
    asked_of_services: Sequence[Usage]
    hashes: Mapping[str, str]

    @property
    def base(self) -> Measured:
        """The engine as it is set."""
        return next(each for each in self.measured if each.name == BASE)


def sweep(
    grid: Grid,
    dataset: Dataset,
    test_set: TestSet,
    memory: StageMemory,
    asked: Asked,
    *,
    root: Path,
    dsn: str | None,
    progress: Progress,
    policy: Policy,
    say: Callable[[str], None] = lambda _: None,
) -> Sweep:
    """Measures every configuration of the grid, and picks and tests one.

    An engine that fails on a question, or cannot be built, costs its configuration the pick and nothing else.

    Args:
        memory: where stages are found that were done before, and kept.
        say: told of what is paid for, before it is.

    Raises:
        KbevalError: the test set cannot be cut in two, a key is missing, ``policy.max_cost`` is reached, or no
            configuration answered every question.
    """
    cut = split(test_set, share=asked.share, seed=asked.seed)
    with ExitStack() as stack:
        store = SharedStore(stack, dsn, dataset, progress)
        context = BuildContext(documents=dataset.documents, store=store, progress=progress, root=root)
        of_a = [s for each in grid.configurations if isinstance(s := each.plan.settings, HybridSettings)]
        budget = Budget(policy, memory, _tell(grid, dataset, policy, say))
        workshop = stack.enter_context(closing(Workshop(of_a, context, memory, budget)))
        workshop.check(of_a)
        found: dict[str, Measured] = {}
        for configuration in _in_groups(grid.configurations):
            found[configuration.name] = _measure(
                configuration, dataset, cut.dev, asked, workshop, memory, context, policy, test_set.level
            )
            memory.flush()
            budget.settle()
            if memory.damage is not None:  # no configuration's fault
                raise memory.damage
    everything = [found[each.name] for each in grid.configurations]
    picked = pick(everything, asked.primary)
    curves, no_curve = _curves(everything, picked, cut, asked.primary)
    return Sweep(
        grid=grid,
        asked=asked,
        split=cut,
        measured=everything,
        picked=picked,
        comparison=_test(everything, picked, cut.held_out, dataset, asked),
        curves=curves,
        no_curve=no_curve,
        front=pareto([(each.name, each.dev[asked.primary.name], each.p95) for each in everything if each.sound]),
        done=dict(sorted(memory.done.items())),
        recalled=dict(sorted(memory.recalled.items())),
        asked_of_services=memory.usage,
        hashes={"corpus": corpus_hash(dataset.documents), "queries": queries_hash(dataset.asked)},
    )


def pick(everything: Sequence[Measured], primary: Metric) -> Measured:
    """The sound configuration with the highest primary metric on the dev split.

    Of equal ones that which does less for a question by its settings, then the first.

    Raises:
        KbevalError: none is sound.
    """
    sound = [each for each in everything if each.sound]
    if not sound:
        first = everything[0]
        why = first.failure or next(iter(first.errors.values()), "")
        raise KbevalError(f"the sweep: expected a configuration that answers every question, found none: {why}")
    return min(sound, key=lambda each: (-round(each.dev[primary.name], 12), each.configuration.work))


def pareto(values: Iterable[tuple[str, float, float | None]]) -> list[str]:
    """The names that no other beats: at least as good and as fast, and better in one. By rising p95.

    Args:
        values: name, quality, and milliseconds or money; those without are not on the front.
    """
    known = [(name, quality, price) for name, quality, price in values if price is not None]
    front: list[str] = []
    best = float("-inf")
    for name, quality, _ in sorted(known, key=lambda each: (each[2], -each[1])):
        if quality > best:
            front.append(name)
            best = quality
    return front


def _in_groups(configurations: Sequence[Configuration]) -> list[Configuration]:
    """The configurations in an order in which those that share an index follow one another.

    Those with several legs come first: what they search serves the others.
    """
    legs_of = {each.name: len(getattr(each.plan.settings, "legs", ())) for each in configurations}
    widest_first = sorted(configurations, key=lambda each: -legs_of[each.name])
    groups: dict[str, int] = {}
    cuts: dict[str, int] = {}
    places: dict[str, tuple[int, ...]] = {}
    for place, each in enumerate(widest_first):
        settings = each.plan.settings
        how = (
            (repr(cutting(settings)), group_of(settings)) if isinstance(settings, HybridSettings) else (each.name,) * 2
        )
        cut, group = cuts.setdefault(how[0], len(cuts)), groups.setdefault(how[1], len(groups))
        places[each.name] = (cut, group, -legs_of[each.name], place)
    return sorted(configurations, key=lambda each: places[each.name])


def _measure(
    configuration: Configuration,
    dataset: Dataset,
    dev: TestSet,
    asked: Asked,
    workshop: Workshop,
    memory: StageMemory,
    context: BuildContext,
    policy: Policy,
    level: int,
) -> Measured:
    settings = configuration.plan.settings
    queries = dataset.asked
    heads: dict[str, list[str]] | None = None
    engine: Any
    try:
        if isinstance(settings, HybridSettings):
            engine = workshop.engine(settings)
            engine.prepare(queries, memory)
            heads = engine.heads if settings.reranker != "none" else None
        else:
            engine = configuration.plan.build(context)
    except KbevalError as error:
        return failed(configuration, str(error))
    except Exception as error:  # whatever the user's own engine raises
        return failed(configuration, one_line(error))
    try:
        outcomes = ask_all(
            engine,
            configuration.name,
            queries,
            asked.k,
            known_documents={document.id for document in dataset.documents},
            progress=context.progress if not isinstance(settings, HybridSettings) else _Shown(context.progress),
            policy=replace(policy, max_cost=None, resume=False),
        )
    finally:
        if not isinstance(settings, HybridSettings):
            engine.close()
    answers = [outcome.answer for outcome in outcomes.outcomes if outcome.answer is not None]
    usage = added(each for answer in answers for each in answer.usage)
    cost = None if policy.unpriced(usage) or not answers else policy.cost(usage) / len(answers) * 1000
    return measured(
        configuration,
        outcomes,
        dev,
        asked.metrics,
        asked.primary,
        level=level,
        k=asked.k,
        of_stages=isinstance(settings, HybridSettings),
        heads=heads,
        cost=cost if policy.prices else None,
    )


class _Shown(Silent):
    """Shows a configuration's questions where a person watches, and not a line for each in a log."""

    def __init__(self, progress: Progress) -> None:
        from kbeval.progress import Bars

        self._progress = progress if isinstance(progress, Bars) else Silent()

    def task(self, label: str, total: int | None = None) -> Any:
        return self._progress.task(label, total)


def _test(
    everything: Sequence[Measured], picked: Measured, held_out: TestSet, dataset: Dataset, asked: Asked
) -> Comparison | None:
    base = next(each for each in everything if each.name == BASE)
    if picked is base or base.failure is not None:
        return None
    options = Options(
        metrics=list(dict.fromkeys([asked.primary, *asked.metrics])),
        primary=asked.primary,
        baseline=BASE,
        alpha=asked.alpha,
    )
    return compare_runs(held_out, [_source(each, held_out, dataset, asked.k) for each in (picked, base)], options)


def _source(one: Measured, held_out: TestSet, dataset: Dataset, k: int) -> RunSource:
    plan = one.configuration.plan
    facts = EngineFacts(
        name=one.name,
        type=getattr(plan.engine_class, "type", ""),
        configuration=one.configuration.settings,
        reads_text=getattr(plan.engine_class, "reads_text", True) is True,
    )
    sidecar = Sidecar(
        engine=facts,
        k=k,
        corpus_hash=corpus_hash(dataset.documents),
        queries_hash=queries_hash(dataset.asked),
        errors=dict(one.errors),
    )
    return RunSource(one.name, part_of(one.run, held_out), sidecar)


def _curves(everything: Sequence[Measured], picked: Measured, cut: Split, primary: Metric) -> tuple[list[Curve], str]:
    """The curves of the picked configuration, and of the best whose scores can bear a threshold where its cannot."""
    sides = [(side.queries, sorted(side.unanswerable)) for side in (cut.dev, cut.held_out)]
    # Questions that have text: a judged id without one was never asked.
    dev, held_out = (([q for q in asked if q in picked.scored], others) for asked, others in sides)
    if not dev[1] and not held_out[1]:
        return [], (
            "The test set has no question that the corpus does not answer (answerable = false), so that there is "
            "nothing to hold a score threshold against."
        )
    bears, remark = bearing(picked.configuration.plan.settings)
    if bears:
        made = curve(picked.name, remark, picked.scored, dev, held_out)
        return ([made], "") if made else ([], "No question got a score, so that there is no threshold to set.")
    why = f"{picked.name} cannot have a score threshold. {remark}"
    others = [each for each in everything if each.sound and bearing(each.configuration.plan.settings)[0]]
    if not others:
        return [], f"{why} No configuration of this sweep has scores that could bear one."
    best = pick(others, primary)
    _, remark = bearing(best.configuration.plan.settings)
    made = curve(best.name, remark, best.scored, dev, held_out)
    return ([made] if made else []), f"{why} Shown is the best of those whose scores can bear one, {best.name}."


def _tell(grid: Grid, dataset: Dataset, policy: Policy, say: Callable[[str], None]) -> float:
    """Says what the sweep may use of paid services at most, before it does; returns what a question costs at most.

    Raises:
        KbevalError: ``policy.max_cost`` cannot be kept, as something has no price.
    """
    dearest = 0.0
    building: dict[str, Sequence[Usage]] = {}
    asking: dict[str, Sequence[Usage]] = {}
    queries = dataset.asked
    for each in grid.configurations:
        settings = each.plan.settings
        estimator = getattr(each.plan.engine_class, "estimate", None)
        estimate = estimator(settings, dataset.documents, queries) if estimator else None
        if estimate is None:
            continue
        group = group_of(settings) if isinstance(settings, HybridSettings) else each.name
        building[group] = estimate.building
        asking[each.name] = [usage.times(len(queries)) for usage in estimate.query]
        dearest = max(dearest, policy.cost(estimate.query))
    most = added(usage for usages in (*building.values(), *asking.values()) for usage in usages)
    for usage in most:
        price = "" if policy.unpriced([usage]) else f", at [prices] {policy.cost([usage]):.4g}"
        say(f"sweep: at most about {usage.in_words()}{price}; what is known already, or shared, is not asked again")
    if policy.max_cost is not None and (missing := policy.unpriced(most)):
        raise KbevalError(
            f"--max-cost: expected a price of {missing[0]}, which the sweep uses, found none: "
            f'add [prices."{missing[0]}"] to the settings'
        )
    return dearest
