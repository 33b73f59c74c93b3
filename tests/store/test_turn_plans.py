"""The functions of the hot path find their rows by key: they read what they take, and no more.

Their plans are kept while tables grow, so this looks at plans that were made on an empty database.
"""

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.model.limits.usage_limits import UsageLimit
from holdfast.model.submitting.spec import Submission
from holdfast.operations.claiming.claim import read_claims
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.operations.claiming.turn import take_turns
from holdfast.operations.submitting.submit import submit, submit_one
from holdfast.operations.usage_limits.put import put_limit
from holdfast.rules.submitting.submission import parse_spec
from holdfast.store.database import Database
from holdfast.store.tables.work.attempts import Success
from tests.store.reading import Reads, reads
from tests.world import fence_of

SPEC = parse_spec({"entrypoint": {"function": "app:work"}, "queue": "q"})
GIVEN = 10


@pytest.fixture
async def alone(database_url: str) -> AsyncIterator[Ledger]:
    """A ledger with one connection, on which nothing has been planned."""
    async with Database(database_url, connections_max=1) as database:
        yield Ledger(database)


async def take_ten(ledger: Ledger, *queues: str) -> tuple[Reads, Reads]:
    """Claim tasks, then end them; returns what either has read."""
    request = ClaimRequest("w1", queues, GIVEN, idempotency_key=uuid4().hex, start=True)
    async with reads(ledger.database) as claiming:
        [claims] = read_claims(await take_turns(ledger, [], [request]), 1)
    assert claims is not None
    assert len(claims) == GIVEN
    async with reads(ledger.database) as ending:
        turn = await take_turns(ledger, [Success(fence_of(mine), None) for mine in claims], [])
    assert all(turn.recorded)
    return claiming, ending


async def test_a_turn_reads_what_it_takes_by_plans_from_before_the_tables_grew(
    alone: Ledger,
) -> None:
    await submit_one(alone, Submission(SPEC, ("1",) * GIVEN * 4))
    for queues in (("q",), ("q", "other")):
        await take_ten(alone, *queues)
    await submit_one(alone, Submission(SPEC, ("1",) * 2000))
    await submit(alone, [Submission(SPEC, ("1",))] * 500)
    for queues in (("other", "q"), ("q", "more")):
        claiming, ending = await take_ten(alone, *queues)
        assert claiming.scanned | ending.scanned == set()
        most = {table: max(claiming.rows.get(table, 0), ending.rows.get(table, 0))
                for table in claiming.rows.keys() | ending.rows.keys()}  # fmt: skip
        assert most.keys() <= {"ready", "tasks", "jobs", "leases", "idempotency"}
        assert max(most.values()) <= 3 * GIVEN, most


async def test_a_turn_reads_what_it_takes_where_a_vacuum_found_the_tables_empty(
    alone: Ledger,
) -> None:
    await submit_one(alone, Submission(SPEC, ("1",) * 3000))
    async with alone.database.connection() as connection:
        await connection.execute(
            "update pg_class set reltuples = 0, relpages = 1000"
            " where relname in ('leases', 'ready')"
        )
    request = ClaimRequest("w2", ("q",), 2000, idempotency_key=uuid4().hex, start=True)
    await take_turns(alone, [], [request])
    claiming, ending = await take_ten(alone, "q")
    most = {table: max(claiming.rows.get(table, 0), ending.rows.get(table, 0))
            for table in claiming.rows.keys() | ending.rows.keys()}  # fmt: skip
    assert max(most.values()) <= 3 * GIVEN, most


async def test_tasks_of_many_jobs_are_counted_by_the_key_of_each(alone: Ledger) -> None:
    await submit(alone, [Submission(SPEC, None)] * GIVEN)
    await take_ten(alone, "q")
    await submit(alone, [Submission(SPEC, None)] * 500)
    claiming, ending = await take_ten(alone, "q")
    assert claiming.scanned | ending.scanned == set()
    # Found, counted and started; counted and ended.
    assert (claiming.rows["jobs"], ending.rows["jobs"]) == (3 * GIVEN, 2 * GIVEN)


async def test_who_frees_slots_of_a_queue_does_not_read_its_line(alone: Ledger) -> None:
    limit = UsageLimit(scope="queue", kind="concurrency", most=1000)
    await put_limit(alone, "queue", limit, actor="ann")
    await submit_one(alone, Submission(SPEC, ("1",) * 3000))
    async with alone.database.connection() as connection:
        await connection.execute("analyze")
    _, ending = await take_ten(alone, "q")
    assert ending.rows.get("ready", 0) <= 3 * GIVEN, ending.rows
