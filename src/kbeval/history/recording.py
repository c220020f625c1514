"""Records measured runs: where, with which metrics, and once."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kbeval.evaluation.default_metrics import choose_metrics
from kbeval.evaluation.gates import measure_runs, read_margins, read_targets
from kbeval.evaluation.provenance import require_whole
from kbeval.formats.sidecar import sidecar_path
from kbeval.formats.trec import run_name
from kbeval.history.entry import entry_of, run_key
from kbeval.history.store import is_dsn, open_history

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbeval.config import Project, Settings
    from kbeval.evaluation.comparison import RunSource
    from kbeval.evaluation.metrics import Metric
    from kbeval.evaluation.test_set import TestSet
    from kbeval.history.revision import Revision

DEFAULT = Path("results") / "history.sqlite"


def store_of(project: Project, folder: Path | None = None) -> str | Path:
    """The store that the settings name; without one, that of ``folder`` or the project's root."""
    named = project.settings.history.store
    if named is None:
        return (folder or project.root) / DEFAULT
    return named if is_dsn(named) else project.path(named)


def recorded_metrics(settings: Settings) -> list[Metric]:
    """What is recorded of every run: the metrics that are reported, and those that are gated."""
    chosen, _ = choose_metrics(None, settings.compare.metrics, settings.compare.primary)
    gated = [target.metric for target in read_targets(settings.targets) if target.metric]
    gated += [margin.metric for margin in read_margins(settings.margins)]
    return list(dict.fromkeys([*chosen, *gated]))


def record_runs(
    store: str | Path,
    sources: Sequence[RunSource],
    test_set: TestSet,
    metrics: Sequence[Metric],
    revision: Revision,
) -> int:
    """Measures runs and records them, in one transaction.

    Returns:
        How many were new, or now have metrics that they had not; a run that is recorded already is left as it is.

    Raises:
        KbevalError: a run was not asked every question: in a trend it would be a false drop.
    """
    require_whole(sources)
    when = datetime.now(UTC).isoformat(timespec="seconds")
    entries = [
        entry_of(measured, key_of(source, test_set), test_set, revision, when)
        for source, measured in zip(sources, measure_runs(test_set, sources, metrics), strict=True)
    ]
    with open_history(store) as history:
        return history.add(entries)


def key_of(source: RunSource, test_set: TestSet) -> str:
    """What a run file on a test set is known by: ``content_of`` its entries' keys."""
    path = source.origin
    assert isinstance(path, Path)
    return run_key(path, sidecar_path(path, run_name(path)), test_set.hash)
