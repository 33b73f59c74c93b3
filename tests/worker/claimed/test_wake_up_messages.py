"""A worker that is woken by SQS: messages are hints, and what happens to them costs no task."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import asyncpg
import pytest

from holdfast.model.work.ids import parse_task_id
from holdfast.services.waking.republish import Republisher
from holdfast.services.waking.sqs import SqsPublisher
from holdfast.wire.sqs import encode_hint, queue_name
from holdfast.worker.claimed.sqs import SqsInbox
from tests.sqs import (
    Sqs,
    aws_fixture,
    connected,
    find_free_port,
    sqs_endpoint_fixture,
    sqs_fixture,
    sqs_process,
)
from tests.waiting import eventually
from tests.worker.workplace import QUEUE, Workplace, call, open_workplace

__all__ = ["aws_fixture", "sqs_endpoint_fixture", "sqs_fixture"]


def opener(sqs: Sqs, visibility_seconds: int = 120) -> Callable[[], SqsInbox]:
    """Say how a worker opens its inbox."""
    return partial(
        SqsInbox,
        [QUEUE],
        prefix=sqs.prefix,
        endpoint_url=sqs.endpoint_url,
        visibility_seconds=visibility_seconds,
        wait_seconds=1,
    )


@pytest.fixture
async def publisher(sqs: Sqs) -> AsyncIterator[SqsPublisher]:
    """The server's end of SQS, and a queue in it."""
    sqs.client.create_queue(QueueName=queue_name(QUEUE, sqs.prefix))
    async with sqs.publisher() as publisher:
        yield publisher


@pytest.fixture
async def workplace(
    database_url: str, tmp_path: Path, publisher: SqsPublisher
) -> AsyncIterator[Workplace]:
    """A server that publishes to SQS."""
    async with open_workplace(database_url, tmp_path, transports=[publisher]) as workplace:
        yield workplace


async def attempts(workplace: Workplace, task_id: str) -> int:
    """Count the attempts of a task that have ended."""
    return len(await workplace.attempts(task_id))


async def test_a_task_is_found_by_its_message_which_is_held_and_then_deleted(
    workplace: Workplace, sqs: Sqs, tmp_path: Path
) -> None:
    workplace.hire(open_inbox=opener(sqs))
    task_id = await workplace.submit(call("await_file", f"{tmp_path}/began", f"{tmp_path}/go"))
    await eventually((tmp_path / "began").exists)
    await sqs.wait_for_counts(QUEUE, visible=0, held=1)
    (tmp_path / "go").touch()
    await workplace.reach(task_id, "SUCCEEDED")
    await sqs.wait_for_counts(QUEUE, visible=0, held=0)


async def test_a_message_that_is_delivered_twice_runs_nothing_twice(
    workplace: Workplace, sqs: Sqs, tmp_path: Path
) -> None:
    task_id = await workplace.submit(call("await_file", f"{tmp_path}/began", f"{tmp_path}/go"))
    await sqs.wait_for_counts(QUEUE, visible=1, held=0)
    for _ in range(3):
        await sqs.send(QUEUE, encode_hint(parse_task_id(task_id)))
    workplace.hire(open_inbox=opener(sqs))
    await eventually((tmp_path / "began").exists)
    await sqs.wait_for_counts(QUEUE, visible=0, held=1)  # refused: already running
    (tmp_path / "go").touch()
    await workplace.reach(task_id, "SUCCEEDED")
    await sqs.wait_for_counts(QUEUE, visible=0, held=0)
    assert await attempts(workplace, task_id) == 1


async def test_what_was_claimed_already_is_handed_back_if_a_drain_comes_meanwhile(
    workplace: Workplace, database_url: str, sqs: Sqs
) -> None:
    task_ids = [await workplace.submit(call("add", 1)) for _ in range(2)]
    await sqs.wait_for_counts(QUEUE, visible=2, held=0)
    connection = await asyncpg.connect(database_url)
    async with connection.transaction():  # the claim of the second waits for this
        await connection.execute(
            "select 1 from holdfast.tasks where job_id = $1 for update",
            parse_task_id(task_ids[1]).job_id,
        )
        worker, running = workplace.hire(open_inbox=opener(sqs))
        await eventually(lambda: workplace.about("leases", task_ids[0]))
        worker.drain()
    await connection.close()
    await asyncio.wait_for(running, 60)
    for task_id in task_ids:
        assert not await workplace.about("leases", task_id)


async def test_a_lost_message_is_published_again(
    workplace: Workplace, sqs: Sqs, publisher: SqsPublisher
) -> None:
    task_id = await workplace.submit(call("add", 1))
    await sqs.wait_for_counts(QUEUE, visible=1, held=0)
    sqs.client.purge_queue(QueueUrl=sqs.url(QUEUE))
    workplace.hire(open_inbox=opener(sqs))
    ledger = workplace.server.runtime.ledger
    await Republisher(ledger, publisher, timedelta(0)).run()
    await workplace.reach(task_id, "SUCCEEDED")
    await sqs.wait_for_counts(QUEUE, visible=0, held=0)


async def test_a_message_for_a_finished_task_is_deleted(workplace: Workplace, sqs: Sqs) -> None:
    workplace.hire(open_inbox=opener(sqs))
    task_id = await workplace.submit(call("add", 1))
    await workplace.reach(task_id, "SUCCEEDED")
    await sqs.send(QUEUE, encode_hint(parse_task_id(task_id)))
    await sqs.send(QUEUE, encode_hint(parse_task_id("999999.0")))
    await sqs.wait_for_counts(QUEUE, visible=0, held=0)
    assert await attempts(workplace, task_id) == 1


async def test_a_long_task_keeps_its_message_invisible(
    workplace: Workplace, sqs: Sqs, tmp_path: Path
) -> None:
    workplace.hire(open_inbox=opener(sqs, visibility_seconds=1))
    task_id = await workplace.submit(call("await_file", f"{tmp_path}/began", f"{tmp_path}/go"))
    await eventually((tmp_path / "began").exists)
    seen: list[tuple[int, int]] = []
    # Far longer than the visibility that a message has without being extended.
    for _ in range(60):
        seen.append(await sqs.counts(QUEUE))
        await asyncio.sleep(0.05)
    assert set(seen) == {(0, 1)}
    (tmp_path / "go").touch()
    await workplace.reach(task_id, "SUCCEEDED")
    await sqs.wait_for_counts(QUEUE, visible=0, held=0)


async def test_work_goes_on_while_sqs_is_away(database_url: str, tmp_path: Path, aws: None) -> None:
    port = find_free_port()
    with connected(f"http://127.0.0.1:{port}") as sqs:
        async with sqs.publisher() as publisher:
            place = open_workplace(database_url, tmp_path, transports=[publisher])
            async with place as workplace:
                with sqs_process(port):
                    workplace.hire(open_inbox=opener(sqs))
                    await workplace.reach(await workplace.submit(call("add", 1)), "SUCCEEDED")
                for number in range(3):
                    away = await workplace.submit(call("add", number))
                    await workplace.reach(away, "SUCCEEDED")
                with sqs_process(port):
                    await workplace.reach(await workplace.submit(call("add", 9)), "SUCCEEDED")
