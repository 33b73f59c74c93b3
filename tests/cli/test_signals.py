"""Signals end a command the way Ctrl-C does, and do not disturb its cleanup."""

import signal

import pytest

from holdfast.cli.signals import end_on_signals, undisturbed


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_request_to_end_is_an_interrupt_that_knows_its_signal(number: signal.Signals) -> None:
    with end_on_signals() as ended_by:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
        assert ended_by() == number
    assert signal.getsignal(number) is signal.SIG_DFL


def test_an_interrupt_is_an_interrupt() -> None:
    with end_on_signals() as ended_by:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert ended_by() == signal.SIGINT


def test_a_signal_that_was_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with end_on_signals():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_cleanup_is_interrupted_only_after_its_end() -> None:
    steps: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        clean_up_and_go_on(steps)
    assert steps == ["cleaned up"]


def clean_up_and_go_on(steps: list[str]) -> None:
    with undisturbed():
        signal.raise_signal(signal.SIGINT)
        steps.append("cleaned up")
    steps.append("went on")
