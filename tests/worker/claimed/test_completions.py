"""Completions reach the server, together and in the end, whatever is in the way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from holdfast.api import bodies
from holdfast.client.transport import Transport
from holdfast.errors import RetryAfter
from holdfast.worker.claimed import completions as module
from holdfast.worker.claimed.attempt import Attempt
from holdfast.worker.claimed.completions import Completions
from holdfast.worker.running.attempt_outcome import KILLED, Outcome, failure
from tests.client.peer import Say, listening
from tests.waiting import eventually
from tests.worker.claims import an_attempt
from tests.worker.faulty_proxy import FaultyProxy
from tests.worker.workplace import Workplace, call

REFUSE_SUCCESS = """
create function public.refuse() returns trigger language plpgsql
    as $$ begin raise exception 'out of order'; end $$;
create trigger refuse before update on holdfast.tasks for each row
    when (new.state = 4 and new.task_index = 1) execute function public.refuse()
"""


class Sender:
    """What sends completions, and what was acknowledged."""

    def __init__(self, transport: Transport) -> None:
        self.acknowledged: list[Attempt] = []
        self.failures: list[BaseException] = []
        self.completions = Completions(
            transport,
            "w",
            on_acknowledged=self.acknowledged.append,
            on_failure=self.failures.append,
        )


@asynccontextmanager
async def sending(url: str) -> AsyncIterator[Sender]:
    """Send completions for the time of a block."""
    async with Transport(url) as transport:
        sender = Sender(transport)
        yield sender
        await sender.completions.close()
        assert not sender.failures


async def some_attempts(workplace: Workplace, count: int, **spec: Any) -> list[Attempt]:
    """Claim the tasks of a job, in order."""
    await workplace.submit(call("echo"), list(range(count)), on_exhausted="fail", **spec)
    claimed = await workplace.claim(count)
    return sorted(claimed, key=lambda attempt: int(attempt.task_id.partition(".")[2]))


def a_result(size: int) -> Outcome:
    """Make an outcome with a result of a size."""
    return Outcome("succeeded", 0, result=msgspec.json.encode("x" * (size - 2)).decode())


async def states_of(workplace: Workplace, attempts: list[Attempt]) -> list[str]:
    return [await workplace.state(attempt.task_id) for attempt in attempts]


async def test_what_is_added_is_told_and_each_is_heard(workplace: Workplace) -> None:
    attempts = await some_attempts(workplace, 500)
    async with sending(workplace.url) as sender:
        for attempt in attempts:
            sender.completions.add(attempt, Outcome("succeeded", 0, result="1"))
        assert len(sender.completions) == 500
        await sender.completions.wait_until_acknowledged()
        assert len(sender.completions) == 0
        assert {attempt.task_id for attempt in sender.acknowledged} == {a.task_id for a in attempts}
    assert set(await states_of(workplace, attempts)) == {"SUCCEEDED"}


async def test_what_is_added_while_the_last_sender_ends_is_sent(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await some_attempts(workplace, 2)
    monkeypatch.setattr(module, "SENDERS_MAX", 1)
    outcome = Outcome("succeeded", 0)

    def add_second(attempt: Attempt) -> None:
        if attempt is first:  # in the sender's last step: what is called soon comes before its end
            asyncio.get_running_loop().call_soon(completions.add, second, outcome)

    async with Transport(workplace.url) as transport:
        completions = Completions(
            transport, "w", on_acknowledged=add_second, on_failure=lambda _: None
        )
        completions.add(first, outcome)
        await workplace.reach(second.task_id, "SUCCEEDED")
        await completions.close()


async def test_each_of_a_batch_gets_the_answer_that_is_its_own(workplace: Workplace) -> None:
    attempts = await some_attempts(workplace, 6)
    good, stale, deep, failed, killed, wordy = attempts
    stale.number += 1
    await workplace.cancel(killed.task_id)
    nested = "[" * 200 + "]" * 200
    async with sending(workplace.url) as sender:
        sender.completions.add(good, Outcome("succeeded", 0, result="7"))
        sender.completions.add(stale, Outcome("succeeded", 0))
        sender.completions.add(deep, Outcome("succeeded", 0, result=nested))
        sender.completions.add(failed, Outcome("failed", 3, "boom", "ValueError", "exec"))
        sender.completions.add(killed, KILLED)
        sender.completions.add(wordy, Outcome("failed", None, "\ud800\0" * 90_000, "x\0" * 300))
        await sender.completions.wait_until_acknowledged()
        assert len(sender.acknowledged) == 6
    assert await states_of(workplace, attempts) == [
        "SUCCEEDED", "ASSIGNED", "FAILED", "FAILED", "KILLED", "FAILED",
    ]  # fmt: skip
    attempt = await workplace.ended(deep.task_id)
    assert (attempt["error_class"], attempt["stage"]) == ("PermanentError", "output")
    assert (await workplace.ended(killed.task_id))["released_at"] is not None


async def test_one_that_the_server_fails_on_is_told_again_and_the_others_do_not_wait(
    workplace: Workplace,
) -> None:
    attempts = await some_attempts(workplace, 3)
    await workplace.execute(REFUSE_SUCCESS)
    async with sending(workplace.url) as sender:
        for attempt in attempts:
            sender.completions.add(attempt, Outcome("succeeded", 0))
        await eventually(lambda: len(sender.acknowledged) == 2)
        assert await states_of(workplace, attempts) == ["SUCCEEDED", "ASSIGNED", "SUCCEEDED"]
        assert len(sender.completions) == 1
        await workplace.execute("drop trigger refuse on holdfast.tasks")
        await sender.completions.wait_until_acknowledged()
    assert await workplace.state(attempts[1].task_id) == "SUCCEEDED"


async def test_completions_outlive_a_server_that_is_away(workplace: Workplace) -> None:
    attempts = await some_attempts(workplace, 3)
    async with FaultyProxy(workplace.url) as proxy, sending(proxy.url) as sender:
        await proxy.cut()
        for attempt in attempts:
            sender.completions.add(attempt, Outcome("succeeded", 0))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(sender.completions.wait_until_acknowledged(), 0.2)
        proxy.mend()
        await sender.completions.wait_until_acknowledged()
    assert set(await states_of(workplace, attempts)) == {"SUCCEEDED"}


async def test_a_completion_whose_answer_is_lost_counts_once(workplace: Workplace) -> None:
    [attempt] = await some_attempts(workplace, 1)
    async with FaultyProxy(workplace.url) as proxy, sending(proxy.url) as sender:
        proxy.lose_answers()
        sender.completions.add(attempt, Outcome("succeeded", 0, result="1"))
        await eventually(lambda: proxy.answers_lost >= 2)
        proxy.mend()
        await sender.completions.wait_until_acknowledged()
        assert sender.acknowledged == [attempt]
    events = await workplace.about("events", attempt.task_id)
    assert [event["type"] for event in events] == ["claimed", "started", "succeeded"]


async def test_a_request_that_is_too_large_is_sent_in_parts(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = await some_attempts(workplace, 20)
    monkeypatch.setattr(bodies, "BODY_BYTES_MAX", 5_000)
    async with sending(workplace.url) as sender:
        for number, attempt in enumerate(attempts):
            sender.completions.add(attempt, a_result(6_000 if number == 7 else 1_000))
        await sender.completions.wait_until_acknowledged()
    states = await states_of(workplace, attempts)
    assert states.pop(7) == "FAILED"  # what no request can carry
    assert set(states) == {"SUCCEEDED"}


async def test_a_failure_that_cannot_be_told_is_given_up_loudly(
    workplace: Workplace, caplog: pytest.LogCaptureFixture
) -> None:
    [attempt] = await some_attempts(workplace, 1)
    async with sending(workplace.url) as sender:
        sender.completions.add(attempt, Outcome("failed", 2**40, "boom"))
        await sender.completions.wait_until_acknowledged()
        assert sender.acknowledged == [attempt]
    assert "cannot be reported: exit_code" in caplog.text
    assert await workplace.state(attempt.task_id) == "ASSIGNED"


async def test_after_it_was_closed_nothing_is_sent(
    workplace: Workplace, caplog: pytest.LogCaptureFixture
) -> None:
    [attempt] = await some_attempts(workplace, 1)
    async with sending(workplace.url) as sender:
        await sender.completions.close()
        sender.completions.add(attempt, Outcome("succeeded", 0))
        assert len(sender.completions) == 0
    assert "too late" in caplog.text
    assert await workplace.state(attempt.task_id) == "ASSIGNED"


async def test_closing_gives_up_what_could_not_be_told(workplace: Workplace) -> None:
    async with FaultyProxy(workplace.url) as proxy, sending(proxy.url) as sender:
        await proxy.cut()
        sender.completions.add(an_attempt(), Outcome("succeeded", 0))
        await asyncio.wait_for(sender.completions.close(), 5)
        assert not sender.acknowledged


async def test_a_fault_of_its_own_is_told() -> None:
    transport = Transport("http://127.0.0.1:1")  # never opened
    sender = Sender(transport)
    sender.completions.add(an_attempt(), Outcome("succeeded", 0))
    await eventually(lambda: sender.failures)
    assert isinstance(sender.failures[0], AssertionError)


async def test_a_server_that_does_not_know_its_name_is_sent_the_same_again() -> None:
    forbidden = Say(403, b'{"error": {"code": "forbidden", "message": "no"}}')
    accepted = Say(200, b'{"results": [{"task_id": "7.0", "accepted": true}]}')
    with listening() as peer:
        peer.script = [forbidden, forbidden, accepted]
        async with sending(peer.url) as sender:
            sender.completions.add(an_attempt(), Outcome("succeeded", 0, result="7"))
            await sender.completions.wait_until_acknowledged()
        [first, *again] = [heard.json["completions"] for heard in peer.heard]
    assert first[0]["status"] == "succeeded"
    assert again == [first, first]


async def test_a_server_that_cannot_put_off_is_told_of_a_failure() -> None:
    unknown = Say(400, b'{"error": {"code": "invalid", "message": "completions[0].put_off: no"}}')
    accepted = Say(200, b'{"results": [{"task_id": "7.0", "accepted": true}]}')
    with listening() as peer:
        peer.script = [unknown, accepted]
        async with sending(peer.url) as sender:
            sender.completions.add(an_attempt(), failure(RetryAfter(60, free=True)))
            await sender.completions.wait_until_acknowledged()
        [[first], [again]] = [heard.json["completions"] for heard in peer.heard]
    assert first.pop("put_off") == {"after_ms": 60_000, "free": True}
    assert again == first
