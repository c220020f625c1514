"""How often the statistics cry wolf, and what they can see: simulated test sets of 50 to 1,000 questions.

    python benchmarks/type_one_error.py

writes benchmarks/TYPE_ONE_ERROR.md, the same at every run. Differences of reciprocal ranks are simulated,
half of them ties, with a standard deviation near .36; the questions of a document share part of their luck.
In the null the two engines are equally good on every kind of question.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr, stdtr

from kbeval.evaluation.statistics import ALPHA, paired
from kbeval.evaluation.strata import GENERATED_STYLES
from kbeval.evaluation.verdicts import verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

SEED = 1
QUESTIONS = (50, 100, 200, 400, 1_000)
SHARED_LUCK = (0.0, 0.1, 0.3, 0.6)
SHAPES = {"1 chunk": (1,), "1 to 7 chunks": (1, 2, 3, 4, 5, 6, 7)}
# the difference for each band of how much better an engine is: none, then ranks 2 and 3, 1 and 2, 1 and 3,
# and 1 and nothing found
BANDS = np.array([0.674, 1.0, 1.5, 2.2])
DIFFERENCES = np.array([0.0, 1 / 6, 1 / 2, 2 / 3, 1.0])


@dataclass(frozen=True)
class TestSet:
    """Which document and style each question is of."""

    documents: NDArray[np.int64]
    styles: NDArray[Any]

    @classmethod
    def of(cls, questions: int, chunks: tuple[int, ...]) -> TestSet:
        """Documents of so many chunks in turn, three questions a chunk, until there are enough."""
        owners: list[int] = []
        while len(owners) < questions:
            document = owners[-1] + 1 if owners else 0
            owners += [document] * (3 * chunks[document % len(chunks)])
        return cls(np.array(owners[:questions]), np.resize(np.array(GENERATED_STYLES, dtype=object), questions))

    def simulate(self, random: np.random.Generator, runs: int, shared: float, shift: float | Floats = 0.0) -> Floats:
        """Differences of shape (runs, questions); ``shared`` is the share of luck that a document decides."""
        luck = random.standard_normal((runs, int(self.documents[-1]) + 1))[:, self.documents]
        own = random.standard_normal((runs, self.documents.size))
        better = np.sqrt(shared) * luck + np.sqrt(1 - shared) * own + shift
        differences: Floats = np.sign(better) * DIFFERENCES[np.searchsorted(BANDS, np.abs(better))]
        return differences

    def means(self, differences: Floats) -> Floats:
        """The mean difference of each document, shape (runs, documents)."""
        starts = np.flatnonzero(np.diff(self.documents, prepend=-1))
        sums = np.add.reduceat(differences, starts, axis=1)
        means: Floats = sums / np.bincount(self.documents)
        return means


def mean_difference(shift: float) -> float:
    """The expected difference at a shift of the latent scale."""
    steps = np.diff(DIFFERENCES)
    return float(np.sum(steps * (ndtr(shift - BANDS) - ndtr(-shift - BANDS))))


def shift_for(difference: float) -> float:
    """The shift with this expected difference, by bisection."""
    low, high = 0.0, 4.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if mean_difference(middle) < difference else (low, middle)
    return low


def t_test(values: Floats) -> Floats:
    """Two-sided p of each row's mean; 1 where nothing varies."""
    count = values.shape[1]
    error = values.std(axis=1, ddof=1) / np.sqrt(count)
    t = np.divide(values.mean(axis=1), error, out=np.zeros(len(values)), where=error > 0)
    return np.asarray(2 * stdtr(count - 1, -np.abs(t)))


def rejections(test_set: TestSet, differences: Floats) -> tuple[float, float, float]:
    """Shares of rows that are significant: by questions, by the cluster t alone, and by kbeval."""
    plain = t_test(differences) < ALPHA
    by_clusters = t_test(test_set.means(differences)) < ALPHA
    nothing = np.zeros(differences.shape[1])
    # kbeval asks for both tests, so that the rows which the cluster t lets through are all that can be
    ours = sum(paired(row, nothing, test_set.documents).significant for row in differences[by_clusters])
    return float(plain.mean()), float(by_clusters.mean()), ours / len(differences)


def within_documents(test_set: TestSet, differences: Floats) -> float:
    """The correlation of two questions of one document, over all such pairs."""
    counts = np.bincount(test_set.documents)
    sums = test_set.means(differences) * counts
    products = (sums**2).sum() - (differences**2).sum()
    pairs = len(differences) * (counts * (counts - 1)).sum()
    return float(products / pairs / (differences**2).mean())


def null_table(random: np.random.Generator, runs: int) -> Iterator[str]:
    yield "| document | shared luck | correlation | questions | documents | plain t | cluster t | kbeval |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for shape, chunks in SHAPES.items():
        for shared in SHARED_LUCK:
            for questions in QUESTIONS:
                test_set = TestSet.of(questions, chunks)
                differences = test_set.simulate(random, runs, shared)
                plain, by_clusters, ours = rejections(test_set, differences)
                correlation = within_documents(test_set, differences)
                yield (
                    f"| {shape} | {shared:.1f} | {correlation:z.2f} | {questions} | "
                    f"{test_set.documents[-1] + 1} | {plain:.1%} | {by_clusters:.1%} | {ours:.1%} |"
                )


def power_table(random: np.random.Generator, runs: int) -> Iterator[str]:
    yield "| document | questions | documents | detectable | found at it | found at .05 | found at .10 |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for shape, chunks in SHAPES.items():
        for questions in QUESTIONS:
            test_set = TestSet.of(questions, chunks)
            nothing = np.zeros(questions)
            pilot = test_set.simulate(random, 200, 0.3)
            known = [paired(row, nothing, test_set.documents).mdd for row in pilot]
            median = float(np.median([value for value in known if value is not None] or [np.nan]))
            found = [
                "-" if not difference < 0.5 else f"{power(random, runs, test_set, difference):.0%}"
                for difference in (median, 0.05, 0.10)
            ]
            shown = "none" if np.isnan(median) else f"{median:.3f}"
            yield f"| {shape} | {questions} | {test_set.documents[-1] + 1} | {shown} | {' | '.join(found)} |"


def power(random: np.random.Generator, runs: int, test_set: TestSet, difference: float) -> float:
    return rejections(test_set, test_set.simulate(random, runs, 0.3, shift_for(difference)))[2]


def verdict_table(random: np.random.Generator, runs: int) -> Iterator[str]:
    words = ("in every style", "on average", "depends", "cannot tell", "identical")
    yield f"| the truth | questions | {' | '.join(words)} | wrong |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    truths = {
        "equal in every style": (0.0, 0.0, 0.0),
        "a by .10 in every style": (0.1, 0.1, 0.1),
        "a by .20, .10, .05": (0.2, 0.1, 0.05),
        "a by .20 in near, b by .20 in far": (0.2, 0.0, -0.2),
    }
    for truth, leads in truths.items():
        shifts = [float(np.sign(lead)) * shift_for(abs(lead)) for lead in leads]
        for questions in (100, 400):
            test_set = TestSet.of(questions, SHAPES["1 to 7 chunks"])
            shift = np.resize(np.array(shifts), questions)
            differences = test_set.simulate(random, runs, 0.3, shift)
            results = [
                verdict(row, np.zeros(questions), list(test_set.styles), test_set.documents) for row in differences
            ]
            shares = [sum(result.word == word for result in results) / runs for word in words]
            wrong = sum(_contradicts(result.leader, result.word, leads) for result in results) / runs
            cells = " | ".join(f"{share:.1%}" for share in shares)
            yield f"| {truth} | {questions} | {cells} | {wrong:.1%} |"


def _contradicts(leader: str | None, word: str, leads: tuple[float, ...]) -> bool:
    """Whether a verdict says what is not so: a leader that is none, a crossing where there is none."""
    crosses = min(leads) < 0 < max(leads)
    if word == "depends":
        return not crosses
    return leader is not None and (crosses or leads == (0.0, 0.0, 0.0) or leader == "b")


REPORT = """\
# False alarms and power on simulated questions

Written by `python benchmarks/type_one_error.py`, which says what is simulated. Three questions a chunk (near,
mid, far), at a level of .05.

## False alarms

Two equally good engines, {runs:,} test sets a row: 5% has a standard error of {error:.1%}. `correlation`: of
the differences of two questions of one document. `plain t` takes questions as independent, `cluster t`
documents; `kbeval` asks for the sign-flip test and six documents that differ besides.

{null}

## Power

A shared luck of .3, {power_runs} test sets a cell. `detectable` is the median of what kbeval prints beside
such a pair; a true difference of that size should be found four times in five. With few documents, where six
have to differ and both tests to agree, it is found less often.

{power}

## Verdicts

A shared luck of .3, documents of 1 to 7 chunks, {verdict_runs} test sets a row. `wrong`: a leader where there
is none or it is the other, or a crossing where there is none.

{verdicts}
"""


def report(scale: float) -> str:
    random = np.random.default_rng(SEED)
    runs, power_runs, verdict_runs = (max(20, int(scale * count)) for count in (4_000, 400, 400))
    return REPORT.format(
        runs=runs,
        error=np.sqrt(ALPHA * (1 - ALPHA) / runs),
        power_runs=power_runs,
        verdict_runs=verdict_runs,
        null="\n".join(null_table(random, runs)),
        power="\n".join(power_table(random, power_runs)),
        verdicts="\n".join(verdict_table(random, verdict_runs)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scale", type=float, default=1.0, help="a smaller number simulates fewer test sets")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("TYPE_ONE_ERROR.md"))
    arguments = parser.parse_args()
    text = report(arguments.scale)
    arguments.out.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
