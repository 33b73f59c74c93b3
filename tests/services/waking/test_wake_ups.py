"""Wake-ups: rung here at once, sent elsewhere gathered, and harmless when they are lost."""

import asyncio
from collections.abc import Sequence

import pytest

from holdfast.errors import Unavailable
from holdfast.model.work.ids import TaskId
from holdfast.services.waking.doorbell import Bell, Doorbells
from holdfast.services.waking.wake_ups import TASKS_PER_HINT_MAX, WakeUps
from tests.waiting import eventually

TASKS = [TaskId(4182, index) for index in range(10)]
DOOR = Bell("queue", "q")


class Post:
    """A transport that writes down what it is given, and may have to wait or to fail."""

    only_leftovers = False

    def __init__(self, *problems: Exception) -> None:
        self.sent: list[tuple[str, list[TaskId]]] = []
        self.begun = 0
        self.is_open = asyncio.Event()
        self.is_open.set()
        self._problems = list(problems)

    async def publish(self, queue: str, task_ids: Sequence[TaskId]) -> None:
        self.begun += 1
        await self.is_open.wait()
        if self._problems:
            raise self._problems.pop(0)
        self.sent.append((queue, list(task_ids)))


async def test_who_waits_here_is_rung_at_once_and_the_rest_of_the_world_is_told() -> None:
    post = Post()
    wake_ups = WakeUps(Doorbells(), [post])
    with wake_ups.doorbells.listen([DOOR]) as listener:
        wake_ups.announce("q", TASKS[:1])
        assert listener.was_rung
    await wake_ups.close()
    assert post.sent == [("q", TASKS[:1])]


async def test_a_transport_for_leftovers_hears_only_of_what_nobody_here_takes() -> None:
    post = Post()
    post.only_leftovers = True
    wake_ups = WakeUps(Doorbells(), [post])
    with wake_ups.doorbells.listen([DOOR], appetite=2):
        wake_ups.announce("q", TASKS[:2])
        await wake_ups.close()
        assert post.sent == []
        wake_ups.announce("q", TASKS[:3])
    await wake_ups.close()
    assert post.sent == [("q", TASKS[:3])]


async def test_the_count_says_how_many_are_woken_though_few_are_named() -> None:
    wake_ups = WakeUps(Doorbells())
    with (
        wake_ups.doorbells.listen([DOOR], appetite=10) as first,
        wake_ups.doorbells.listen([DOOR], appetite=10) as second,
        wake_ups.doorbells.listen([DOOR], appetite=10) as third,
    ):
        wake_ups.announce("q", TASKS[:1], count=11)
        assert [x.was_rung for x in (first, second, third)] == [True, True, False]


async def test_without_transports_nothing_is_left_to_send() -> None:
    wake_ups = WakeUps(Doorbells())
    wake_ups.announce("q", TASKS)
    await wake_ups.close()


async def test_what_comes_while_a_message_is_on_its_way_is_folded() -> None:
    post = Post()
    post.is_open.clear()
    wake_ups = WakeUps(Doorbells(), [post])
    wake_ups.announce("q", TASKS[:1])
    await eventually(lambda: post.begun)
    for task_id in TASKS[1:]:
        wake_ups.announce("q", [task_id])
    wake_ups.announce("other", TASKS[:1])
    post.is_open.set()
    await wake_ups.close()
    assert post.sent == [("q", TASKS[:1]), ("q", TASKS[1:]), ("other", TASKS[:1])]


async def test_a_message_names_no_more_than_its_limit() -> None:
    post = Post()
    wake_ups = WakeUps(Doorbells(), [post])
    many = [TaskId(1, index) for index in range(TASKS_PER_HINT_MAX - 1)]
    wake_ups.announce("q", many)
    wake_ups.announce("q", TASKS)
    wake_ups.announce("q", TASKS)
    await wake_ups.close()
    assert post.sent == [("q", [*many, TASKS[0]])]


async def test_a_message_that_cannot_be_sent_is_said_and_the_next_one_goes_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    post = Post(Unavailable("no post today"))
    wake_ups = WakeUps(Doorbells(), [post])
    wake_ups.announce("q", TASKS[:1])
    await wake_ups.close()
    wake_ups.announce("q", TASKS[1:2])
    await wake_ups.close()
    assert post.sent == [("q", TASKS[1:2])]
    [record] = caplog.records
    assert "no post today" in record.getMessage()


async def test_a_slow_transport_holds_up_no_other() -> None:
    slow, quick = Post(), Post()
    slow.is_open.clear()
    wake_ups = WakeUps(Doorbells(), [slow, quick])
    wake_ups.announce("q", TASKS[:1])
    await eventually(lambda: quick.sent)
    assert slow.sent == []
    slow.is_open.set()
    await wake_ups.close()
    assert slow.sent == quick.sent


async def test_what_others_say_rings_one_who_waits_and_is_not_sent_on() -> None:
    post = Post()
    wake_ups = WakeUps(Doorbells(), [post])
    with (
        wake_ups.doorbells.listen([DOOR]) as first,
        wake_ups.doorbells.listen([DOOR]) as second,
    ):
        wake_ups.hear("q")
        assert (first.was_rung, second.was_rung) == (True, False)
        assert await first.wait(60)
    await wake_ups.close()
    assert post.sent == []
