"""Tasks of other processes: their order, their errors, and what goes to them."""

from __future__ import annotations

import os
import pickle
import signal
import time
from pathlib import Path

import pytest

from kbeval.engines.registry import plan_engines
from kbeval.errors import InputError, KbevalError
from kbeval.running.elsewhere import Recipe, answer_batch
from kbeval.running.policy import Policy
from kbeval.store import Attachment, Store, attached_store
from kbeval.workers import Tasks, WorkerLostError, in_order, local_processes


def squared_late(number: int) -> int:
    time.sleep(0.02 * (number % 3))
    return number * number


def refuse(number: int) -> int:
    if number == 2:
        raise ValueError("two")
    return number


def die(_: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


def test_results_come_in_the_order_of_what_was_asked() -> None:
    with local_processes(2) as workers:
        assert list(in_order(workers, squared_late, ((n,) for n in range(12)))) == [n * n for n in range(12)]
        assert list(in_order(workers, squared_late, ())) == []
        with pytest.raises(ValueError, match="two"):
            list(in_order(workers, refuse, ((n,) for n in range(5))))
        assert list(in_order(workers, squared_late, [(3,)])) == [9]  # they go on


def test_a_task_that_kills_its_process_is_given_up_and_the_others_are_done() -> None:
    with local_processes(2) as workers:
        tasks = Tasks(workers)
        tasks.start("dead", die, 0)
        for number in range(4):
            tasks.start(number, squared_late, number)
        found = {}
        while tasks:
            for key, result, error in tasks.next():
                found[key] = (result, type(error))
    assert found["dead"] == (None, WorkerLostError)
    # Those that died with it were done again alone.
    assert [found[number] for number in range(4)] == [(number * number, type(None)) for number in range(4)]


def test_nothing_secret_goes_to_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(dsn="host=db.example dbname=kb user=ann password=hunter2", schema="kbeval_1", _facts={})
    recipe = Recipe(
        "s", plan_engines(["bm25"], {"bm25": {"type": "bm25"}})[0], Path(), store.attachment(), 5, Policy(), None
    )
    assert b"hunter2" not in pickle.dumps(recipe)
    # The worker's own environment has it.
    monkeypatch.setenv("KBEVAL_DSN", "postgresql://ann:hunter3@elsewhere/x")
    monkeypatch.setenv("KBEVAL_STORE_DSN", "")
    attached = attached_store(recipe.store)
    assert attached.attached
    assert "password=hunter3" in attached.dsn
    assert "host=db.example" in attached.dsn


def test_another_version_of_kbeval_is_told() -> None:
    plan = plan_engines(["bm25"], {"bm25": {"type": "bm25"}})[0]
    recipe = Recipe("s", plan, Path(), Attachment("dbname=x", "y", {}), 5, Policy(), None, version="0.0.1")
    with pytest.raises(KbevalError, match=r"a worker runs kbeval .*, expected 0\.0\.1") as raised:
        answer_batch(recipe, [])
    assert not isinstance(raised.value, InputError)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)
