"""Calls in threads: what they return or raise, and how they are interrupted.

That an interruption which comes late hits nothing else is shown with the runner of functions.
"""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from holdfast.worker.claimed.interruptible import InterruptibleCall
from holdfast.worker.running.function import TaskStopped

SECONDS_MAX = 60.0


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    """One thread, for one call after another."""
    with ThreadPoolExecutor(1) as thread:
        yield thread


def test_what_is_returned_or_raised_is_the_answer(thread: ThreadPoolExecutor) -> None:
    assert thread.submit(InterruptibleCall(lambda: 5)).result() == (5, None)
    problem = KeyboardInterrupt()

    def fail() -> None:
        raise problem

    assert thread.submit(InterruptibleCall(fail)).result() == (None, problem)


def test_a_call_that_was_interrupted_before_it_began_is_not_made(
    thread: ThreadPoolExecutor,
) -> None:
    made: list[int] = []
    call = InterruptibleCall(lambda: made.append(1))
    call.interrupt()
    answer, error = thread.submit(call).result()
    assert answer is None
    assert isinstance(error, TaskStopped)
    assert not made


def test_a_call_is_interrupted_between_two_steps_as_often_as_is_asked(
    thread: ThreadPoolExecutor,
) -> None:
    steps = threading.Semaphore(0)
    times = 0

    def go_on() -> None:
        nonlocal times
        while True:
            try:
                steps.release()
                wait_in_steps()
            except TaskStopped:
                times += 1
                if times == 2:
                    raise

    call = InterruptibleCall(go_on)
    running: Future[Any] = thread.submit(call)
    for _ in range(2):
        assert steps.acquire(timeout=SECONDS_MAX)
        call.interrupt()
    answer, error = running.result(SECONDS_MAX)
    assert (answer, type(error), times) == (None, TaskStopped, 2)


def wait_in_steps() -> None:
    """Wait to be interrupted."""
    ends_at = time.monotonic() + SECONDS_MAX
    while time.monotonic() < ends_at:
        time.sleep(0.005)


def test_an_interruption_after_the_end_hits_nobody(thread: ThreadPoolExecutor) -> None:
    call = InterruptibleCall(lambda: 1)
    assert thread.submit(call).result() == (1, None)
    call.interrupt()
    assert thread.submit(sum, [1, 2]).result() == 3
