"""What ``kbeval compare`` refuses before it measures anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kbeval.errors import KbevalError
from kbeval.evaluation.default_metrics import choose_metrics
from kbeval.formats.sidecar import read_sidecar
from kbeval.formats.trec import run_names
from kbeval.report.write import refuse_overwriting

if TYPE_CHECKING:
    from pathlib import Path


def test_two_outputs_in_one_file_are_refused(tmp_path: Path) -> None:
    refuse_overwriting(tmp_path, tmp_path / "values.parquet", [tmp_path / "a.trec"])
    with pytest.raises(KbevalError, match="--parquet: expected a file of its own"):
        refuse_overwriting(tmp_path, tmp_path / "x" / ".." / "results.json", [])
    with pytest.raises(KbevalError, match="expected another file to write to, found one that is compared"):
        refuse_overwriting(tmp_path, tmp_path / "a.trec", [tmp_path / "a.trec"])
    with pytest.raises(KbevalError, match="expected another file to write to, found one that is compared"):
        refuse_overwriting(tmp_path, None, [tmp_path / "results.md"])


@pytest.mark.parametrize("name", ["a\nb.trec", "a\u2028b.trec", "\udcff.trec"])
def test_a_file_name_that_is_not_one_line_of_text_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(KbevalError, match="expected a file name of one line of UTF-8") as caught:
        run_names([tmp_path / name])
    assert len(str(caught.value).splitlines()) == 1


def test_an_empty_list_of_metrics_is_no_default() -> None:
    with pytest.raises(KbevalError):
        choose_metrics("", None, "mrr")
    with pytest.raises(KbevalError):
        choose_metrics("mrr", None, "")
    assert [metric.name for metric in choose_metrics(None, ["map"], "mrr")[0]] == ["map", "mrr"]


@pytest.mark.parametrize("k", [0, -3])
def test_a_sidecar_that_asked_for_nothing_is_refused(tmp_path: Path, k: int) -> None:
    path = tmp_path / "a.json"
    path.write_text(
        '{"engine": {"name": "a", "type": "hybrid", "configuration": {}, "reads_text": true, "deterministic": true}, '
        f'"k": {k}, "corpus_hash": "x", "queries_hash": "y"}}'
    )
    with pytest.raises(KbevalError, match=r"a\.json.*with k to be greater than or equal to 1"):
        read_sidecar(path)
