"""What a running function is given."""

import logging
import math
from collections.abc import Iterator

import msgspec
import pytest

from holdfast.client.both import LoopThread
from holdfast.client.context import Connection, Context, current
from holdfast.client.transport import Transport
from holdfast.errors import Invalid, LeaseConflict
from tests.client.contexts import TOKEN, build_context
from tests.client.peer import Peer, Say

SAVED = Say(body=b'{"checkpoint": {"page": 7}, "attempt": 2}')
NOTHING = Say(body=b'{"checkpoint": null}')
LOST = Say(
    409, b'{"error": {"code": "lease_conflict", "message": "task 4182.7: the lease is lost"}}'
)


@pytest.fixture
def context(stranger: Peer) -> Iterator[Context]:
    """The context of an attempt whose server is the stranger."""
    thread = LoopThread("calls")
    transport = Transport(stranger.url)
    thread.run(transport.__aenter__())
    yield build_context(stranger.url, connection=lambda: Connection(transport, thread))
    thread.stop(transport.__aexit__())


def test_a_function_knows_who_it_is(a_context: Context) -> None:
    assert (a_context.job_id, a_context.task_id, a_context.task_index) == ("4182", "4182.7", 7)
    assert a_context.attempt == 3
    assert a_context.deadline is not None
    assert build_context("http://here", deadline=None).deadline is None


def test_a_function_hears_that_it_should_stop() -> None:
    asked: list[bool] = []
    context = build_context("http://here", is_cancelled=lambda: bool(asked))
    assert not context.cancelled
    asked.append(True)
    assert context.cancelled


def test_a_function_says_how_far_it_is() -> None:
    noted: list[tuple[float, str | None]] = []
    context = build_context("http://here", note_progress=lambda *word: noted.append(word))
    context.progress(0)
    context.progress(0.5, "half")
    context.progress(1)
    assert noted == [(0.0, None), (0.5, "half"), (1.0, None)]


@pytest.mark.parametrize("fraction", [-0.1, 1.1, math.nan])
def test_progress_beyond_all_or_nothing_is_refused(a_context: Context, fraction: float) -> None:
    with pytest.raises(ValueError, match="is not from 0 to 1"):
        a_context.progress(fraction)


def test_a_log_line_carries_the_ids(a_context: Context, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "holdfast.task"):
        a_context.log.info("sent %d", 3)
    [record] = caplog.records
    assert record.getMessage() == "sent 3"
    fields = ("task_id", "attempt", "correlation_id")
    assert [getattr(record, name) for name in fields] == ["4182.7", 3, "c-1"]


def test_a_checkpoint_is_saved(context: Context, stranger: Peer) -> None:
    stranger.script = [SAVED]
    context.checkpoint.save({"page": 7})
    [heard] = stranger.heard
    assert heard.path == "/internal/checkpoint-save"
    assert heard.json == {
        "task_id": "4182.7",
        "attempt": 3,
        "lease_token": str(TOKEN),
        "checkpoint": {"page": 7},
    }


async def test_a_checkpoint_is_loaded_by_both_faces(context: Context, stranger: Peer) -> None:
    stranger.script = [SAVED]
    assert context.checkpoint.load() == await context.checkpoint.load.aio() == {"page": 7}
    assert {heard.path for heard in stranger.heard} == {"/internal/checkpoint-load"}
    assert msgspec.json.decode(stranger.heard[0].body)["attempt"] == 3


def test_no_checkpoint_is_none(context: Context, stranger: Peer) -> None:
    stranger.script = [NOTHING]
    assert context.checkpoint.load() is None


async def test_a_checkpoint_that_comes_too_late_is_refused(
    context: Context, stranger: Peer
) -> None:
    stranger.script = [LOST]
    with pytest.raises(LeaseConflict):
        context.checkpoint.save(1)
    with pytest.raises(LeaseConflict):
        await context.checkpoint.save.aio(1)


def test_a_checkpoint_of_an_object_is_refused(context: Context, stranger: Peer) -> None:
    with pytest.raises(Invalid) as caught:
        context.checkpoint.save(object())
    assert caught.value.field == "checkpoint"
    assert stranger.heard == []


def test_outside_of_a_task_there_is_no_context() -> None:
    assert current.get() is None
