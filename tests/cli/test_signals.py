"""Signals end a command the way Ctrl-C does, and do not disturb its cleanup."""

import signal
from collections.abc import Iterator

import pytest

from holdfast.cli.signals import end_on_signals, undisturbed


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Leave the test process's signals as they were."""
    chosen = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    before = {number: signal.getsignal(number) for number in chosen}
    for number in chosen[:2]:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_request_to_end_is_an_interrupt_that_knows_its_signal(number: signal.Signals) -> None:
    with end_on_signals() as ended_by:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
        assert ended_by() == number


def test_a_request_to_end_reaches_a_command_that_ctrl_c_does_not() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with end_on_signals() as ended_by:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        assert ended_by() == signal.SIGTERM


def test_a_repeated_request_to_end_changes_nothing() -> None:
    with end_on_signals() as ended_by:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGHUP)
    signal.raise_signal(signal.SIGTERM)
    assert ended_by() == signal.SIGTERM


def test_without_a_signal_everything_is_as_before() -> None:
    with end_on_signals():
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_an_interrupt_is_an_interrupt() -> None:
    with end_on_signals() as ended_by:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert ended_by() == signal.SIGINT


def test_a_signal_that_was_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with end_on_signals():
        signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


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
