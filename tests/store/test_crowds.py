"""Of many tasks of one key that come at once, few stand in the way of other keys."""

import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.model.limits.usage_limits import UsageLimit
from holdfast.operations.follow_up import follow_up_all
from holdfast.operations.usage_limits.put import put_limit
from tests.audits import assert_audit_is_silent
from tests.databases import connect
from tests.world import World

BY_CUSTOMER = {"input": "customer"}
KEYS = UsageLimit(scope="key", kind="concurrency", most=1)
TYPES = UsageLimit(scope="type", kind="concurrency", most=10)


@pytest.fixture
async def limited(ledger: Ledger, world: World) -> World:
    """A ledger in which each key may have one task at a time."""
    await put_limit(ledger, "one", KEYS, actor="ann")
    return world


async def counts(world: World) -> tuple[int, int]:
    """Count what stands in the queue's line, and behind limits."""
    return await world.count("ready"), await world.count("gated")


async def test_a_crowd_stands_behind_its_limit_and_all_of_it_runs(
    limited: World, ledger: Ledger
) -> None:
    await limited.submit([{"customer": "busy"}] * 150, concurrency_key=BY_CUSTOMER)
    assert await counts(limited) == (100, 50)
    # The line is no shorter than it was, so what comes later stands behind it.
    await limited.submit([{"customer": "busy"}, {"customer": "other"}], concurrency_key=BY_CUSTOMER)
    assert await counts(limited) == (101, 51)
    order = []
    for _ in range(152):
        claims = await limited.claim(3)
        order += [(claim.task_id.job_id, claim.task_id.task_index) for claim in claims]
        for claim in claims:
            await limited.start(claim)
            await limited.succeed(claim)
    assert len(set(order)) == 152
    busy = [task for task in order if task != (max(order)[0], 1)]
    assert busy == sorted(busy), "first come, first served"
    assert await counts(limited) == (0, 0)
    await assert_audit_is_silent(ledger.database)


async def test_a_large_job_is_fed_behind_its_limit(limited: World, ledger: Ledger) -> None:
    await limited.submit([{}] * 10_050, concurrency_key="busy")
    await follow_up_all(ledger)
    in_line, gated = await counts(limited)
    assert (in_line, in_line + gated) == (100, 10_050)
    other = await limited.submit([{}], concurrency_key="other")
    claims = await limited.claim() + await limited.claim()
    assert [claim.task_id.job_id for claim in claims] == [1, other]


async def test_a_crowd_of_many_keys_or_without_a_limit_stays_in_line(
    limited: World, ledger: Ledger
) -> None:
    inputs = [{"customer": f"c{number % 50}"} for number in range(300)]
    await limited.submit(inputs, concurrency_key=BY_CUSTOMER)
    await limited.submit([{}] * 150)
    assert await counts(limited) == (450, 0)


async def test_a_crowd_of_one_key_leaves_the_slots_of_its_type_to_other_keys(
    world: World, ledger: Ledger
) -> None:
    for name, limit in (("types", TYPES), ("keys", KEYS)):
        await put_limit(ledger, name, limit, actor="ann")
    await world.submit([{"customer": "busy"}] * 400, concurrency_key=BY_CUSTOMER)
    others = [{"customer": f"c{number}"} for number in range(20)]
    job_id = await world.submit(others, concurrency_key=BY_CUSTOMER)
    claims = await world.claim(20) + await world.claim(20)
    assert sum(claim.task_id.job_id == job_id for claim in claims) == 9
    assert len(claims) == 10
    await assert_audit_is_silent(ledger.database)


async def test_a_crowd_of_many_keys_stands_behind_the_type_that_it_is_a_crowd_of(
    world: World, ledger: Ledger
) -> None:
    for name, limit in (("keys", KEYS), ("types", TYPES)):
        await put_limit(ledger, name, limit, actor="ann")
    inputs = [{"customer": f"c{number}"} for number in range(250)]
    await world.submit(inputs, concurrency_key=BY_CUSTOMER)
    assert await counts(world) == (100, 150)


async def test_a_crowd_that_is_due_at_once_stands_behind_its_limit(
    limited: World, ledger: Ledger
) -> None:
    [row] = await limited.clock.fetch("select extract(epoch from holdfast.now())::float8 + 60")
    await limited.submit([{}] * 150, concurrency_key="busy", not_before=row[0])
    await limited.pass_time(61)
    assert await counts(limited) == (100, 50)
    await assert_audit_is_silent(ledger.database)


async def test_a_queue_of_its_own_limit_is_left_alone(world: World, ledger: Ledger) -> None:
    limit = UsageLimit(scope="queue", kind="concurrency", most=1)
    await put_limit(ledger, "one", limit, actor="ann")
    await world.submit([{}] * 150, concurrency_key="busy")
    assert await counts(world) == (150, 0)


SUBMIT = """select holdfast.submit('{"entrypoint": {"function": "app:work"}, "queue": "q",
    "owner": "ann", "concurrency_key": "busy", "replicas": 130}')"""


async def test_a_crowd_submitted_by_sql_stands_behind_its_limit(limited: World) -> None:
    await limited.submit(concurrency_key="busy")
    [running] = await limited.claim()
    await limited.start(running)
    await limited.clock.fetch(SUBMIT)
    assert await counts(limited) == (100, 30)


async def test_a_crowd_in_an_open_transaction_keeps_nobody_from_claiming(
    limited: World, direct_url: str
) -> None:
    user = await connect(direct_url)
    try:
        async with user.transaction():
            await user.execute(SUBMIT)
            mine = await limited.submit(concurrency_key="busy")
            assert [claim.task_id.job_id for claim in await limited.claim()] == [mine]
    finally:
        await user.close()
    # The limit is met by then: claims move its crowd out of the way.
    assert await counts(limited) == (130, 0)
    other = await limited.submit(concurrency_key="other")
    assert [claim.task_id.job_id for claim in await limited.claim()] == [other]
    assert await counts(limited) == (0, 130)
