"""What a running function is given."""

import logging
import math
import sys
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from holdfast.client.both import LoopThread
from holdfast.client.client import Client, close_shared, find_client
from holdfast.client.context import Connection, Context, Lease, current, find_lease
from holdfast.client.transport import Transport
from holdfast.errors import IllegalMove, Invalid, LeaseConflict
from tests.client import app
from tests.client.contexts import TOKEN, build_context
from tests.client.peer import Peer, Say

SAVED = Say(body=b'{"checkpoint": {"page": 7}, "attempt": 2}')
NOTHING = Say(body=b'{"checkpoint": null}')
LOST = Say(
    409, b'{"error": {"code": "lease_conflict", "message": "task 4182.7: the lease is lost"}}'
)

PUBLISHED = Say(
    body=b'{"name": "db", "address": "a:1", "task_id": "4182.7", "attempt": 3, '
    b'"registered_at_ms": 1}'
)
TAKEN = Say(
    409,
    b'{"error": {"code": "illegal_move", '
    b'"message": "cannot publish endpoint db: it is held by attempt 1.0.0, which runs"}}',
)
FENCE = {"task_id": "4182.7", "attempt": 3, "lease_token": str(TOKEN)}
LEASE = Lease("4182.7", 3, TOKEN)


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
    identity = a_context.identity
    assert a_context.correlation_id == identity.correlation_id
    assert a_context.trace_id == identity.trace_id
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


def test_a_text_is_logged_with_what_there_is_to_say_whatever_others_log(
    a_context: Context, caplog: pytest.LogCaptureFixture
) -> None:
    a_context.log("100% loaded", rows=3, source="a b")
    [record] = caplog.records
    assert (record.levelname, record.funcName) == ("INFO", sys._getframe().f_code.co_name)
    assert record.getMessage() == "100% loaded rows=3 source=a b"
    assert (record.task_id, record.attempt) == ("4182.7", 3)  # type: ignore[attr-defined]


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


async def test_an_event_is_written_by_both_faces(context: Context, stranger: Peer) -> None:
    stranger.script = [Say(body=b"{}")]
    context.event("loaded", rows=3)
    await context.event.aio("done")
    first, second = (heard.json for heard in stranger.heard)
    assert {heard.path for heard in stranger.heard} == {"/internal/task-event"}
    assert first.pop("idempotency_key") != second.pop("idempotency_key")
    assert first == {**FENCE, "kind": "loaded", "payload": {"rows": 3}}
    assert second == {**FENCE, "kind": "done", "payload": {}}


def test_an_event_of_an_object_or_of_an_attempt_that_has_ended_is_refused(
    context: Context, stranger: Peer
) -> None:
    with pytest.raises(Invalid) as caught:
        context.event("loaded", rows=object())
    assert (caught.value.field, stranger.heard) == ("payload", [])
    stranger.script = [LOST]
    with pytest.raises(LeaseConflict):
        context.event("loaded")


def test_outside_of_a_task_there_is_no_context() -> None:
    assert current.get() is None


async def test_an_address_is_published_by_both_faces(context: Context, stranger: Peer) -> None:
    stranger.script = [PUBLISHED]
    context.register_endpoint("db", "a:1")
    await context.register_endpoint.aio("db", "a:1", {"scheme": "http", "ports": (1, 2)})
    plain, described = stranger.heard
    assert (plain.path, described.path) == ("/internal/endpoint-register",) * 2
    assert plain.json == {**FENCE, "name": "db", "address": "a:1"}
    assert described.json["metadata"] == {"scheme": "http", "ports": [1, 2]}


async def test_an_address_is_taken_back_by_both_faces(context: Context, stranger: Peer) -> None:
    stranger.script = [Say(body=b'{"changed": true}'), Say(body=b'{"changed": false}')]
    assert context.remove_endpoint("db")
    assert not await context.remove_endpoint.aio("db")
    assert {heard.path for heard in stranger.heard} == {"/internal/endpoint-remove"}
    assert stranger.heard[0].json == {**FENCE, "name": "db"}


def test_a_name_that_is_taken_and_a_lease_that_is_lost_are_told_apart(
    context: Context, stranger: Peer
) -> None:
    stranger.script = [TAKEN, LOST]
    with pytest.raises(IllegalMove, match=r"held by attempt 1\.0\.0"):
        context.register_endpoint("db", "a:1")
    with pytest.raises(LeaseConflict):
        context.register_endpoint("db", "a:1")


@pytest.mark.parametrize("metadata", [{"a": object()}, {"a": math.nan}])
def test_metadata_that_is_no_json_is_refused_here(
    context: Context, stranger: Peer, metadata: dict[str, Any]
) -> None:
    with pytest.raises(Invalid) as caught:
        context.register_endpoint("db", "a:1", metadata)
    assert caught.value.field == "metadata"
    assert stranger.heard == []


async def test_a_child_is_submitted_by_both_faces(stranger: Peer) -> None:
    """Whatever thread it is in: here nobody has set the context."""
    stranger.script = [Say(201, b'{"job_id": "7", "is_new": true, "num_tasks": 1}')]
    context = build_context(stranger.url)
    try:
        assert context.submit(app.double, 1).id == "7"
        assert (await context.submit.aio(app.greet, "ada", greeting="hi")).num_tasks == 1
    finally:
        close_shared(stranger.url)
    assert [heard.headers["Holdfast-Lease"] for heard in stranger.heard] == [str(LEASE)] * 2
    assert stranger.heard[1].json["entrypoint"] == {
        "function": "tests.client.app:greet",
        "args": ["ada"],
        "kwargs": {"greeting": "hi"},
    }


def command(monkeypatch: pytest.MonkeyPatch, **changes: str) -> None:
    """Be a command of a task, as far as its variables tell."""
    variables = {
        "HOLDFAST_SERVER": "http://here:1",
        "HOLDFAST_TASK_ID": "4182.7",
        "HOLDFAST_ATTEMPT": "3",
        "HOLDFAST_LEASE_TOKEN": str(TOKEN),
    }
    for name, text in (variables | changes).items():
        monkeypatch.setenv(name, text)


def test_a_command_finds_its_lease_in_its_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_lease("http://here:1") is None
    command(monkeypatch)
    assert find_lease("http://here:1") == LEASE
    assert find_lease("http://elsewhere:1") is None
    monkeypatch.delenv("HOLDFAST_LEASE_TOKEN")
    assert find_lease("http://here:1") is None


def test_a_function_finds_its_lease_before_that_of_its_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    command(monkeypatch, HOLDFAST_TASK_ID="1.0")
    token = current.set(build_context("http://here:1"))
    try:
        assert find_lease("http://here:1") == LEASE
    finally:
        current.reset(token)


@pytest.mark.parametrize("name", ["HOLDFAST_ATTEMPT", "HOLDFAST_LEASE_TOKEN"])
def test_variables_that_are_no_lease_are_refused(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    command(monkeypatch, **{name: "x"})
    with pytest.raises(Invalid, match=name):
        find_lease("http://here:1")


OWN_TOKEN, WORKERS_TOKEN = (f"hf_{digit * 12}_{digit * 64}" for digit in "12")
DONE = Say(
    200,
    b'{"name": "db", "address": "a:1", "task_id": "1.0", "attempt": 0, "registered_at_ms": 1}',
)


def shown_by(stranger: Peer) -> list[tuple[str | None, str | None]]:
    """List the tokens and leases that were shown."""
    names = ("Authorization", "Holdfast-Lease")
    return [(heard.headers.get(names[0]), heard.headers.get(names[1])) for heard in stranger.heard]


def test_a_function_shows_its_lease_and_never_the_token_of_its_worker(
    context: Context, stranger: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_TOKEN", WORKERS_TOKEN)
    stranger.script = [DONE]
    reset = current.set(context)
    try:
        context.register_endpoint("db", "a:1")
        find_client().endpoint("db")
        with Client() as client:
            client.endpoint("db")
            in_thread = threading.Thread(target=client.endpoint, args=["db"])
            in_thread.start()
            in_thread.join()
    finally:
        current.reset(reset)
        close_shared(stranger.url)
    assert shown_by(stranger) == [(None, str(LEASE))] * 4


def test_a_lease_is_not_shown_to_another_server_nor_is_the_workers_token(
    stranger: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_TOKEN_FILE", "/nonexistent")  # the worker's: not even read
    stranger.script = [DONE]
    reset = current.set(build_context("http://127.0.0.1:1"))
    try:
        with Client(stranger.url) as client:
            client.endpoint("db")
    finally:
        current.reset(reset)
    assert shown_by(stranger) == [(None, None)]


def test_a_job_may_have_a_token_of_its_own(stranger: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_TOKEN", WORKERS_TOKEN)
    stranger.script = [DONE]
    context = build_context(stranger.url, environment={"HOLDFAST_TOKEN": OWN_TOKEN})
    reset = current.set(context)
    try:
        find_client().endpoint("db")
    finally:
        current.reset(reset)
        close_shared(stranger.url)
    assert shown_by(stranger) == [(f"Bearer {OWN_TOKEN}", None)]


def test_a_command_shows_its_lease_unless_it_has_a_token(
    stranger: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    command(monkeypatch, HOLDFAST_SERVER=stranger.url)
    stranger.script = [DONE]
    with Client() as client:
        client.endpoint("db")
    monkeypatch.setenv("HOLDFAST_TOKEN", OWN_TOKEN)
    with Client() as client:
        client.endpoint("db")
    assert shown_by(stranger) == [(None, str(LEASE)), (f"Bearer {OWN_TOKEN}", None)]
