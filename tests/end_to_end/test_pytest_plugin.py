"""The fixture ``kbeval_evaluate``, as a project's own tests use it: pytest in a process of its own."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.end_to_end.conftest import Kbeval

pytest_plugins = ["pytester"]

MODULE = "kbeval.pytest_plugin"
# Gold: q1 refunds, q2 payouts, q3 printer, q4 sign-in.
ENGINES = """
    from pathlib import Path

    import pytest

    import kbeval

    GOLD = {"money": "refunds", "reach": "payouts", "crimson": "printer", "digits": "sign-in"}

    def right(query, k):
        return [next(gold for word, gold in GOLD.items() if word in query), "other"][:k]

    def half(query, k):
        return right(query, k) if "money" in query or "reach" in query else ["refunds", "payouts"]

    class Retriever:
        def retrieve(self, query):
            return [{"metadata": {"document": name}} for name in right(query, 2)]

    async def broken(query, k):
        if "crimson" in query:
            raise ValueError("the index is gone")
        return right(query, k)
"""


class Suite:
    """A project with a test file, and pytest run over it."""

    def __init__(self, tiny: Kbeval, pytester: pytest.Pytester) -> None:
        self._tiny = tiny
        self._pytester = pytester
        pytester.chdir()

    def __call__(self, tests: str, settings: str = "", *, options: tuple[str, ...] = ()) -> pytest.RunResult:
        folder = self._tiny.folder
        (folder / "kbeval.toml").write_text(settings)
        body = "\n".join(line.removeprefix("    ") for line in f"{ENGINES}\n{tests}".splitlines())
        (folder / "test_quality.py").write_text(body)
        # Installed, it is there by its entry point; from a checkout alone it has to be named.
        installed = any(each.value == MODULE for each in entry_points(group="pytest11"))
        named = () if installed else ("-p", MODULE)
        arguments = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *named, *options, "test_quality.py")
        os.chdir(folder)
        return self._pytester.run(*arguments, timeout=120)


@pytest.fixture
def suite(tiny: Kbeval, pytester: pytest.Pytester) -> Suite:
    return Suite(tiny, pytester)


def test_what_passes(suite: Suite, project_root: Path) -> None:
    result = suite(
        """
    def test_unused():
        import sys
        print("LOADED", sorted(name for name in sys.modules if name.startswith("kbeval")))

    def test_all(kbeval_evaluate):
        # first, first, and for q3 and q4 not at all: (1 + 1 + 0 + 0) / 4
        found = kbeval_evaluate(half)
        assert found.metrics["mrr"] == 0.5
        assert found.run_file.read_text().startswith("q1 Q0 refunds 1 ")
        found.assert_targets({"mrr": 0.5, "latency_p95_ms": 60000})

        retriever = kbeval_evaluate(Retriever(), id_from="metadata.document", k=2)
        assert retriever.metrics["mrr"] == 1
        kbeval_evaluate(right, k=2).assert_not_worse(retriever, {"mrr": 0.1})

        in_memory = kbeval_evaluate({"q1": ["refunds"], "q2": ["x", "payouts"]}, name="mine")
        assert (in_memory.metrics["mrr"], in_memory.run_file) == (0.375, None)
        assert kbeval_evaluate(found.run_file).metrics["mrr"] == 0.5
        assert kbeval_evaluate("bm25").metrics["mrr"] > 0.5
        assert kbeval_evaluate("python:test_quality:half").metrics == found.metrics
        found.assert_targets()  # those of kbeval.toml
    """,
        "[targets]\nmrr = 0.4\n",
        options=("-W", "error", "-s"),
    )
    result.assert_outcomes(passed=2)
    # Until a test asks for it, it costs nothing: ``import kbeval`` is the test file's own.
    loaded = re.search(r"LOADED (.*)", result.stdout.str())
    assert loaded
    assert set(re.findall(r"'([^']+)'", loaded[1])) == {"kbeval", "kbeval._version", "kbeval.errors", MODULE}
    declared = tomllib.loads((project_root / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    assert declared == {"kbeval": MODULE}


MISSED = [
    "> *kbeval_evaluate(half).assert_targets(*",
    "E *AssertionError: missed: MRR at least 0.8",
    "E *half: 4 questions, 0 errored, 0 missing",
    "E * MISSED *MRR at least 0.8: 0.500 [[]*[]]; the interval reaches the target, so it may be chance",
    # one relevant document a question: at most one of two
    "E * UNREACHABLE *Precision@2 at least 0.9: *; no ranking can pass 0.5000 on this test set",
    "E *The 2 worst of 2 questions on MRR:",
    'E *q3 "Why does the machine blink crimson?": 0.00',
    "E * wanted *printer (Receipt printer) (not found)",
    "E * found *1 refunds (Refunds), 2 payouts (Payouts)",
    'E *q4 "How many digits has a passcode?": 0.00',
    "FAILED test_quality.py::test_missed - AssertionError: missed: MRR at least 0.8*",
]


def test_what_fails_says_why(suite: Suite) -> None:
    result = suite(
        """
    def test_missed(kbeval_evaluate):
        kbeval_evaluate(half).assert_targets({"mrr": 0.8, "precision@2": 0.9})

    QRELS = {f"q{i:02}": {f"d{i}": 1} for i in range(30)}

    @pytest.fixture
    def data(tmp_path):
        (tmp_path / "qrels").mkdir()
        documents = [f'{{"_id": "d{i}", "title": "T{i}", "text": "text {i}"}}' for i in range(30)]
        queries = [f'{{"_id": "q{i:02}", "text": "question {i}"}}' for i in range(30)]
        judged = [f"q{i:02}\\td{i}\\t1" for i in range(30)]
        (tmp_path / "corpus.jsonl").write_text("\\n".join(documents))
        (tmp_path / "queries.jsonl").write_text("\\n".join(queries))
        (tmp_path / "qrels" / "test.tsv").write_text("\\n".join(["query-id\\tcorpus-id\\tscore", *judged]))
        return tmp_path

    def test_engine_failed(kbeval_evaluate):
        found = kbeval_evaluate(broken)
        assert found.errors == {"q3": "ValueError: the index is gone"}
        found.assert_targets({"mrr": 0.1})

    def test_regressed(kbeval_evaluate, data):
        old = {query: [*judged, "other"] for query, judged in QRELS.items()}
        new = {query: ids[::-1] if query < "q12" else ids for query, ids in old.items()}
        kbeval_evaluate(new, data).assert_not_worse(old, {"mrr": 0.05})

    def test_cannot_tell(kbeval_evaluate, data):
        old = {query: [*judged, "other"] for query, judged in QRELS.items()}
        new = {query: ids[::-1] if query < "q03" else ids for query, ids in old.items()}
        kbeval_evaluate(new, data, name="new").assert_not_worse(old, {"mrr": 0.05})
    """
    )
    result.assert_outcomes(failed=3, passed=1, warnings=1)
    assert "testing.py" not in result.stdout.str()  # a test's own lines, and none of kbeval's
    result.stdout.fnmatch_lines(
        [
            *MISSED[:-1],
            "E *AssertionError: errors in broken",
            "E *ERROR q3: ValueError: the index is gone",
            "E *AssertionError: regressed: MRR at most 0.05 worse than baseline run",
            # 12 of 30 questions fell from rank 1 to rank 2: -0.5 * 12 / 30
            "E *REGRESSED *: 0.800 against 1.000, difference by clusters -0.200 [[]*[]]*",
            "E *The 5 worst of 12 losses in MRR against baseline run:",
            'E *q00 "question 0": 1.00 before, 0.50 now',
            "E *wanted *d0 (T0) (at 2)",
            "E *found *1 other, 2 d0 (T0)",
            "*GateWarning: new: cannot tell: MRR at most 0.05 worse than run: 0.950 against 1.000*",
            MISSED[-1],
        ]
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("kbeval_evaluate(half).assert_targets({})", "expected at least one target*found none"),
        ("kbeval_evaluate(half).assert_targets({'mrrr': 1})", "*unknown metric 'mrrr' (nearest: mrr)*"),
        ("kbeval_evaluate(half).assert_targets({'mrr': '1'})", "*mrr: expected a number, found '1'"),
        ("kbeval_evaluate(half).assert_not_worse('b.trec', {'mrr': 1})", "baseline: expected a run*found 'b.trec'"),
        ("kbeval_evaluate(half).assert_not_worse(kbeval_evaluate(half, k=3), {'mrr': 1})", "*k = 3), found k = 20*"),
        ("kbeval_evaluate(7)", "*expected a callable or an object with retrieve or invoke, found int"),
        ("kbeval_evaluate('nothing')", "engine 'nothing': expected one of *"),
        ("kbeval_evaluate(half, 'elsewhere')", "elsewhere*expected *"),
        ("kbeval_evaluate({'q1': ['a']}, id_from='x')", "id_from: expected no setting for a run*"),
        ("kbeval_evaluate(half, id_form='x')", "*id_form*"),
    ],
)
def test_what_is_refused(tiny: Kbeval, monkeypatch: pytest.MonkeyPatch, call: str, message: str) -> None:
    from fnmatch import fnmatchcase

    from kbeval.errors import KbevalError
    from kbeval.testing import evaluate_engine

    monkeypatch.chdir(tiny.folder)

    def half(query: str, k: int) -> list[str]:
        return ["refunds"][:k]

    def evaluate(engine: object, dataset: str | None = None, **options: object) -> object:
        return evaluate_engine(engine, dataset, folder=tiny.folder / "tmp", **options)  # type: ignore[arg-type]

    with pytest.raises(KbevalError) as raised:
        eval(call, {"half": half, "kbeval_evaluate": evaluate})
    said = str(raised.value)
    assert "\n" not in said
    assert fnmatchcase(said, message), said
