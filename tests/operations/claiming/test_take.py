"""Claims of tasks that name resources: what fits is given, the rest stays in line."""

from datetime import timedelta
from typing import Any

import pytest

from holdfast.errors import Invalid, LeaseConflict
from holdfast.ledger.news import News
from holdfast.model.work.ids import TaskId
from holdfast.model.workers.resources import Capacity
from holdfast.operations.claiming.claim import Answer, Claim, claim
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.store.database import Database
from tests.audits import assert_audit_is_silent
from tests.limits import set_limit
from tests.world import World


async def claim_within(
    world: World, free: float, whole: float = 2.0, count: int = 10, worker: str = "w1"
) -> list[Claim]:
    """Claim from where some of the cores are free."""
    request = ClaimRequest(
        worker, ("q",), count, free=Capacity(cpu=free), capacity=Capacity(cpu=whole)
    )
    [answer] = await claim(world.ledger, [request])
    assert isinstance(answer, list), answer
    return answer


def jobs(claims: list[Claim]) -> list[int]:
    """List the jobs of what was claimed."""
    return [mine.task_id.job_id for mine in claims]


async def test_what_does_not_fit_stays_in_line_and_keeps_its_turn(
    world: World, database: Database
) -> None:
    sized = await world.submit(inputs=[1, 2, 3], resources={"cpu": 1})
    plain = await world.submit()
    mine = await claim_within(world, free=2.0)
    assert jobs(mine) == [sized, sized, plain]
    assert await claim_within(world, free=0.0) == []
    assert jobs(await claim_within(world, free=2.0, worker="w2")) == [sized]
    await assert_audit_is_silent(database)


async def test_a_large_one_is_not_kept_waiting_by_small_ones(world: World) -> None:
    large = await world.submit(resources={"cpu": 2})
    small = await world.submit(resources={"cpu": 1})
    plain = await world.submit()
    assert jobs(await claim_within(world, free=1.0)) == [plain]
    assert jobs(await claim_within(world, free=1.0, whole=1.0, worker="tiny")) == [small]
    assert jobs(await claim_within(world, free=2.0)) == [large]


async def claim_one_of(world: World, *queues: str) -> Answer | Exception:
    """Claim one task from several queues, with room for many."""
    room = Capacity(cpu=8.0)
    [answer] = await claim(world.ledger, [ClaimRequest("w1", queues, free=room, capacity=room)])
    return answer


async def test_a_queue_at_its_limit_keeps_no_sized_task_of_another_waiting(world: World) -> None:
    await set_limit(world.clock, "narrow", "queue", 2, only_for="a")
    await world.submit(queue="a", resources={"cpu": 1})
    await world.submit([*range(5)], queue="a", resources={"cpu": 1}, slots=2)
    others = await world.submit([1, 2], queue="b", resources={"cpu": 1})
    claims = [await claim_one_of(world, "a", "b") for _ in range(3)]
    # One slot of `a` is left, and its next task needs two.
    assert [jobs(each) for each in claims if isinstance(each, list)] == [[1], [others], [others]]


async def test_a_sized_claim_that_a_rate_left_nothing_tells_when_it_opens(
    world: World,
) -> None:
    rate: dict[str, Any] = {"kind": "window", "period": timedelta(seconds=60)}
    await set_limit(world.clock, "slow", "queue", 1, only_for="a", **rate)
    await world.submit([1, 2], queue="a", resources={"cpu": 1})
    assert [jobs(each) for each in [await claim_one_of(world, "a")] if isinstance(each, list)]
    told: list[News] = []
    world.ledger.on_commit = told.append
    assert await claim_one_of(world, "a") == []
    [(queue, opens_in)] = [opening for each in told for opening in each.openings]
    assert queue == "a"
    assert 0 < opens_in <= 61


async def test_claims_of_one_batch_get_what_fits_each(world: World) -> None:
    large = await world.submit(resources={"cpu": 8})
    amounts = [(Capacity(cpu=cpu), Capacity(cpu=cpu)) for cpu in (1.0, 8.0)]
    answers = await claim(
        world.ledger,
        [ClaimRequest(f"w{n}", ("q",), free=f, capacity=c) for n, (f, c) in enumerate(amounts)],
    )
    assert [jobs(answer) for answer in answers if isinstance(answer, list)] == [[], [large]]


async def test_who_says_nothing_of_its_room_is_given_everything(world: World) -> None:
    job_id = await world.submit(inputs=[1, 2], resources={"cpu": 99})
    assert jobs(await world.claim(5)) == [job_id, job_id]


async def test_tasks_that_were_cancelled_are_not_in_the_way(world: World) -> None:
    gone = await world.submit(inputs=[1] * 5, resources={"cpu": 1})
    left = await world.submit(resources={"cpu": 1})
    await claim_within(world, free=0.0)
    await world.cancel_job(gone)
    assert jobs(await claim_within(world, free=2.0, count=2)) == [left]
    large = await world.submit(resources={"cpu": 2})
    small = await world.submit(resources={"cpu": 1})
    await world.cancel_job(large)
    assert jobs(await claim_within(world, free=1.0)) == [small]
    assert await claim_within(world, free=2.0) == []
    assert await world.clock.fetch("select 1 from holdfast.ready") == []


async def test_a_claim_that_is_repeated_has_the_same_answer(world: World) -> None:
    job_id = await world.submit(inputs=[1, 2], resources={"cpu": 1})
    room = Capacity(cpu=1)
    request = ClaimRequest("w1", ("q",), 5, idempotency_key="k", free=room, capacity=room)
    [first] = await claim(world.ledger, [request])
    [again] = await claim(world.ledger, [request._replace(free=Capacity(cpu=9))])
    assert isinstance(first, list)
    assert isinstance(again, list)
    assert [mine.lease_token for mine in first] == [mine.lease_token for mine in again]
    assert jobs(first) == [job_id]


async def test_a_queue_is_looked_at_closely_only_while_sized_tasks_stand_in_it(
    world: World,
) -> None:
    await world.submit()
    await claim_within(world, free=2.0)
    assert world.ledger.sized_queues == set()
    await world.submit(resources={"cpu": 1})
    [mine] = await claim_within(world, free=2.0)
    assert world.ledger.sized_queues == {"q"}
    await world.succeed(mine)
    await claim_within(world, free=2.0)
    assert world.ledger.sized_queues == set()


async def test_a_task_asked_for_by_its_id_has_to_fit_as_well(world: World) -> None:
    task_id = TaskId(await world.submit(resources={"cpu": 4}), 0)
    [answer] = await claim(
        world.ledger, [ClaimRequest("w1", task_id=task_id, free=Capacity(cpu=3))]
    )
    assert isinstance(answer, LeaseConflict)
    assert "no_room" in str(answer)
    [answer] = await claim(
        world.ledger, [ClaimRequest("w1", task_id=task_id, free=Capacity(cpu=4))]
    )
    assert isinstance(answer, list)
    assert jobs(answer) == [task_id.job_id]


@pytest.mark.parametrize("field", ["free", "capacity"])
@pytest.mark.parametrize("amount", [{"cpu": -1.0}, {"cpu": float("nan")}, {"memory": -1}])
async def test_amounts_that_make_no_sense_are_refused_by_name(
    world: World, field: str, amount: dict[str, float]
) -> None:
    await world.submit()
    request = ClaimRequest("w1", ("q",), **{field: Capacity(**amount)})  # type: ignore[arg-type]
    [answer] = await claim(world.ledger, [request])
    assert isinstance(answer, Invalid)
    assert answer.field == f"{field}.{next(iter(amount))}"
    assert (await world.claim())[0].task_id.task_index == 0


async def test_of_two_claims_for_one_task_the_roomy_one_gets_it(world: World) -> None:
    task_id = TaskId(await world.submit(resources={"cpu": 2}), 0)
    rooms = [Capacity(cpu=cpu) for cpu in (1.0, 2.0)]
    requests = [ClaimRequest(f"w{n}", task_id=task_id, free=free) for n, free in enumerate(rooms)]
    small, roomy = await claim(world.ledger, requests)
    assert isinstance(small, LeaseConflict)
    assert isinstance(roomy, list)
    assert roomy[0].task_id == task_id
