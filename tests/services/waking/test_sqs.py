"""Hints that go out through SQS, and a publisher that bears an SQS which is not there."""

import asyncio
import sys
import threading
import time

import pytest

from holdfast.errors import Invalid, Stopping, Unavailable
from holdfast.model.work.ids import TaskId
from holdfast.services.waking.sqs import SENDING_MAX, SqsPublisher, Unpublished
from holdfast.wire.sqs import decode_hint, queue_name
from tests.sqs import (
    PATIENCE_SECONDS,
    Sqs,
    aws_fixture,
    connected,
    find_free_port,
    http,
    sqs_endpoint_fixture,
    sqs_fixture,
    sqs_process,
    stranger,
)

__all__ = ["aws_fixture", "sqs_endpoint_fixture", "sqs_fixture"]

TASKS = [TaskId(4182, index) for index in range(25)]


def read_all(sqs: Sqs, queue: str) -> list[TaskId]:
    """Receive every message of a queue."""
    url = sqs.url(queue)
    found: list[TaskId] = []
    for _ in range(100):
        answer = sqs.client.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
        messages = answer.get("Messages", [])
        if not messages:
            return found
        found += [decode_hint(message["Body"]) for message in messages]
    raise AssertionError("there is no end of messages")


async def publish_until_sent(publisher: SqsPublisher, task_id: TaskId) -> None:
    """Publish again and again, as the reconciler would, until SQS takes it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            await publisher.publish("default", [task_id])
            return
        except Unpublished:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)


async def test_every_task_gets_a_message_in_its_queue(sqs: Sqs) -> None:
    async with sqs.publisher() as publisher:
        await publisher.publish("default", TASKS)
        await publisher.publish("team/gpu", TASKS[:1])
    assert sorted(read_all(sqs, "default")) == TASKS
    assert read_all(sqs, "team/gpu") == TASKS[:1]


async def test_no_tasks_are_no_messages(sqs: Sqs) -> None:
    async with sqs.publisher() as publisher:
        await publisher.publish("default", [])
    with pytest.raises(sqs.client.exceptions.QueueDoesNotExist):
        sqs.url("default")


async def test_the_same_task_twice_is_two_messages_and_no_error(sqs: Sqs) -> None:
    async with sqs.publisher() as publisher:
        await publisher.publish("default", [TASKS[0], TASKS[0]])
    assert read_all(sqs, "default") == [TASKS[0], TASKS[0]]


async def test_concurrent_calls_are_all_sent(sqs: Sqs) -> None:
    async with sqs.publisher() as publisher:
        await publisher.publish("default", TASKS[:1])
        await asyncio.gather(*(publisher.publish("default", [task]) for task in TASKS[1:]))
    assert sorted(read_all(sqs, "default")) == TASKS


async def test_what_was_under_way_is_sent_before_the_publisher_closes(sqs: Sqs) -> None:
    async with sqs.publisher() as publisher:
        sending = asyncio.create_task(publisher.publish("default", TASKS))
        await asyncio.sleep(0)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
    assert sorted(read_all(sqs, "default")) == TASKS


async def test_closing_waits_for_an_abandoned_call_without_stopping_the_loop(aws: None) -> None:
    is_free = threading.Event()
    was_freed: list[bool] = []

    def answer_late(_: bytes) -> bytes:
        was_freed.append(is_free.wait(4))
        return http("403 Forbidden", "{}")

    with stranger(answer_late) as (url, calls), connected(url) as sqs:
        async with sqs.publisher() as publisher:
            sending = asyncio.create_task(publisher.publish("default", TASKS[:1]))
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not calls:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.01)
            sending.cancel()
            closing = asyncio.create_task(publisher.close())
            await asyncio.sleep(0)
            is_free.set()
            await closing
    assert was_freed[0]


async def test_a_closed_publisher_says_so_and_leaves_no_thread(sqs: Sqs) -> None:
    async with sqs.publisher() as publisher:
        await publisher.publish("default", TASKS)
    with pytest.raises(Stopping):
        await publisher.publish("default", TASKS)
    await publisher.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("sqs-publisher")]


async def test_an_absent_sqs_is_an_error_that_names_every_task(aws: None) -> None:
    with connected(f"http://127.0.0.1:{find_free_port()}") as sqs:
        async with sqs.publisher() as publisher:
            with pytest.raises(Unpublished, match="25 wake-ups for queue default") as caught:
                await publisher.publish("default", TASKS)
    assert isinstance(caught.value, Unavailable)
    assert (caught.value.queue, caught.value.task_ids) == ("default", tuple(TASKS))
    assert "Could not connect" in str(caught.value)


async def test_a_queue_that_sqs_cannot_name_is_said_without_hurting_the_server(sqs: Sqs) -> None:
    async with sqs.publisher() as publisher:
        with pytest.raises(Unpublished, match="shorten the queue's name"):
            await publisher.publish("q" * 200, TASKS)
        await publisher.publish("default", TASKS)


SENT = '{"Id": "0", "MessageId": "m", "MD5OfMessageBody": "x"}'
REFUSED = '{"Id": "2", "SenderFault": false, "Code": "Busy", "Message": "not today"}'


@pytest.mark.parametrize(("failed", "reason"), [(REFUSED, "not today"), ("", "SQS gave no reason")])
async def test_what_sqs_does_not_confirm_counts_as_not_sent(
    failed: str, reason: str, aws: None
) -> None:
    """An SQS that knows every queue, and takes only the first message of a batch."""
    url = '"QueueUrl": "http://127.0.0.1/1/q"'
    answer = http("200 OK", f'{{{url}, "Successful": [{SENT}], "Failed": [{failed}]}}')
    with stranger(answer) as (endpoint_url, _), connected(endpoint_url) as sqs:
        async with sqs.publisher() as publisher:
            with pytest.raises(Unpublished, match=f"22 wake-ups .*{reason}") as caught:
                await publisher.publish("default", TASKS)
    assert caught.value.task_ids == tuple(t for t in TASKS if t.task_index % 10)


async def test_a_publisher_survives_the_death_of_sqs_and_the_loss_of_its_queues(aws: None) -> None:
    port = find_free_port()
    with connected(f"http://127.0.0.1:{port}") as sqs:
        async with sqs.publisher() as publisher:
            with sqs_process(port) as process:
                await publisher.publish("default", TASKS[:1])
                process.kill()
                process.wait()
                with pytest.raises(Unpublished):
                    await publisher.publish("default", TASKS[1:2])
            with sqs_process(port):
                await publish_until_sent(publisher, TASKS[2])
                assert read_all(sqs, "default") == [TASKS[2]]


async def test_calls_do_not_pile_up_before_an_absent_sqs(aws: None) -> None:
    with connected(f"http://127.0.0.1:{find_free_port()}") as sqs:
        async with sqs.publisher() as publisher:
            calls = [publisher.publish("default", TASKS[:1]) for _ in range(SENDING_MAX + 5)]
            found = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(error, Unpublished) for error in found)
    assert sum("are waiting for SQS already" in str(error) for error in found) == 5


def test_a_missing_library_is_named_when_the_server_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(Invalid, match=r"pip install 'holdfast\[sqs\]'"):
        SqsPublisher()


async def test_a_queue_deleted_by_an_operator_is_made_again(sqs: Sqs) -> None:
    async with sqs.publisher() as publisher:
        await publisher.publish("default", TASKS[:1])
        sqs.client.delete_queue(QueueUrl=sqs.url("default"))
        await publisher.publish("default", TASKS[1:2])
    assert read_all(sqs, "default") == [TASKS[1]]
    names = sqs.client.list_queues(QueueNamePrefix=sqs.prefix)["QueueUrls"]
    assert [name.rsplit("/", 1)[1] for name in names] == [queue_name("default", sqs.prefix)]
