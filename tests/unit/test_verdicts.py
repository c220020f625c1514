"""Constructed cases for each of the verdicts of METHOD 5, and for the rules around them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbeval.evaluation.strata import ALL
from kbeval.evaluation.verdicts import Verdict, mean_over_styles, verdict

if TYPE_CHECKING:
    from kbeval.evaluation.statistics import PairStatistics

LEADS = [1.0] * 14 + [-1.0] * 2
"""14 wins and 2 losses of 16: t and sign-flip p far below .05."""
TRAILS = [-value for value in LEADS]
LEANS = [1.0] * 10 + [-1.0] * 6
"""10 wins and 6 losses of 16: exact p .45."""
NOTHING = [0.0] * 16


def judge(strata: dict[str, list[float]], **options: object) -> Verdict:
    """A test set in which question n of each generated style belongs to document n; others stand alone."""
    differences, names, owners = [], [], []
    for name, values in strata.items():
        for number, value in enumerate(values):
            differences.append(value)
            names.append(name)
            owners.append(f"d{number}" if name in ("near", "mid", "far") else f"{name} {number}")
    values = np.array(differences)
    return verdict(values, np.zeros_like(values), names, np.array(owners), **options)  # type: ignore[arg-type]


class TestWords:
    @pytest.mark.parametrize(("values", "leader"), [(LEADS, "a"), (TRAILS, "b")])
    def test_in_every_style(self, values: list[float], leader: str) -> None:
        result = judge({"near": values, "mid": values, "far": values})
        assert (result.word, result.leader) == ("in every style", leader)
        assert result.styles == ("near", "mid", "far")
        assert (result.uninformative, dict(result.leads), result.detectable) == ((), {}, None)

    def test_on_average(self) -> None:
        result = judge({"near": LEADS, "mid": LEANS, "far": LEADS})
        assert (result.word, result.leader) == ("on average", "a")

    @pytest.mark.parametrize("styles", [("near", "far"), ("near", "mid", "far")])
    def test_who_wins_near_and_loses_far_depends(self, styles: tuple[str, ...]) -> None:
        values = {"near": LEADS, "mid": LEADS, "far": TRAILS}
        result = judge({name: values[name] for name in styles})
        assert (result.word, result.leader) == ("depends", None)
        assert dict(result.leads) == {name: "b" if name == "far" else "a" for name in styles}
        # 14 - 2 of 16: mean .75, variance (14 x .0625 + 2 x 3.0625) / 15 = 7 / 15
        assert result.crossing is not None
        assert result.crossing.statistic == pytest.approx(0.5625 * 16 * 15 / 7)

    def test_cannot_tell_says_what_could_have_been_seen(self) -> None:
        result = judge({"near": LEANS, "mid": LEANS[::-1], "far": LEANS})
        assert (result.word, result.leader) == ("cannot tell", None)
        assert result.detectable == result.overall.mdd
        assert result.detectable is not None
        assert result.detectable > abs(result.overall.delta)

    def test_styles_that_lean_apart_without_crossing_cannot_tell(self) -> None:
        result = judge({"near": LEADS, "far": [-value for value in LEANS]})
        # far: mean -.25, variance (10 x .5625 + 6 x 1.5625) / 15 = 1, z squared .0625 x 16 = 1 < 2.71
        assert result.crossing is not None
        assert result.crossing.statistic == pytest.approx(1.0)
        assert result.word == "cannot tell"

    def test_identical(self) -> None:
        result = judge({"near": NOTHING, "far": NOTHING})
        assert (result.word, result.leader, result.overall.p) == ("identical", None, 1.0)

    def test_a_message_that_differs_is_enough_not_to_be_identical(self) -> None:
        result = judge({"near": NOTHING, "far": NOTHING, "message": [0.0, 0.5]})
        assert (result.word, result.detectable) == ("cannot tell", None)


class TestOneStratum:
    @pytest.mark.parametrize("name", ["near", "message", "synthetic"])
    def test_words(self, name: str) -> None:
        assert judge({name: LEADS}).word == "significant"
        assert judge({name: LEADS}).leader == "a"
        assert judge({name: TRAILS}).leader == "b"
        assert judge({name: LEANS}).word == "cannot tell"
        assert judge({name: NOTHING}).word == "identical"

    def test_no_style_is_uninformative_and_none_crosses(self) -> None:
        result = judge({"synthetic": [1.0] * 7 + [0.0] * 3})
        assert (result.word, result.uninformative, result.crossing) == ("significant", (), None)

    def test_sources_do_not_split_a_test_set_without_styles(self) -> None:
        result = judge({"historical": LEADS, "synthetic": TRAILS})
        assert (result.word, result.styles) == ("cannot tell", (ALL,))
        assert set(result.by_stratum) == {"historical", "synthetic"}
        assert result.overall.queries == 32

    def test_five_differing_questions_cannot_tell(self) -> None:
        result = judge({"message": [1.0] * 5 + [0.0] * 95})
        assert (result.word, result.detectable) == ("cannot tell", None)


class TestUninformativeStyles:
    NINE = [1.0] * 9 + [0.0] * 7

    def test_rules_out_in_every_style_and_nothing_else(self) -> None:
        result = judge({"near": LEADS, "mid": LEADS, "far": self.NINE})
        assert result.by_stratum["far"].significant
        assert (result.word, result.leader, result.uninformative) == ("on average", "a", ("far",))

    def test_ten_are_enough(self) -> None:
        result = judge({"near": LEADS, "mid": LEADS, "far": [1.0] * 10 + [0.0] * 6})
        assert (result.word, result.uninformative) == ("in every style", ())

    def test_a_style_without_any_difference_points_no_other_way(self) -> None:
        result = judge({"near": LEADS, "mid": LEADS, "far": NOTHING})
        assert (result.word, result.uninformative) == ("on average", ("far",))

    def test_a_few_questions_the_other_way_rule_out_on_average_and_cross_nothing(self) -> None:
        # five losses and no win in far: z squared 6.8, but METHOD 4 calls nothing below six a difference
        result = judge({"near": LEADS, "far": [-1.0] * 5 + [0.0] * 11})
        assert result.crossing is not None
        assert (result.word, result.crossing.p) == ("cannot tell", 1.0)

    def test_six_can_cross(self) -> None:
        result = judge({"near": LEADS, "far": [-1.0] * 6 + [0.0] * 10})
        assert (result.word, result.uninformative) == ("depends", ("far",))

    def test_a_style_with_one_question_has_no_statistics_and_stops_nothing(self) -> None:
        result = judge({"near": LEADS, "mid": LEADS, "far": [1.0]})
        assert result.by_stratum["far"].p is None
        assert (result.word, result.uninformative) == ("on average", ("far",))


class TestStrataThatStandBeside:
    def test_messages_change_no_verdict_on_generated_questions(self) -> None:
        alone = judge({"near": LEADS, "mid": LEADS, "far": LEADS})
        beside = judge({"near": LEADS, "mid": LEADS, "far": LEADS, "message": TRAILS, "historical": TRAILS})
        assert beside.word == alone.word == "in every style"
        assert beside.overall == alone.overall
        assert list(beside.by_stratum) == ["near", "mid", "far", "message", "historical"]
        assert beside.by_stratum["message"].delta == -0.75

    def test_messages_stand_beside_one_generated_style_too(self) -> None:
        for beside in (LEADS, TRAILS):
            result = judge({"near": LEADS, "message": beside})
            assert (result.word, result.leader, result.styles) == ("significant", "a", ("near",))


class TestEnginesThatNeverReadTheText:
    STYLES = {"near": LEADS, "mid": LEADS, "far": LEADS}  # noqa: RUF012

    def test_historical_questions_are_asked_first(self) -> None:
        result = judge({**self.STYLES, "historical": LEADS, "message": TRAILS}, metadata_only=True)
        assert (result.word, result.leader) == ("in every style", "a")
        assert result.text_check is not None
        assert (result.text_check.stratum, result.text_check.outcome) == ("historical", "agrees")
        assert result.text_check.delta == 0.75

    @pytest.mark.parametrize("name", ["historical", "message"])
    def test_a_verdict_that_they_contradict_is_taken_back(self, name: str) -> None:
        result = judge({**self.STYLES, name: [-0.1, 0.0]}, metadata_only=True)
        assert (result.word, result.leader) == ("cannot tell", None)
        assert result.detectable == result.overall.mdd
        assert result.text_check is not None
        assert result.text_check.stratum == name
        assert (result.text_check.outcome, result.text_check.overruled) == ("contradicts", "in every style")

    def test_pointing_nowhere_is_not_the_other_way(self) -> None:
        result = judge({**self.STYLES, "message": [0.0, 0.0]}, metadata_only=True)
        assert result.word == "in every style"
        assert result.text_check is not None
        assert result.text_check.outcome == "agrees"

    def test_without_such_questions_the_verdict_stands_unchecked(self) -> None:
        result = judge(self.STYLES, metadata_only=True)
        assert result.word == "in every style"
        assert result.text_check is not None
        assert (result.text_check.stratum, result.text_check.outcome) == (None, "no such questions")

    def test_it_holds_for_a_test_set_without_styles_and_for_the_other_engine_too(self) -> None:
        result = judge({"synthetic": TRAILS * 2, "historical": [0.1, 0.0]}, metadata_only=True)
        assert (result.word, result.leader) == ("cannot tell", None)
        assert result.text_check is not None
        assert (result.text_check.outcome, result.text_check.overruled) == ("contradicts", "significant")

    def test_nothing_to_check_without_a_leader(self) -> None:
        assert judge({"near": LEADS, "far": TRAILS, "message": TRAILS}, metadata_only=True).text_check is None
        assert judge({"near": LEANS, "far": LEANS, "message": TRAILS}, metadata_only=True).text_check is None

    def test_engines_that_read_are_not_checked(self) -> None:
        result = judge({**self.STYLES, "message": TRAILS})
        assert (result.word, result.text_check) == ("in every style", None)


class TestLevels:
    def test_a_family_asks_for_more(self) -> None:
        styles = {"near": LEADS, "mid": LEADS, "far": LEADS}
        strictest = judge(styles, level=1e-6)
        assert strictest.word == "cannot tell"
        assert judge(styles, level=0.01).word == "in every style"

    def test_the_crossing_is_held_against_alpha_alone(self) -> None:
        assert judge({"near": LEADS, "far": TRAILS}, level=1e-6).word == "depends"
        assert judge({"near": LEADS, "far": TRAILS}, alpha=1e-9).word == "cannot tell"

    def test_the_family_enters_the_detectable_difference(self) -> None:
        styles = {"near": LEANS, "far": LEANS}
        one, ten = judge(styles).detectable, judge(styles, family=10).detectable
        assert one is not None
        assert ten is not None
        assert ten > one


class TestMeanOverStyles:
    def test_by_hand(self) -> None:
        # document x: near (1 + 0) / 2, far .1 -> .3; y: near alone; z: messages alone -> left out
        differences = np.array([1.0, 0.0, 0.1, 0.4, 0.9])
        strata = np.array(["near", "near", "far", "near", "message"])
        clusters = np.array(["x", "x", "x", "y", "z"])
        means = mean_over_styles(differences, strata, clusters, ("near", "far"))
        assert means == pytest.approx([0.3, 0.4])


def test_a_mean_over_styles_that_no_style_supports_is_no_verdict() -> None:
    # 40 documents with a far question alone, which a wins by .3; 40 with both, where b wins far by .31 and
    # near by .01. Either style leans to b, yet the mean over documents is (40 x .3 - 40 x .16) / 80 = .07: a.
    differences = np.array([0.3] * 40 + [-0.31] * 40 + [-0.01] * 40)
    strata = ["far"] * 80 + ["near"] * 40
    clusters = np.concatenate([np.arange(80), np.arange(40, 80)])
    result = verdict(differences, np.zeros(120), strata, clusters)
    assert result.overall.delta == pytest.approx(0.07)
    assert result.overall.significant
    assert (result.word, result.leader) == ("cannot tell", None)


def test_misaligned_input_is_refused() -> None:
    with pytest.raises(ValueError, match="one length"):
        verdict([1.0, 0.0], [0.0, 0.0], ["near"], np.array([0, 1]))
    with pytest.raises(ValueError, match="one length"):
        verdict([1.0, 0.0], [0.0, 0.0], ["near", "far"], np.array([0]))
    with pytest.raises(ValueError, match="at least one"):
        verdict([], [], [], np.array([]))


VALUES = st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 1.0])
ROWS = st.lists(
    st.tuples(VALUES, VALUES, st.sampled_from(["near", "mid", "far", "message"]), st.integers(0, 25)),
    min_size=1,
    max_size=80,
)
MIRROR = {"a": "b", "b": "a", None: None}


@given(ROWS, st.randoms(use_true_random=False), st.booleans())
@settings(max_examples=80, deadline=None)
def test_order_changes_no_bit_and_swapping_mirrors(
    rows: list[tuple[float, float, str, int]], random: object, metadata_only: bool
) -> None:
    def judged(rows: list[tuple[float, float, str, int]], swap: bool = False) -> Verdict:
        a, b, strata, owners = zip(*rows, strict=True)
        sides = (np.array(b), np.array(a)) if swap else (np.array(a), np.array(b))
        return verdict(*sides, strata, np.array(owners), metadata_only=metadata_only)

    result = judged(rows)
    assert judged(random.sample(rows, len(rows))) == result  # type: ignore[attr-defined]
    mirrored = judged(rows, swap=True)
    assert mirrored.word == result.word
    assert mirrored.leader == MIRROR[result.leader]
    assert {name: MIRROR[side] for name, side in mirrored.leads.items()} == dict(result.leads)
    assert mirrored.crossing == result.crossing
    assert mirrored.detectable == result.detectable
    assert _ps(mirrored.overall) == _ps(result.overall)


def _ps(of: PairStatistics) -> tuple[float | None, float | None]:
    return of.p, of.p_sign_flip
