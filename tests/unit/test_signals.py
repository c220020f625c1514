"""Signals, raised in this very process: pytest runs tests in the main thread."""

from __future__ import annotations

import signal
import threading

import pytest

from kbeval import signals
from kbeval.signals import interruptible, uninterrupted


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_becomes_an_exit_that_runs_every_finally(number: signal.Signals, code: int) -> None:
    cleaned = []
    with pytest.raises(SystemExit) as caught, interruptible():  # noqa: PT012
        try:
            signal.raise_signal(number)
        finally:
            cleaned.append(True)
    assert caught.value.code == code
    assert cleaned == [True]


def test_ctrl_c_stays_a_keyboard_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt), interruptible():
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_second_signal_does_not_abort_the_clean_up(second: signal.Signals) -> None:
    steps = []
    with pytest.raises(SystemExit) as caught, interruptible():  # noqa: PT012
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(second)
            steps.append("cleaned")
    assert caught.value.code == 143
    assert steps == ["cleaned"]


def test_a_much_later_signal_interrupts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "REPEAT_SECONDS", 0.0)
    with pytest.raises(KeyboardInterrupt), interruptible():  # noqa: PT012
        try:
            signal.raise_signal(signal.SIGTERM)
        except SystemExit:  # swallowed by somebody's code
            signal.raise_signal(signal.SIGINT)


def test_each_block_starts_anew() -> None:
    for _ in range(2):
        with pytest.raises(SystemExit), interruptible():
            signal.raise_signal(signal.SIGTERM)


def test_handlers_are_put_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with interruptible():
        assert signal.getsignal(signal.SIGTERM) not in before
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


def test_an_ignored_signal_stays_ignored() -> None:
    """As under nohup, and for a background job of a script."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_signal_waits_for_what_must_be_whole() -> None:
    steps = []
    with pytest.raises(SystemExit) as caught, interruptible():  # noqa: PT012
        with uninterrupted():
            with uninterrupted():
                signal.raise_signal(signal.SIGTERM)
                steps.append("inner")
            signal.raise_signal(signal.SIGINT)
            steps.append("outer")
        steps.append("never")
    assert steps == ["inner", "outer"]
    assert caught.value.code == 143  # the first one counts


def test_a_signal_that_waits_replaces_no_error() -> None:
    with pytest.raises(SystemExit) as caught, interruptible(), uninterrupted():  # noqa: PT012
        signal.raise_signal(signal.SIGTERM)
        raise ValueError("disk on fire")
    assert isinstance(caught.value.__context__, ValueError)


def test_other_threads_are_left_alone() -> None:
    steps = []

    def work() -> None:
        with interruptible(), uninterrupted():
            steps.append(signal.getsignal(signal.SIGTERM))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert steps == [before]
