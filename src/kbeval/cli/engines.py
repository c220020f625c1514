"""From the options ``--engine``, ``--preset`` and ``--set`` to engines that are ready to be built."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from kbeval.config import Project
    from kbeval.engines.registry import EnginePlan


def chosen_engines(
    project: Project,
    specs: list[str] | None,
    presets: list[str] | None,
    assignments: list[str] | None,
    overrides: Mapping[str, Any] | None = None,
) -> list[EnginePlan]:
    """The engines asked for; every configured one where none is.

    A reranker ``llm:MODEL`` without an address of its own asks the server of ``[llm]``.

    Args:
        overrides: settings that replace those of each of them, after ``assignments``.

    Raises:
        KbevalError: an unknown engine, preset, type, key or value, or the same name twice.
    """
    from kbeval.config import parse_assignments
    from kbeval.engines.presets import with_presets
    from kbeval.engines.registry import named_tables, plan_engines

    asked, tables = with_presets(presets or [], project.settings.engines)
    wanted = [*(specs or []), *asked]
    names = list(named_tables(wanted, tables))
    assigned = parse_assignments(assignments or [], names)
    plans = plan_engines(wanted, tables, {name: {**assigned[name], **(overrides or {})} for name in names})
    address = project.settings.llm.base_url
    return [
        replace(plan, settings=plan.settings.model_copy(update={"reranker_base_url": address}))
        if str(getattr(plan.settings, "reranker", "")).startswith("llm:")
        and getattr(plan.settings, "reranker_base_url", address) is None
        else plan
        for plan in plans
    ]
