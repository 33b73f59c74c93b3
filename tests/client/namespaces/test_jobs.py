"""`client.jobs` on a real server."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from holdfast.client import deadline, pages
from holdfast.client.client import Client
from holdfast.errors import IllegalMove, Invalid, KeyReused, NotFound
from holdfast.model.submitting.spec import Entrypoint
from holdfast.wire.requests import JobRequest
from tests.client.hand import Hand
from tests.client.namespaces.conftest import Face

REQUEST = JobRequest(entrypoint=Entrypoint(shell="true"), queue="q")


def test_a_job_is_submitted_once_even_if_it_is_sent_twice(call: Face, client: Client) -> None:
    keyed = msgspec.structs.replace(REQUEST, idempotency_key="k")
    first, second = call(client.jobs.submit, keyed), call(client.jobs.submit, keyed)
    assert (first.is_new, second.is_new) == (True, False)
    assert first.job_id == second.job_id
    assert (first.state, first.tasks_pending, first.idempotency_key) == (
        "JOB_STATE_PENDING",
        1,
        "k",
    )
    assert call(client.jobs.get, first.job_id).failure_count is None
    assert call(client.jobs.get, first.job_id, totals=True).failure_count == 0
    assert call(client.jobs.submit, REQUEST).job_id != call(client.jobs.submit, REQUEST).job_id


def test_jobs_that_wait_for_each_other_are_submitted_together(call: Face, client: Client) -> None:
    first = msgspec.structs.replace(REQUEST, local_name="first")
    second = msgspec.structs.replace(REQUEST, depends_on=["first"])
    made = call(client.jobs.submit_all, iter([first, second])).jobs
    graph = call(client.jobs.graph, made[1].job_id)
    assert {node.job_id for node in graph.nodes} == {job.job_id for job in made}


def test_jobs_are_listed_over_pages_up_to_the_number_asked_for(
    call: Face, client: Client, submit: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PAGE_SIZE_MAX", 2)
    ids = [submit() for _ in range(5)]
    assert [job.job_id for job in call(client.jobs.list, count_max=5).jobs] == ids[::-1]
    assert call(client.jobs.list).next_page_token is None
    short = call(client.jobs.list, count_max=3)
    assert [job.job_id for job in short.jobs] == ids[:1:-1]
    assert short.next_page_token is not None


def test_jobs_are_listed_by_what_they_are(call: Face, client: Client) -> None:
    chosen = {"name": "report", "type": "t", "owner": "me"}
    request = msgspec.structs.replace(REQUEST, **chosen, labels={"a": "b"})
    made = call(client.jobs.submit, request)
    call(client.jobs.submit, REQUEST)
    filters: dict[str, Any] = {
        **chosen,
        "name": "rep",
        "state": "pending",
        "queue": "q",
        "label": "a=b",
    }
    assert [job.job_id for job in call(client.jobs.list, **filters).jobs] == [made.job_id]
    assert call(client.jobs.list, parent=made.job_id).jobs == []


def test_a_job_is_read_with_its_events(
    call: Face, client: Client, hand: Hand, submit: Callable[..., str]
) -> None:
    job_id = submit(3)
    hand.work("one")
    assert call(client.jobs.get, int(job_id)).tasks_succeeded == 1
    events = call(client.jobs.events, job_id).events
    assert [event.type for event in events if event.task_index == 0] == [
        "claimed",
        "started",
        "succeeded",
    ]
    assert len(call(client.jobs.events, job_id, type="submitted").events) == 1
    assert call(client.jobs.events, job_id, count_max=1).next_page_token is not None


def test_a_job_is_cancelled_once(call: Face, client: Client, submit: Callable[..., str]) -> None:
    job_id = submit(2)
    assert call(client.jobs.cancel, job_id, "hard", "all of it")
    assert not call(client.jobs.cancel, job_id)
    ended = call(client.jobs.get, job_id, wait=10)
    assert (ended.state, ended.cancel_reason) == ("JOB_STATE_KILLED", "all of it")


def test_a_job_is_submitted_again(
    call: Face, client: Client, hand: Hand, submit: Callable[..., str]
) -> None:
    job_id = submit(2)
    hand.work("one")
    hand.fail(hand.claim())
    dry = call(client.jobs.rerun, job_id, only_unsuccessful=True, dry_run=True)
    assert (dry.job_id, dry.num_tasks) == (None, 1)
    first = call(client.jobs.rerun, job_id, idempotency_key="k")
    assert call(client.jobs.rerun, job_id, idempotency_key="k").job_id == first.job_id
    assert call(client.jobs.rerun, job_id).job_id != first.job_id
    with pytest.raises(KeyReused):
        call(client.jobs.rerun, job_id, idempotency_key="k", only_unsuccessful=True)


def test_a_failed_job_is_resumed_with_a_corrected_input(
    call: Face, client: Client, hand: Hand, submit: Callable[..., str]
) -> None:
    job_id = submit(2)
    hand.work("one")
    hand.fail(hand.claim())
    dry = call(client.jobs.resume, job_id, dry_run=True)
    assert [(job.replay_of, job.job_id, job.num_tasks) for job in dry.jobs] == [(job_id, None, 1)]
    inputs = {f"{job_id}.1": {"n": 2}}
    first = call(client.jobs.resume, job_id, inputs=inputs, idempotency_key="k")
    assert call(client.jobs.resume, job_id, inputs=inputs, idempotency_key="k") == first
    assert json.loads(bytes(hand.claim().input)) == {"n": 2}
    with pytest.raises(KeyReused):
        call(client.jobs.resume, job_id, inputs=inputs, idempotency_key="k", rebind_outputs=True)
    with pytest.raises(IllegalMove, match="already"):
        call(client.jobs.resume, job_id)
    with pytest.raises(Invalid, match="inputs"):
        call(client.jobs.resume, job_id, inputs={"1.0": object()})


def test_what_is_no_job_is_refused(call: Face, client: Client) -> None:
    with pytest.raises(NotFound):
        call(client.jobs.get, 999999)
    with pytest.raises(Invalid):
        call(client.jobs.cancel, "../queues/q")


def test_what_a_task_submits_is_a_child_of_its_job(
    client: Client, hand: Hand, submit: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = submit()
    claim = hand.claim()
    lease = {"TASK_ID": claim.task_id, "ATTEMPT": claim.attempt, "LEASE_TOKEN": claim.lease_token}
    for name, text in lease.items():
        monkeypatch.setenv(f"HOLDFAST_{name}", str(text))
    monkeypatch.setenv("HOLDFAST_SERVER", client.server)
    assert client.jobs.get(submit()).parent_job_id == parent
    monkeypatch.delenv("HOLDFAST_LEASE_TOKEN")
    assert client.jobs.get(submit()).parent_job_id is None


def test_a_wait_may_be_longer_than_one_request(
    call: Face,
    client: Client,
    hand: Hand,
    submit: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deadline, "STEP_SECONDS", 0.05)
    job_id = submit()
    assert call(client.jobs.get, job_id, wait=0.2).state == "JOB_STATE_PENDING"
    hand.work("one")
    assert call(client.jobs.get, job_id, wait=3600).state == "JOB_STATE_SUCCEEDED"


def test_the_output_of_a_job_is_searched(call: Face, client: Client, hand: Hand) -> None:
    job_id = call(client.jobs.submit, REQUEST).job_id
    claim = hand.claim()
    hand.print(claim, b"load a\nload b\ndone\n")
    page = call(client.jobs.search_logs, job_id, "load", count_max=1)
    assert [(line.task_id, line.text) for line in page.lines] == [(f"{job_id}.0", "load a")]
    assert page.next_page_token is not None
    everything = call(client.jobs.search_logs, job_id, task_index=0, attempt=0)
    assert [line.offset for line in everything.lines] == [0, 7, 14]
    moment = datetime.fromtimestamp(everything.lines[0].stored_at_ms / 1000, UTC)
    later = moment + timedelta(minutes=1)
    assert call(client.jobs.search_logs, job_id, since=moment, until=later) == everything
    assert call(client.jobs.search_logs, job_id, since=later).lines == []
    with pytest.raises(Invalid, match="line break"):
        call(client.jobs.search_logs, job_id, "a\nb")
