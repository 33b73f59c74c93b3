"""Paused queues keep their tasks and hand none out."""

from typing import Any

import pytest

from holdfast.errors import Invalid
from holdfast.ledger.ledger import Ledger
from holdfast.model.work.ids import TaskId
from holdfast.operations.claiming.claim import claim
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.operations.queues import pause_queue, resume_queue
from tests.world import World


async def test_a_paused_queue_hands_out_nothing_until_it_is_resumed(
    ledger: Ledger, world: World
) -> None:
    job_id = await world.submit()
    await pause_queue(ledger, "q", actor="ann")
    assert await world.claim() == []
    assert await world.count("ready") == 1
    await resume_queue(ledger, "q", actor="ann")
    assert [mine.task_id for mine in await world.claim()] == [TaskId(job_id, 0)]


async def test_other_queues_of_the_same_claim_go_on(ledger: Ledger, world: World) -> None:
    await world.submit(queue="a", priority=9)
    open_job = await world.submit(queue="b")
    await pause_queue(ledger, "a", actor="ann")
    [answer] = await claim(ledger, [ClaimRequest("w1", ("a", "b"), 5)])
    assert isinstance(answer, list)
    assert [mine.task_id.job_id for mine in answer] == [open_job]


async def test_what_runs_already_runs_on(ledger: Ledger, world: World) -> None:
    await world.submit()
    [mine] = await world.claim()
    await pause_queue(ledger, "q", actor="ann")
    await world.start(mine)
    await world.renew(mine)
    assert (await world.succeed(mine)).accepted


async def test_pausing_and_resuming_twice_is_harmless(ledger: Ledger, world: World) -> None:
    await pause_queue(ledger, "q", actor="ann")
    before = await world.dump()
    await pause_queue(ledger, "q", actor="bob")
    assert await world.dump() == before
    await resume_queue(ledger, "q", actor="ann")
    await resume_queue(ledger, "q", actor="ann")
    assert await world.count("queues") == 0


async def test_submissions_to_a_paused_queue_are_taken_in(ledger: Ledger, world: World) -> None:
    await pause_queue(ledger, "q", actor="ann")
    await world.submit()
    assert await world.count("ready") == 1


async def test_bad_names_are_refused(ledger: Ledger, world: World) -> None:
    bad: list[tuple[str, dict[str, Any]]] = [
        ("queue", {"queue": ""}),
        ("queue", {"queue": "a\x00"}),
        ("queue", {"queue": "q" * 257}),
        ("actor", {"queue": "q", "actor": "\x00"}),
    ]
    for field, words in bad:
        with pytest.raises(Invalid) as refused:
            await pause_queue(ledger, **({"actor": "ann"} | words))
        assert refused.value.field == field
    with pytest.raises(Invalid):
        await resume_queue(ledger, "", actor="ann")
    assert await world.count("queues") == 0
