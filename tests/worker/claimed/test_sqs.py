"""Messages that a worker holds: received in turn, kept invisible, deleted or given back."""

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.errors import Invalid, Stopping
from holdfast.model.work.ids import TaskId
from holdfast.wire.sqs import SqsUnavailable, encode_hint
from holdfast.worker.claimed.sqs import Message, SqsInbox
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


async def publish(sqs: Sqs, queue: str, task_ids: Sequence[TaskId]) -> None:
    async with sqs.publisher() as publisher:
        await publisher.publish(queue, task_ids)


async def receive_all(inbox: SqsInbox, count: int, messages_max: int = 10) -> list[Message]:
    """Receive until so many messages have come; an SQS that is away may come back meanwhile."""
    found: list[Message] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(found) < count:
        assert time.monotonic() < deadline, f"only {len(found)} messages have come"
        try:
            messages = await inbox.receive(messages_max)
        except SqsUnavailable:
            await asyncio.sleep(0.05)
            continue
        assert len(messages) <= messages_max
        found += messages
    return found


async def test_what_is_published_is_received_and_deleted_for_good(sqs: Sqs) -> None:
    await publish(sqs, "default", TASKS)
    async with sqs.inbox("default") as inbox:
        messages = await receive_all(inbox, len(TASKS))
        assert sorted(message.task_id for message in messages) == TASKS
        assert {message.queue for message in messages} == {"default"}
        await sqs.wait_for_counts("default", 0, len(TASKS))
        for message in messages:
            await inbox.delete(message)
        await sqs.wait_for_counts("default", 0, 0)


async def test_a_worker_that_waits_is_woken(sqs: Sqs) -> None:
    async with sqs.inbox("default", wait_seconds=20) as inbox:
        receiving = asyncio.create_task(inbox.receive(1))
        await asyncio.sleep(0)
        await publish(sqs, "default", TASKS[:1])
        [message] = await receiving
        assert message.task_id == TASKS[0]


async def test_a_queue_without_messages_gives_an_empty_list(sqs: Sqs) -> None:
    async with sqs.inbox("default", "other") as inbox:
        assert await inbox.receive(10) == []


async def test_two_messages_for_one_task_are_two_deliveries(sqs: Sqs) -> None:
    await publish(sqs, "default", [TASKS[0], TASKS[0]])
    async with sqs.inbox("default") as inbox:
        one, other = await receive_all(inbox, 2)
        assert one.task_id == other.task_id == TASKS[0]
        await inbox.delete(one)
        await sqs.wait_for_counts("default", 0, 1)
        await inbox.delete(other)
        await sqs.wait_for_counts("default", 0, 0)


async def test_a_busy_queue_does_not_hide_a_quiet_one(sqs: Sqs) -> None:
    await publish(sqs, "busy", TASKS)
    await publish(sqs, "quiet", TASKS[:2])
    async with sqs.inbox("busy", "quiet") as inbox:
        await sqs.wait_for_counts("busy", 25, 0)
        first = await receive_all(inbox, 12, messages_max=2)
        assert [message.queue for message in first].count("quiet") == 2


async def test_queues_take_turns_with_what_is_in_stock(sqs: Sqs) -> None:
    for queue in ("a", "b"):
        await publish(sqs, queue, TASKS[:4])
    async with sqs.inbox("a", "b") as inbox:
        receiving = asyncio.create_task(inbox.receive(8))
        await asyncio.sleep(0)
        receiving.cancel()
        await sqs.wait_for_counts("a", 0, 4)
        await sqs.wait_for_counts("b", 0, 4)
        messages = await receive_all(inbox, 8, messages_max=2)
    queues = [message.queue for message in messages]
    assert queues not in (sorted(queues), sorted(queues, reverse=True))


async def test_no_more_messages_come_than_were_asked_for(sqs: Sqs) -> None:
    for queue in ("a", "b", "c"):
        await publish(sqs, queue, TASKS[:5])
    async with sqs.inbox("a", "b", "c") as inbox:
        messages = await receive_all(inbox, 15, messages_max=1)
    assert len({message.receipt_handle for message in messages}) == 15


async def test_a_message_in_work_stays_invisible_beyond_its_time(sqs: Sqs) -> None:
    """Another message, held for twice that time by nobody who would extend it, is the clock."""
    await publish(sqs, "clock", TASKS[:1])
    await publish(sqs, "default", TASKS[:12])
    async with sqs.inbox("default", visibility_seconds=2) as inbox:
        messages = await receive_all(inbox, 12)
        sqs.hold("clock", seconds=4)
        await sqs.wait_for_counts("clock", 1, 0)
        assert await sqs.counts("default") == (0, 12)
        for message in messages:
            await inbox.delete(message)
        await sqs.wait_for_counts("default", 0, 0)


async def test_a_message_whose_worker_was_killed_comes_back(sqs: Sqs) -> None:
    await publish(sqs, "default", TASKS[:1])
    sqs.hold("default", seconds=1)
    async with sqs.inbox("default") as inbox:
        [message] = await receive_all(inbox, 1)
        assert message.task_id == TASKS[0]


async def test_a_released_message_is_there_for_others_at_once(sqs: Sqs) -> None:
    await publish(sqs, "default", TASKS[:1])
    async with sqs.inbox("default") as inbox, sqs.inbox("default") as other:
        [message] = await receive_all(inbox, 1)
        await inbox.release(message)
        [again] = await receive_all(other, 1)
        assert again.task_id == message.task_id


async def test_a_released_message_is_not_extended_any_more(sqs: Sqs) -> None:
    await publish(sqs, "clock", TASKS[:1])
    await publish(sqs, "default", TASKS[:1])
    async with sqs.inbox("default", visibility_seconds=2) as inbox:
        [message] = await receive_all(inbox, 1)
        await inbox.release(message)
        sqs.hold("clock", seconds=2)
        await sqs.wait_for_counts("clock", 1, 0)
        assert await sqs.counts("default") == (1, 0)


async def test_a_cancelled_receive_gives_back_what_it_would_have_got(sqs: Sqs) -> None:
    async with sqs.inbox("default", wait_seconds=20) as inbox:
        receiving = asyncio.create_task(inbox.receive(5))
        await asyncio.sleep(0)
        receiving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receiving
        await publish(sqs, "default", TASKS[:5])
        async with sqs.inbox("default") as other:
            messages = await receive_all(other, 5)
            assert sorted(message.task_id for message in messages) == TASKS[:5]


async def test_what_arrives_after_a_cancelled_receive_is_there_for_the_next(sqs: Sqs) -> None:
    async with sqs.inbox("default", wait_seconds=20) as inbox:
        receiving = asyncio.create_task(inbox.receive(1))
        await asyncio.sleep(0)
        receiving.cancel()
        await publish(sqs, "default", TASKS[:1])
        [message] = await receive_all(inbox, 1)
        assert message.task_id == TASKS[0]


async def test_a_body_that_is_no_hint_is_deleted_and_logged(
    sqs: Sqs, caplog: pytest.LogCaptureFixture
) -> None:
    await publish(sqs, "default", TASKS[:1])
    await sqs.send("default", "poison" * 1000)
    await sqs.send("default", '{"task_id": "nonsense"}')
    with caplog.at_level(logging.WARNING, "holdfast.sqs"):
        async with sqs.inbox("default") as inbox:
            [message] = await receive_all(inbox, 1)
            await inbox.delete(message)
            await inbox.receive(10)
            await sqs.wait_for_counts("default", 0, 0)
    texts = [r.getMessage() for r in caplog.records if r.name == "holdfast.sqs"]
    assert len(texts) == 2
    assert all("is no hint" in text and len(text) < 500 for text in texts)


async def test_closing_gives_back_what_is_held_and_leaves_no_thread(sqs: Sqs) -> None:
    await publish(sqs, "default", TASKS[:3])
    async with sqs.inbox("default", "other") as inbox:
        await receive_all(inbox, 3)
    assert await sqs.counts("default") == (3, 0)
    assert not [t for t in threading.enumerate() if t.name.startswith("sqs-inbox")]
    assert [task.get_name() for task in asyncio.all_tasks() if "sqs" in task.get_name()] == []
    with pytest.raises(Stopping):
        await inbox.receive(1)
    await inbox.close()


async def test_an_absent_sqs_is_an_error_and_logged_once(
    aws: None, caplog: pytest.LogCaptureFixture
) -> None:
    with connected(f"http://127.0.0.1:{find_free_port()}") as sqs:
        async with sqs.inbox("default") as inbox:
            for _ in range(5):
                with pytest.raises(SqsUnavailable, match="Could not connect"):
                    await inbox.receive(1)
    assert len([record for record in caplog.records if record.name == "holdfast.sqs"]) == 1


async def test_deleting_and_releasing_bear_an_absent_sqs(aws: None) -> None:
    message = Message("default", TASKS[0], "handle")
    with connected(f"http://127.0.0.1:{find_free_port()}") as sqs:
        async with sqs.inbox("default") as inbox:
            await inbox.delete(message)
            await inbox.release(message)


async def test_an_inbox_survives_the_death_of_sqs(aws: None) -> None:
    port = find_free_port()
    with connected(f"http://127.0.0.1:{port}") as sqs:
        async with sqs.inbox("default", visibility_seconds=1) as inbox:
            with sqs_process(port) as process:
                await publish(sqs, "default", TASKS[:1])
                [held] = await receive_all(inbox, 1)
                process.kill()
                process.wait()
                with pytest.raises(SqsUnavailable):
                    await inbox.receive(1)
            with sqs_process(port):
                await publish(sqs, "default", TASKS[1:2])
                [message] = await receive_all(inbox, 1)
                assert message.task_id == TASKS[1]
                await inbox.delete(held)
                await inbox.delete(message)
                await sqs.wait_for_counts("default", 0, 0)


def answer_for_some(call: bytes) -> bytes:
    """Answer as an SQS would where one queue is forbidden and the other never empty."""
    if b"bad" in call:
        return http("403 Forbidden", '{"__type": "AccessDenied", "message": "not for you"}')
    if b"GetQueueUrl" in call:
        return http("200 OK", '{"QueueUrl": "http://127.0.0.1/1/good"}')
    hint = encode_hint(TASKS[0]).replace('"', '\\"')
    message = f'{{"MessageId": "m", "ReceiptHandle": "h", "MD5OfBody": "", "Body": "{hint}"}}'
    return http("200 OK", f'{{"Messages": [{message}]}}')


async def test_one_forbidden_queue_does_not_silence_the_others(
    aws: None, caplog: pytest.LogCaptureFixture
) -> None:
    with stranger(answer_for_some) as (url, _), connected(url) as sqs:
        async with sqs.inbox("good", "bad") as inbox:
            messages = await receive_all(inbox, 10, messages_max=1)
            assert {message.queue for message in messages} == {"good"}
    texts = [r.getMessage() for r in caplog.records if r.name == "holdfast.sqs"]
    assert len([text for text in texts if "queue bad" in text and "not for you" in text]) == 1


async def test_a_forbidden_queue_alone_is_an_error_that_says_so(aws: None) -> None:
    with stranger(answer_for_some) as (url, _), connected(url) as sqs:
        async with sqs.inbox("bad") as inbox:
            with pytest.raises(SqsUnavailable, match=r"AccessDenied.*not for you"):
                await inbox.receive(1)


@pytest.mark.parametrize(
    ("queues", "options", "field"),
    [
        ([], {}, "queues"),
        (["a b"], {}, "queue"),
        (["q" * 80], {}, "queue"),
        (["a"], {"visibility_seconds": 0}, "visibility_seconds"),
        (["a"], {"visibility_seconds": 43_201}, "visibility_seconds"),
        (["a"], {"wait_seconds": 21}, "wait_seconds"),
    ],
)
def test_settings_that_cannot_be_right_are_refused(
    queues: list[str], options: dict[str, Any], field: str, aws: None
) -> None:
    with pytest.raises(Invalid) as caught:
        SqsInbox(queues, **options)
    assert caught.value.field == field


async def test_asking_for_no_messages_is_refused(sqs: Sqs) -> None:
    async with sqs.inbox("default") as inbox:
        with pytest.raises(Invalid, match="messages_max: is 0"):
            await inbox.receive(0)


def test_a_missing_library_is_named_when_the_worker_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(Invalid, match=r"pip install 'holdfast\[sqs\]'"):
        SqsInbox(["default"])


async def test_a_hint_of_another_program_is_received_too(sqs: Sqs) -> None:
    async with sqs.inbox("default") as inbox:
        assert await inbox.receive(1) == []
        await sqs.send("default", encode_hint(TASKS[0]))
        [message] = await receive_all(inbox, 1)
        assert message.task_id == TASKS[0]
