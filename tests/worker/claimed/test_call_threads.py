"""Calls in threads: all that wait do so at once, and an idle thread takes what comes."""

import threading
from collections.abc import Iterator
from functools import partial

import pytest

from holdfast.worker.claimed.call_threads import CallThreads

NAME = "test-calls"
SECONDS_MAX = 20


@pytest.fixture
def threads() -> Iterator[CallThreads]:
    opened = CallThreads(5, NAME)
    yield opened
    opened.close()


def list_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(NAME)]


def test_as_many_calls_as_there_are_threads_wait_at_once(threads: CallThreads) -> None:
    for _ in range(3):
        met = threading.Barrier(6)
        threads.submit([partial(met.wait, SECONDS_MAX)] * 5)
        met.wait(SECONDS_MAX)
    assert len(list_threads()) == 5


def test_calls_that_come_one_by_one_meet_as_well(threads: CallThreads) -> None:
    for _ in range(3):
        met = threading.Barrier(6)
        for _ in range(5):
            threads.submit([partial(met.wait, SECONDS_MAX)])
        met.wait(SECONDS_MAX)


def test_more_calls_than_threads_are_made_in_turn(threads: CallThreads) -> None:
    made: list[int] = []
    over = threading.Event()
    go = threading.Event()
    threads.submit([partial(over.wait, SECONDS_MAX)] * 4)
    threads.submit([partial(go.wait, SECONDS_MAX)])
    threads.submit([partial(made.append, number) for number in range(50)])
    threads.submit([over.set])
    assert not over.is_set()
    go.set()  # one thread is enough for what is short
    assert over.wait(SECONDS_MAX)
    assert made == list(range(50))


def test_a_call_may_wait_for_one_that_it_submits(threads: CallThreads) -> None:
    over = threading.Event()

    def submit() -> None:
        inner = threading.Event()
        threads.submit([inner.set])
        if inner.wait(SECONDS_MAX):
            over.set()

    threads.submit([submit])
    assert over.wait(SECONDS_MAX)


def test_closed_threads_end_and_make_no_more_calls() -> None:
    threads = CallThreads(2, NAME)
    made: list[int] = []
    met, go = threading.Barrier(3), threading.Event()

    def wait() -> None:
        met.wait(SECONDS_MAX)
        go.wait(SECONDS_MAX)

    threads.submit([wait, wait])
    met.wait(SECONDS_MAX)
    threads.submit([partial(made.append, 1)])
    running = list_threads()
    threads.close()
    threads.submit([partial(made.append, 2)])
    go.set()
    for thread in running:
        thread.join(SECONDS_MAX)
    assert (list_threads(), made) == ([], [])


def test_idle_threads_end_when_closed() -> None:
    threads = CallThreads(3, NAME)
    met = threading.Barrier(4)
    threads.submit([partial(met.wait, SECONDS_MAX)] * 3)
    met.wait(SECONDS_MAX)
    running = list_threads()
    threads.close()
    for thread in running:
        thread.join(SECONDS_MAX)
    assert list_threads() == []
