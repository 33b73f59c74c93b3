"""Wake-ups are published again for tasks that have waited without one, and not too often."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from holdfast.errors import Unavailable
from holdfast.ledger.ledger import Ledger
from holdfast.model.work.ids import TaskId
from holdfast.operations.queues import pause_queue
from holdfast.services.waking.republish import Republisher
from tests.world import World


class Postbox:
    """A transport that keeps what was published, or is out of order."""

    only_leftovers = False

    def __init__(self) -> None:
        self.published: list[tuple[str, list[TaskId]]] = []
        self.is_broken = False

    async def publish(self, queue: str, task_ids: Sequence[TaskId]) -> None:
        """Keep a hint."""
        if self.is_broken:
            raise Unavailable("out of order")
        self.published.append((queue, list(task_ids)))


@pytest.fixture
def postbox() -> Postbox:
    """Where hints arrive."""
    return Postbox()


@pytest.fixture
def republisher(ledger: Ledger, postbox: Postbox) -> Republisher:
    """One that publishes what has waited for five seconds."""
    return Republisher(ledger, postbox, timedelta(seconds=5))


async def test_what_has_waited_is_published_and_what_is_new_is_not(
    republisher: Republisher, postbox: Postbox, world: World
) -> None:
    job_id = await world.submit([1, 2])
    await republisher.run()
    assert postbox.published == []
    await world.clock.advance(6)
    await world.submit([3])
    await republisher.run()
    assert postbox.published == [("q", [TaskId(job_id, 0), TaskId(job_id, 1)])]


async def test_each_queue_gets_its_own_hints(
    republisher: Republisher, postbox: Postbox, world: World
) -> None:
    jobs = {queue: await world.submit([1], queue=queue) for queue in ("a", "b", "c")}
    await world.clock.advance(6)
    await republisher.run()
    assert postbox.published == [(queue, [TaskId(jobs[queue], 0)]) for queue in "abc"]


async def test_a_task_is_not_published_again_at_every_turn(
    republisher: Republisher, postbox: Postbox, world: World
) -> None:
    await world.submit([1])
    await world.clock.advance(6)
    await republisher.run()
    await republisher.run()
    assert len(postbox.published) == 1


async def test_what_could_not_be_sent_is_tried_at_the_next_turn(
    republisher: Republisher, postbox: Postbox, world: World
) -> None:
    await world.submit([1])
    await world.clock.advance(6)
    postbox.is_broken = True
    with pytest.raises(Unavailable):
        await republisher.run()
    postbox.is_broken = False
    await republisher.run()
    assert len(postbox.published) == 1


async def test_a_paused_queue_wakes_nobody(
    republisher: Republisher, postbox: Postbox, ledger: Ledger, world: World
) -> None:
    await world.submit([1])
    await world.clock.advance(6)
    await pause_queue(ledger, "q", actor="somebody")
    await republisher.run()
    assert postbox.published == []


async def test_a_claimed_task_is_not_published(
    republisher: Republisher, postbox: Postbox, world: World
) -> None:
    await world.submit([1])
    await world.claim()
    await world.clock.advance(6)
    await republisher.run()
    assert postbox.published == []
