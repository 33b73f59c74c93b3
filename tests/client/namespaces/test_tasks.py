"""`client.tasks` on a real server."""

from collections.abc import Callable

import pytest

from holdfast.client import deadline
from holdfast.client.client import Client
from holdfast.errors import Invalid, NotFound
from tests.client.hand import Hand
from tests.client.namespaces.conftest import Face


def test_a_task_is_read_with_its_attempts_and_events(
    call: Face, client: Client, hand: Hand, submit: Callable[..., str]
) -> None:
    job_id = submit(3)
    hand.work("one")
    task = call(client.tasks.get, f"{job_id}.0")
    assert [attempt.worker_id for attempt in task.attempts or []] == ["hand-1"]
    assert call(client.tasks.result, f"{job_id}.0", wait=10).is_finished
    assert not call(client.tasks.result, f"{job_id}.1").is_finished
    assert "PENDING" in call(client.tasks.explain, f"{job_id}.1").lines[0]
    events = call(client.tasks.events, f"{job_id}.0").events
    assert [event.type for event in events] == ["claimed", "started", "succeeded"]


def test_events_of_user_code_are_listed_with_what_they_carry(
    call: Face, client: Client, hand: Hand, submit: Callable[..., str]
) -> None:
    job_id = submit()
    claim = hand.claim()
    hand.tell(claim, "loaded", {"rows": 7})
    hand.finish(claim)
    for listed in (
        call(client.tasks.events, f"{job_id}.0", type="user"),
        call(client.jobs.events, job_id, type="user"),
        call(client.events.list, type="user"),
    ):
        told = [(e.job_id, e.type, bytes(e.payload)) for e in listed.events if e.job_id == job_id]
        assert told == [(job_id, "user:loaded", b'{"rows":7}')]


def test_a_question_goes_with_an_explanation(
    call: Face, client: Client, submit: Callable[..., str]
) -> None:
    task_id = f"{submit()}.0"
    assert call(client.tasks.explain, task_id).what_if is None
    what_if = call(client.tasks.explain, task_id, cpu=8, memory=4000).what_if
    assert what_if is not None
    assert what_if.supposed == "with 8 cpu, with 4kB memory"
    with pytest.raises(Invalid, match="gpu: goes with placed work"):
        call(client.tasks.explain, task_id, gpu=1)
    with pytest.raises(Invalid, match="no worker x serves queue"):
        call(client.tasks.explain, task_id, without_worker="x")


def test_tasks_of_a_job_are_listed_by_index(
    call: Face, client: Client, hand: Hand, submit: Callable[..., str]
) -> None:
    job_id = submit(3)
    hand.work("one")
    first = call(client.tasks.list, job_id, count_max=2)
    assert [task.task_index for task in first.tasks] == [0, 1]
    assert first.next_page_token is not None
    waiting = call(client.tasks.list, job_id, state="pending", task_from=2)
    assert [task.task_index for task in waiting.tasks] == [2]


def test_a_log_is_read_from_an_offset(
    call: Face, client: Client, hand: Hand, submit: Callable[..., str]
) -> None:
    job_id = submit()
    before = call(client.tasks.read_log, f"{job_id}.0")
    assert (before.attempt, before.is_complete) == (-1, False)
    hand.print(hand.claim(), b"one\ntwo\n")
    chunk = call(client.tasks.read_log, f"{job_id}.0", attempt=0, offset=4, follow=True)
    assert (chunk.content, chunk.next_offset) == (b"two\n", 8)


def test_a_task_is_cancelled_once(call: Face, client: Client, submit: Callable[..., str]) -> None:
    job_id = submit(2)
    assert call(client.tasks.cancel, f"{job_id}.0", "soft", "first", idempotency_key="k")
    assert call(client.tasks.cancel, f"{job_id}.0", "soft", "first", idempotency_key="k")
    assert not call(client.tasks.cancel, f"{job_id}.0")


def test_what_is_no_task_is_refused(call: Face, client: Client) -> None:
    with pytest.raises(NotFound):
        call(client.tasks.get, "999999.0")
    with pytest.raises(Invalid):
        call(client.tasks.get, "999999")


def test_a_wait_may_be_longer_than_one_request(
    call: Face,
    client: Client,
    hand: Hand,
    submit: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deadline, "STEP_SECONDS", 0.05)
    job_id = submit()
    assert not call(client.tasks.result, f"{job_id}.0", wait=0.2).is_finished
    hand.work("one")
    assert call(client.tasks.result, f"{job_id}.0", wait=3600).is_finished
