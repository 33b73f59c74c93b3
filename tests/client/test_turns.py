"""`ctx.limit`: it waits for its turn, puts the task off if that is too late, and hears a cancel."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from holdfast.client.both import LoopThread
from holdfast.client.context import Connection, Context
from holdfast.client.transport import Transport
from holdfast.errors import RetryAfter, TransientError
from tests.client.contexts import TOKEN, build_context
from tests.client.peer import Peer, Say

AT_ONCE = Say(body=b'{"granted": true, "wait_seconds": 0.0}')


@pytest.fixture
def cancelled() -> list[bool]:
    """Not empty once the attempt was asked to stop."""
    return []


@pytest.fixture
def context(stranger: Peer, cancelled: list[bool]) -> Iterator[Context]:
    """The context of an attempt whose server is the stranger."""
    thread = LoopThread("calls")
    transport = Transport(stranger.url)
    thread.run(transport.__aenter__())
    yield build_context(
        stranger.url,
        connection=lambda: Connection(transport, thread),
        is_cancelled=lambda: bool(cancelled),
    )
    thread.stop(transport.__aexit__())


def test_it_asks_in_the_name_of_the_attempt(context: Context, stranger: Peer) -> None:
    stranger.script = [AT_ONCE]
    context.limit("stripe", 2, patience=5)
    [asked] = stranger.heard
    assert asked.path == "/internal/limit-take"
    assert asked.json == {
        "task_id": "4182.7",
        "attempt": 3,
        "lease_token": str(TOKEN),
        "name": "stripe",
        "count": 2,
        "patience": 5,
    }


def test_it_waits_for_its_turn_by_either_face(context: Context, stranger: Peer) -> None:
    stranger.script = [Say(body=b'{"granted": true, "wait_seconds": 0.3}')]
    begun = time.monotonic()
    context.limit("s")
    assert time.monotonic() - begun >= 0.3
    asyncio.run(context.limit.aio("s"))
    assert time.monotonic() - begun >= 0.6


def test_a_turn_that_comes_too_late_puts_the_task_off_until_then(
    context: Context, stranger: Peer
) -> None:
    for answer, seconds in ((b"90.5", 90.5), (b"0.1", 1.0), (b"null", 60.0)):
        stranger.script = [Say(body=b'{"granted": false, "wait_seconds": %s}' % answer)]
        with pytest.raises(
            RetryAfter, match="limit stripe has nothing for this task within"
        ) as put:
            context.limit("stripe")
        assert (put.value.seconds, put.value.free) == (seconds, True)


def test_who_is_asked_to_stop_does_not_wait(
    context: Context, stranger: Peer, cancelled: list[bool]
) -> None:
    stranger.script = [Say(body=b'{"granted": true, "wait_seconds": 50.0}')]
    cancelled.append(True)
    with pytest.raises(TransientError, match="asked to stop while it waited for limit stripe"):
        context.limit("stripe")
