"""A job in the hands of its submitter, on a real server."""

import asyncio
import base64
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cloudpickle
import msgspec
import pytest

import holdfast as hf
from holdfast.client.client import Client
from holdfast.errors import Invalid, NotFound
from tests.client import app
from tests.client.hand import Hand
from tests.client.test_request import unpack


def test_a_result_is_waited_for(hand: Hand) -> None:
    job = app.greet.submit("Ada")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(job.result, 30)
        hand.work("hello Ada")
        assert waiting.result(30) == "hello Ada"


async def test_a_result_is_awaited(hand: Hand) -> None:
    job = await app.greet.submit.aio("Ada")
    waiting = asyncio.create_task(job.result.aio(timeout=30))
    await asyncio.to_thread(hand.work, "hello Ada")
    assert await waiting == "hello Ada"


def test_a_result_that_does_not_come_is_given_up(hand: Hand) -> None:
    job = app.greet.with_options(queue="unserved").submit("Ada")
    unserved = "no worker serves queue unserved"
    with pytest.raises(
        TimeoutError, match=rf"task \d+\.0 is still pending after 0\.1 s: {unserved}"
    ):
        job.result(timeout=0.1)
    with pytest.raises(TimeoutError, match=rf"job \d+ is still pending after 0 s: {unserved}"):
        job.wait(timeout=0)
    with pytest.raises(TimeoutError):
        job.outcomes(timeout=0.1)


def test_giving_up_on_a_retry_names_the_attempt_that_failed_last(hand: Hand) -> None:
    flaky = app.greet.with_options(retries=2, backoff=hf.Backoff(base=0.0))
    job = flaky.submit("Ada")
    for number in range(2):
        hand.fail(hand.claim(), "ConnectionError")
        with pytest.raises(TimeoutError, match=f"; attempt {number} ended with: ConnectionError: "):
            job.result(timeout=0)


def test_a_failure_is_raised_as_what_it_was(hand: Hand) -> None:
    job = app.double.submit(1)
    hand.fail(hand.claim(), "ZeroDivisionError")
    with pytest.raises(ZeroDivisionError) as caught:
        job.result(timeout=30)
    assert isinstance(caught.value, hf.TaskFailed)
    assert caught.value.task_id == f"{job.id}.0"
    assert caught.value.error == "ZeroDivisionError: it went wrong"


def test_a_failure_of_a_kind_of_ours_is_raised_as_that(hand: Hand) -> None:
    job = app.greet.submit("Ada")
    hand.fail(hand.claim(), "ValidationError")
    with pytest.raises(hf.ValidationError) as caught:
        job.result(timeout=30)
    assert isinstance(caught.value, hf.TaskFailed)
    assert caught.value.state == "DEAD_LETTERED"


def test_results_come_in_the_order_of_their_inputs(hand: Hand) -> None:
    job = app.double.map(range(3))
    claims = [hand.claim() for _ in range(3)]
    for claim in reversed(claims):
        hand.finish(claim, int(claim.task_id.rpartition(".")[2]))
    assert job.results(timeout=30) == [0, 1, 2]
    assert job.status().tasks_succeeded == 3


def test_results_come_by_more_than_one_page(hand: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.client.outcome.RESULTS_PER_PAGE", 2)
    job = app.double.map(range(5))
    hand.work(*range(5))
    assert job.results(timeout=30) == list(range(5))


def test_one_of_many_results_is_asked_for_by_its_place(hand: Hand) -> None:
    job = app.double.map([1, 2])
    hand.work(2, 4)
    assert job.result(30, task_index=1) == 4
    with pytest.raises(Invalid, match=r"has 2 tasks; name one, or use results\(\)"):
        job.result(30)
    with pytest.raises(NotFound):
        job.result(30, task_index=2)
    with pytest.raises(Invalid):
        job.result(30, task_index=-1)


def test_outcomes_tell_of_failures_without_raising(hand: Hand) -> None:
    job = app.double.map([1, 2])
    hand.work(2)
    hand.fail(hand.claim(), "KeyError")
    found = job.outcomes(timeout=30)
    assert [outcome.state for outcome in found] == [
        "TASK_STATE_SUCCEEDED",
        "TASK_STATE_DEAD_LETTERED",
    ]
    assert found[1].error_class == "KeyError"
    with pytest.raises(KeyError):
        job.results(timeout=30)


def test_outcomes_wait_for_tasks_that_outlive_their_job(hand: Hand) -> None:
    job = app.double.with_options(max_task_failures=0, on_exhausted="fail").map([1, 2, 3])
    hand.fail(hand.claim(), "KeyError")
    found = job.outcomes(timeout=30)
    assert all(outcome.is_finished for outcome in found)
    assert [outcome.state for outcome in found] == ["TASK_STATE_FAILED"] + ["TASK_STATE_KILLED"] * 2


def test_a_pickled_result_is_unpickled_here(hand: Hand) -> None:
    job = app.second.submit((1, Path("x")))
    claim = hand.claim()
    function, args, kwargs = unpack(msgspec.json.decode(claim.job)["entrypoint"]["pickle"])
    result = function.function(*args, **kwargs)
    hand.finish(claim, base64.b64encode(cloudpickle.dumps(result)).decode())
    assert job.result(30) == Path("x")


def test_a_wait_ends_with_the_job(hand: Hand) -> None:
    job = app.double.submit(1)
    hand.work(2)
    status = job.wait(timeout=30, progress=True)
    assert (status.state, status.num_tasks) == ("JOB_STATE_SUCCEEDED", 1)


def test_a_job_is_cancelled_once(client: Client) -> None:
    job = app.double.submit(1)
    assert job.cancel(reason="changed my mind")
    assert not job.cancel()
    status = job.wait(timeout=30)
    assert (status.state, status.cancel_reason) == ("JOB_STATE_KILLED", "changed my mind")
    with pytest.raises(hf.TaskFailed, match="is KILLED"):
        job.result(timeout=30)


def test_output_is_followed_to_its_end(hand: Hand) -> None:
    job = app.double.submit(1)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(lambda: b"".join(job.logs(follow=True)))
        claim = hand.claim()
        hand.print(claim, b"one\n")
        hand.print(claim, b"two\n", 4)
        assert b"".join(job.logs()) == b"one\ntwo\n"
        hand.finish(claim)
        assert reading.result(30) == b"one\ntwo\n"


async def test_output_is_read_by_the_awaited_face(hand: Hand) -> None:
    job = app.double.submit(1)
    claim = hand.claim()
    hand.print(claim, b"one\n")
    hand.finish(claim)
    assert [piece async for piece in job.logs.aio()] == [b"one\n"]


def test_the_output_of_a_task_that_waits_is_empty(client: Client) -> None:
    assert list(app.double.submit(1).logs()) == []


async def test_events_tell_the_story(hand: Hand) -> None:
    job = app.double.submit(1)
    hand.work(2)
    job.wait(timeout=30)
    story = [event.type for event in job.events()]
    assert story[0] == "submitted"
    assert set(story) == {"submitted", "claimed", "started", "succeeded"}
    assert [event.type for event in await job.events.aio()] == story


def test_a_job_tells_what_it_is(client: Client) -> None:
    job = app.double.map([1, 2])
    assert repr(job) == f"Job({job.id}, 2 tasks)"
