"""ranx's kernels are borrowed without a trace on the caller's numba or on ranx itself."""

from __future__ import annotations

import subprocess
import sys
from threading import Thread

import numpy as np
import pytest

from kbeval.evaluation import ranx_kernels
from kbeval.evaluation.alignment import align, judge
from kbeval.evaluation.metrics import parse_metrics
from kbeval.evaluation.scoring import score_aligned, warm_up
from plain_trec import qrels_of, run_of

BORROW = """
import os, sys, time
import numba
def settings():
    return {name: value for name, value in vars(numba.config).items() if name.isupper()}
before, environment = settings(), dict(os.environ)
from kbeval.evaluation import ranx_kernels
import numpy as np
lists = [np.array([[1.0, 1.0]])], [np.array([[0.0], [1.0]])]
mrr = ranx_kernels.evaluate("reciprocal_rank", *lists, 0, 1, compiled={compiled})
assert mrr.tolist() == [0.5], mrr
assert settings() == before
assert dict(os.environ) == environment
"""


def run_python(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**_environment(), **environment}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


@pytest.mark.parametrize("compiled", ["True", "False"])
def test_nothing_of_the_callers_numba_is_changed(compiled: str) -> None:
    code = BORROW.replace("{compiled}", compiled) + (
        "import numba.np.ufunc.parallel as p\n"
        "assert not p._is_initialized, 'a thread pool was started'\n"
        "assert not [m for m in ('matplotlib', 'pandas', 'ir_datasets', 'seaborn') if m in sys.modules]\n"
    )
    run_python(code)


def test_ranx_is_whole_whether_it_was_imported_before_or_afterwards() -> None:
    look = """
import ranx.metrics, ranx.statistical_tests
ranx.evaluate
for module in (ranx, ranx.metrics, ranx.statistical_tests):
    print(module.__name__, type(module).__name__, *sorted(
        f"{name}:{type(value).__name__}" for name, value in vars(module).items() if name != "__builtins__"))
"""
    use = """
from ranx.metrics import reciprocal_rank, ndcg
assert ranx.metrics.reciprocal_rank is reciprocal_rank
assert sys.modules["ranx.metrics.reciprocal_rank"].reciprocal_rank is reciprocal_rank
assert ranx.evaluate(ranx.Qrels({"q": {"d": 1}}), ranx.Run({"q": {"e": 2.0, "d": 1.0}}), "mrr") == 0.5
assert numba.config.THREADING_LAYER == "workqueue"  # ranx's own doing
"""
    borrow = BORROW.replace("{compiled}", "False")
    before = f"{look}whole = dict(vars(ranx))\n{borrow}assert dict(vars(ranx)) == whole\n{use}"
    afterwards = f"{borrow}{look}{use}"
    assert run_python(before, NUMBA_DISABLE_JIT="1") == run_python(afterwards, NUMBA_DISABLE_JIT="1")


def test_a_module_that_is_not_there_is_an_import_error() -> None:
    from kbeval.evaluation.deferred import import_alone

    for name in ("ranx.metrics.nothing", "nothing_at_all.metrics", "ranx.nothing.metrics"):
        with pytest.raises(ImportError):
            import_alone(name)


def test_compiled_and_uncompiled_values_agree_but_for_the_last_bits() -> None:
    rng = np.random.default_rng(7)
    qrels = qrels_of(
        [(f"q{q}", f"d{d}", int(rng.integers(-1, 4))) for q in range(20) for d in rng.choice(60, 12, replace=False)]
    )
    run = run_of([(f"q{q}", f"d{d}", float(rng.random())) for q in range(20) for d in range(50)])
    metrics = parse_metrics("hit_rate@5,precision@5,recall@5,mrr,map,ndcg,ndcg@10,r-precision,f1,f1@5,rbp.95")
    slow, fast = (
        score_aligned(align(judge(qrels), run, compiled=compiled), metrics).values for compiled in (False, True)
    )
    for name, values in slow.items():
        np.testing.assert_allclose(values, fast[name], rtol=1e-14, err_msg=name)


@pytest.mark.parametrize("compiled", [False, True])
def test_warming_up_in_a_thread_loads_the_kernels_that_scoring_uses(compiled: bool) -> None:
    metrics = parse_metrics("mrr,ndcg@10,f1,bpref,domain_accuracy@5")
    thread = Thread(target=warm_up, args=(metrics,), kwargs={"compiled": compiled})
    thread.start()
    thread.join()
    before = ranx_kernels._kernel.cache_info().misses
    alignment = align(judge(qrels_of([("q", "a", 1)])), run_of([("q", "a", 1.0)]), compiled=compiled)
    assert set(score_aligned(alignment, metrics).means.values()) == {1.0}
    assert ranx_kernels._kernel.cache_info().misses == before


def test_the_size_of_the_input_alone_decides() -> None:
    assert not ranx_kernels.pays_to_compile(300, 300_000)
    assert not ranx_kernels.pays_to_compile(3 * 100, 3 * 2_000)
    assert ranx_kernels.pays_to_compile(2 * 6_980, 2 * 6_980_000)
    assert ranx_kernels.pays_to_compile(6_980, 6_980 * 20)
