"""What operators ask of a real server."""

import msgspec
import pytest

from holdfast.client import admin
from holdfast.client.client import Client
from holdfast.client.context import Lease
from holdfast.errors import Invalid, KeyReused, NotFound
from holdfast.model.spec import Entrypoint
from holdfast.wire.answers import ClaimedTask
from holdfast.wire.requests import (
    DeadLetterFilter,
    DeadLetterListQuery,
    EventListQuery,
    JobListQuery,
    JobRequest,
    TaskListQuery,
)
from tests.client.hand import Hand

ANY_JOB = JobListQuery()
ANY_LETTER = DeadLetterListQuery()


def submit(client: Client, count: int = 1) -> str:
    """Submit a job of so many tasks into the queue of the worker by hand."""
    inputs = [msgspec.Raw(str(number).encode()) for number in range(count)]
    request = JobRequest(entrypoint=Entrypoint(function="m:f"), queue="q", inputs=inputs)
    return admin.submit_spec(client, request).job_id


def test_a_spec_is_submitted_once_even_if_it_is_sent_twice(client: Client) -> None:
    request = JobRequest(entrypoint=Entrypoint(shell="true"), queue="q", idempotency_key="k")
    first, second = admin.submit_spec(client, request), admin.submit_spec(client, request)
    assert (first.is_new, second.is_new) == (True, False)
    assert first.job_id == second.job_id
    assert submit(client) != submit(client)


def test_jobs_are_listed_over_pages_up_to_the_number_asked_for(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin, "PAGE_MAX", 2)
    ids = [submit(client) for _ in range(5)]
    page = admin.list_jobs(client, ANY_JOB, 5)
    assert [job.job_id for job in page.jobs] == ids[::-1]
    assert admin.list_jobs(client, ANY_JOB, 100).next_page_token is None
    short = admin.list_jobs(client, ANY_JOB, 3)
    assert [job.job_id for job in short.jobs] == ids[:1:-1]
    assert short.next_page_token is not None


def test_a_job_its_tasks_and_events_are_read(client: Client, hand: Hand) -> None:
    job_id = submit(client, 3)
    hand.work("one")
    assert admin.get_job(client, job_id).tasks_succeeded == 1
    tasks = admin.list_tasks(client, job_id, TaskListQuery(), count_max=2).tasks
    assert [task.task_id for task in tasks] == [f"{job_id}.0", f"{job_id}.1"]
    task = admin.get_task(client, f"{job_id}.0")
    assert [attempt.worker_id for attempt in task.attempts or []] == ["hand-1"]
    assert admin.get_result(client, f"{job_id}.0").is_finished
    assert "PENDING" in admin.explain_task(client, f"{job_id}.1").lines[0]
    own = admin.list_events(client, f"{job_id}.0", EventListQuery(), count_max=100).events
    whole = admin.list_events(client, job_id, EventListQuery(), count_max=100).events
    assert [event.type for event in own] == ["claimed", "started", "succeeded"]
    assert len(whole) > len(own)


def test_a_log_is_read_from_an_offset(client: Client, hand: Hand) -> None:
    job_id = submit(client)
    before = admin.read_log(client, f"{job_id}.0", attempt=None, offset=0, follow=False)
    assert (before.attempt, before.is_complete) == (-1, False)
    claim = hand.claim()
    hand.print(claim, b"one\ntwo\n")
    chunk = admin.read_log(client, f"{job_id}.0", attempt=0, offset=4, follow=True)
    assert (chunk.content, chunk.next_offset) == (b"two\n", 8)


def test_jobs_and_tasks_are_cancelled_by_their_ids(client: Client) -> None:
    job_id = submit(client, 2)
    assert admin.cancel(client, f"{job_id}.0", "soft", reason="first")
    assert not admin.cancel(client, f"{job_id}.0", "soft", reason="again")
    assert admin.cancel(client, job_id, "hard", reason="all")
    assert admin.get_job(client, job_id, wait_seconds=10).state == "JOB_STATE_KILLED"
    with pytest.raises(NotFound):
        admin.cancel(client, "999999", "soft", reason="none")


def test_a_queue_is_paused_and_resumed(client: Client) -> None:
    admin.pause_queue(client, "team/mail:eu")
    [queue] = admin.list_queues(client).queues
    assert (queue.queue, queue.paused) == ("team/mail:eu", True)
    admin.resume_queue(client, "team/mail:eu")
    assert admin.list_queues(client).queues == []


def test_a_worker_is_listed_and_drained(client: Client, hand: Hand) -> None:
    [worker] = admin.list_workers(client, 10).workers
    assert (worker.worker_id, worker.draining) == ("hand-1", False)
    admin.drain_worker(client, "hand-1")
    [worker] = admin.list_workers(client, 10).workers
    assert worker.draining
    with pytest.raises(NotFound):
        admin.drain_worker(client, "team/nobody@host:1")


def test_dead_letters_are_listed_replayed_and_discarded(client: Client, hand: Hand) -> None:
    job_id = submit(client, 3)
    for _ in range(3):
        hand.fail(hand.claim())
    ids = [f"{job_id}.{index}" for index in range(3)]
    letters = admin.list_dead_letters(client, ANY_LETTER, 10).dead_letters
    assert [letter.task_id for letter in letters] == ids
    assert bytes(admin.get_dead_letter(client, ids[1]).input) == b"1"
    admin.discard_dead_letters(client, ids[:1])
    dry = admin.replay_dead_letters(client, DeadLetterFilter(queue="q"), dry_run=True)
    assert [made.task_ids for made in dry.replays] == [ids[1:]]
    done = admin.replay_dead_letters(client, ids[1:], idempotency_key="k")
    assert [made.replay_of for made in done.replays] == [job_id]
    with pytest.raises(KeyReused):
        admin.replay_dead_letters(client, ids[1:], idempotency_key="k", rebind_outputs=True)
    assert admin.list_dead_letters(client, ANY_LETTER, 10).dead_letters == []
    with pytest.raises(Invalid):
        admin.discard_dead_letters(client, ["nonsense"])


def lease_of(claim: ClaimedTask) -> Lease:
    """Take from a claim what its holder must present."""
    return Lease(claim.task_id, claim.attempt, claim.lease_token)


def test_what_a_task_submits_as_a_spec_is_a_child_too(
    client: Client, hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = submit(client)
    claim = hand.claim()
    for name, text in zip(("TASK_ID", "ATTEMPT", "LEASE_TOKEN"), lease_of(claim), strict=True):
        monkeypatch.setenv(f"HOLDFAST_{name}", str(text))
    monkeypatch.setenv("HOLDFAST_SERVER", client.server)
    assert admin.get_job(client, submit(client)).parent_job_id == parent
    monkeypatch.delenv("HOLDFAST_LEASE_TOKEN")
    assert admin.get_job(client, submit(client)).parent_job_id is None


def test_endpoints_are_published_listed_and_taken_back(client: Client, hand: Hand) -> None:
    submit(client)
    lease = lease_of(hand.claim())
    for name in ("a/1", "a/2", "b"):
        made = admin.register_endpoint(client, lease, name, address="host:1")
        assert (made.name, made.task_id) == (name, lease.task_id)
    page = admin.list_endpoints(client, "a/", 10)
    assert [each.name for each in page.endpoints] == ["a/1", "a/2"]
    assert page.next_page_token is None
    assert admin.list_endpoints(client, "", 2).next_page_token is not None
    assert admin.remove_endpoint(client, lease, "b")
    assert not admin.remove_endpoint(client, lease, "b")
