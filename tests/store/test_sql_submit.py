"""Submitting inside a user's own transaction: what it takes, and what follows from its end."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import asyncpg
import pytest

from holdfast.errors import KeyReused
from holdfast.model.submitting.spec import Submission
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.submitting.store import Submitted
from holdfast.operations.submitting.submit import submit_one
from holdfast.operations.upkeep.partitions import add_partitions
from holdfast.rules.submitting.submission import parse_spec
from tests.audits import assert_audit_is_silent
from tests.databases import connect
from tests.store.ear import Ear
from tests.store.two_ways import SPEC, encode, field_of, sql_submit
from tests.world import World

ROLE = "a_user_who_may_only_submit"
SECONDS_MAX = 30.0

Connect = Callable[[], Awaitable[Any]]


@pytest.fixture
async def open_session(direct_url: str) -> AsyncIterator[Connect]:
    """Open connections such as users have, with no setting of ours, past any pooler."""
    async with AsyncExitStack() as stack:

        async def open_one() -> Any:
            connection = await connect(direct_url)
            stack.push_async_callback(connection.close)
            return connection

        yield open_one


@pytest.fixture
async def user(database_url: str) -> AsyncIterator[Any]:
    """One such connection, behind a pooler if there is one."""
    connection = await connect(database_url)
    yield connection
    await connection.close()


async def wait_until_blocked(connection: Any, pid: int) -> None:
    """Wait for the fact that a backend waits for a lock."""
    for _ in range(int(SECONDS_MAX / 0.01)):
        if await connection.fetchval("select cardinality(pg_blocking_pids($1))", pid):
            return
        await asyncio.sleep(0.01)
    pytest.fail("nobody waits")


# The transaction decides


async def test_a_commit_makes_the_tasks_claimable(world: World, user: Any) -> None:
    async with user.transaction():
        job_id = await sql_submit(user, SPEC, [{"n": 1}, {"n": 2}])
        assert await world.claim(2) == []
    first, second = await world.claim(2)
    assert (first.task_id, first.input) == (TaskId(job_id, 0), '{"n": 1}')
    assert (second.task_id, second.input) == (TaskId(job_id, 1), '{"n": 2}')
    assert first.job.spec.entrypoint.function == "app.jobs:work"
    for claim in (first, second):
        await world.start(claim)
        await world.succeed(claim)
    assert await world.job_state(job_id) is TaskState.SUCCEEDED
    assert await world.story(job_id, -1) == ["submitted", "started", "succeeded"]
    await assert_audit_is_silent(world.ledger.database)


async def test_a_rollback_leaves_nothing(world: World, user: Any) -> None:
    before = await world.dump()
    transaction = user.transaction()
    await transaction.start()
    job_id = await sql_submit(user, SPEC | {"idempotency_key": "k"}, [1, 2])
    await sql_submit(user, SPEC | {"not_before": 4e9})
    await transaction.rollback()
    assert await world.dump() == before
    assert await sql_submit(user, SPEC | {"idempotency_key": "k"}, [1, 2]) != job_id
    await assert_audit_is_silent(world.ledger.database)


async def test_a_rollback_to_a_savepoint_takes_back_what_came_after_it(
    world: World, user: Any
) -> None:
    async with user.transaction():
        kept = await sql_submit(user, SPEC)
        savepoint = user.transaction()
        await savepoint.start()
        await sql_submit(user, SPEC)
        await savepoint.rollback()
    assert [claim.task_id.job_id for claim in await world.claim(9)] == [kept]


async def test_what_is_not_due_waits_until_it_is(world: World, user: Any) -> None:
    due = await user.fetchval("select extract(epoch from holdfast.now()) + 60")
    job_id = await sql_submit(user, SPEC | {"not_before": float(due), "replicas": 2})
    assert await world.claim(9) == []
    await world.watch()
    await world.pass_time(65)
    assert [claim.task_id.job_id for claim in await world.claim(9)] == [job_id] * 2
    await assert_audit_is_silent(world.ledger.database)


async def test_a_job_without_a_queue_is_placed_work(world: World, user: Any) -> None:
    job_id = await sql_submit(user, {"entrypoint": {"command": ["true"]}})
    assert await user.fetchval("select queue from holdfast.ready where job_id = $1", job_id) == ""
    assert await user.fetchval("select placed from holdfast.tasks where job_id = $1", job_id)


async def test_what_is_refused_changes_nothing(world: World, user: Any) -> None:
    before = await world.dump()
    for fields, inputs in ((SPEC | {"lease": 1}, None), (SPEC, [1, [[]] * 10**6])):
        with pytest.raises(asyncpg.InvalidParameterValueError):
            await sql_submit(user, fields, inputs)
    assert await world.dump() == before


async def test_a_refusal_names_the_field_and_what_to_do(user: Any) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError) as caught:
        await sql_submit(user, SPEC | {"lease": 1})
    assert str(caught.value) == "lease: is out of range; use 30 to 120"
    assert (caught.value.sqlstate, field_of(caught.value)) == ("22023", "lease")


@pytest.mark.parametrize(
    ("fields", "inputs", "field"),
    [(SPEC | {"replicas": 10_001}, None, "replicas"), (SPEC, [0] * 10_001, "inputs")],
    ids=["replicas", "inputs"],
)
async def test_more_than_one_transaction_should_hold_goes_through_the_server(
    user: Any, fields: Any, inputs: Any, field: str
) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError, match="through the server") as caught:
        await sql_submit(user, fields, inputs)
    assert field_of(caught.value) == field


async def test_as_much_as_one_transaction_holds_is_taken(world: World, user: Any) -> None:
    job_id = await sql_submit(user, SPEC, list(range(10_000)))
    await sql_submit(user, SPEC | {"replicas": 10_000})
    last = await user.fetchval(
        "select input::text from holdfast.tasks where job_id = $1 and task_index = 9999", job_id
    )
    assert (last, await world.count("ready")) == ("9999", 20_000)
    await assert_audit_is_silent(world.ledger.database)


# Keys


async def test_a_repeat_under_the_same_key_is_answered_with_the_first_job(
    world: World, user: Any
) -> None:
    spec = SPEC | {"idempotency_key": "k"}
    async with user.transaction():
        first = await sql_submit(user, spec, [1, {"b": 2, "a": 1}])
        assert await sql_submit(user, spec, [1, {"a": 1, "b": 2}]) == first
    assert await sql_submit(user, spec | {"queue": "q"}, [1.0, {"a": 1.0, "b": 2}]) == first
    assert await sql_submit(user, spec | {"owner": "another"}, [1]) != first
    assert await world.count("jobs") == 2


@pytest.mark.parametrize(
    ("fields", "inputs"),
    [({}, None), ({}, [1]), ({}, [2, 1]), ({}, [1, 2, 3]), ({"priority": 1}, [1, 2])],
)
async def test_a_different_submission_under_the_same_key_is_refused(
    user: Any, fields: dict[str, Any], inputs: Any
) -> None:
    spec = SPEC | {"idempotency_key": "k"}
    first = await sql_submit(user, spec, [1, 2])
    with pytest.raises(asyncpg.InvalidParameterValueError, match=f"job {first} with") as caught:
        await sql_submit(user, spec | fields, inputs)
    assert field_of(caught.value) == "idempotency_key"


async def test_sql_knows_a_repeat_of_what_the_server_took(world: World, user: Any) -> None:
    labels = {"labels": {"second": "b", "first": "a"}, "idempotency_key": "k"}
    arguments = {"entrypoint": {"function": "a:b", "kwargs": {"z": 1e16, "aa": 1e-9, "b": -0.0}}}
    for number, fields in enumerate((SPEC | labels, SPEC | arguments | {"idempotency_key": "l"})):
        submission = Submission(parse_spec(fields), ('{ "b":1, "a" : "\\u00e4" }', "2"))
        first = await submit_one(world.ledger, submission)
        assert await sql_submit(user, fields, [{"a": "ä", "b": 1}, 2]) == first.job_id
        with pytest.raises(asyncpg.InvalidParameterValueError):
            await sql_submit(user, fields, [2, {"a": "ä", "b": 1}])
        assert await world.count("jobs") == number + 1


async def test_the_server_knows_a_repeat_of_what_came_by_sql(world: World, user: Any) -> None:
    spec = SPEC | {
        "entrypoint": {"function": "a:b", "args": [1, 2.5, "ä b", None], "kwargs": {"x": [True]}},
        "labels": {"kind": "mail", "tenant": "blue"},
        "lease": 45,
        "backoff": {"base": 1},
        "idempotency_key": "k",
    }
    inputs: list[Any] = [{"n": 1, "to": "ü"}, [1, 2]]
    submission = Submission(parse_spec(spec), tuple(map(encode, inputs)))
    job_id = await sql_submit(user, spec, inputs)
    assert await submit_one(world.ledger, submission) == Submitted(job_id, is_new=False)
    with pytest.raises(KeyReused):
        await submit_one(world.ledger, Submission(parse_spec(spec | {"lease": 46})))


@pytest.mark.parametrize("end", ["commit", "rollback"])
async def test_of_two_who_race_with_one_key_the_second_waits_for_the_first(
    open_session: Connect, world: World, end: str
) -> None:
    first, second, watcher = [await open_session() for _ in range(3)]
    spec = SPEC | {"idempotency_key": "k"}
    await first.execute("begin")
    job_id = await sql_submit(first, spec)
    race = asyncio.create_task(sql_submit(second, spec))
    await wait_until_blocked(watcher, second.get_server_pid())
    await first.execute(end)
    assert (await race == job_id) == (end == "commit")
    assert await world.count("jobs") == 1


# Wake-ups


@pytest.fixture
async def ear(open_session: Connect) -> Ear:
    """What a server hears."""
    ear = Ear(await open_session(), await open_session())
    await ear.open()
    return ear


async def test_a_server_hears_of_ready_tasks_after_the_commit_and_once(user: Any, ear: Ear) -> None:
    async with user.transaction():
        await sql_submit(user, SPEC, [1, 2])
        await sql_submit(user, SPEC | {"priority": 1})
        await sql_submit(user, SPEC | {"queue": "another"})
        assert await ear.heard() == []
    assert await ear.heard() == ["q", "another"]


async def test_a_session_may_submit_without_a_hint(open_session: Connect, ear: Ear) -> None:
    quiet = await open_session()
    await quiet.execute("set holdfast.notify = off")
    await sql_submit(quiet, SPEC)
    assert await ear.heard() == []
    await quiet.execute("reset holdfast.notify")
    await sql_submit(quiet, SPEC)
    assert await ear.heard() == [SPEC["queue"]]


async def test_nobody_is_woken_for_what_cannot_be_claimed(user: Any, ear: Ear) -> None:
    transaction = user.transaction()
    await transaction.start()
    await sql_submit(user, SPEC)
    await transaction.rollback()
    await sql_submit(user, SPEC | {"not_before": 4e9})
    await sql_submit(user, SPEC | {"queue": None})
    assert await ear.heard() == []


async def test_a_repeat_wakes_nobody(user: Any, ear: Ear) -> None:
    await sql_submit(user, SPEC | {"idempotency_key": "k"})
    assert await ear.heard() == ["q"]
    await sql_submit(user, SPEC | {"idempotency_key": "k"})
    assert await ear.heard() == []


# Partitions


async def run_ahead(connection: Any, job_id: int) -> None:
    """Let ids run ahead, so that the next one is this."""
    await connection.execute("select setval('holdfast.job_ids', $1, false)", job_id)


async def list_ranges(connection: Any) -> list[tuple[int, int]]:
    """List the partitions by the ids they hold."""
    rows = await connection.fetch(
        "select first_job_id, end_job_id from holdfast.partitions order by 1"
    )
    return [tuple(row) for row in rows]


async def test_a_submission_that_finds_no_partition_adds_as_many_as_it_needs(
    world: World, user: Any
) -> None:
    await run_ahead(user, 50_001)
    async with user.transaction():
        assert await sql_submit(user, SPEC) == 50_001
        assert await sql_submit(user, SPEC, [1, 2]) == 50_002
    assert await list_ranges(user) == [(1, 10_001), (10_001, 50_001), (50_001, 210_001)]
    assert len(await world.claim(9)) == 3
    assert await world.submit() == 50_003
    await assert_audit_is_silent(world.ledger.database)


async def test_of_two_who_add_partitions_the_second_waits_and_goes_on(
    open_session: Connect,
) -> None:
    first, second, watcher = [await open_session() for _ in range(3)]
    await run_ahead(first, 25_000)
    await first.execute("begin")
    await first.execute("lock table holdfast.partitions in share row exclusive mode")
    race = asyncio.create_task(sql_submit(second, SPEC))
    await wait_until_blocked(watcher, second.get_server_pid())
    await first.execute("select holdfast.add_partition(10001, 20001); commit")
    assert await race == 25_000
    assert await list_ranges(watcher) == [(1, 10_001), (10_001, 20_001), (20_001, 60_001)]


async def test_a_partition_that_a_snapshot_cannot_see_is_found_all_the_same(
    world: World, user: Any
) -> None:
    async with user.transaction(isolation="repeatable_read"):
        await user.fetch("select from holdfast.partitions")
        await add_partitions(world.ledger, 10_001)
        await run_ahead(user, 10_001)
        job_id = await sql_submit(user, SPEC)
    assert [claim.task_id for claim in await world.claim()] == [TaskId(job_id, 0)]


# Sessions


async def test_a_role_needs_no_right_but_to_submit(user: Any) -> None:
    transaction = user.transaction()
    await transaction.start()
    await run_ahead(user, 10_001)
    await user.execute(f"create role {ROLE}; grant usage on schema holdfast to {ROLE}")
    await user.execute(f"set session authorization {ROLE}")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with user.transaction():
            await sql_submit(user, SPEC)
    await user.execute("reset session authorization")
    await user.execute(f"grant execute on function holdfast.submit to {ROLE}")
    await user.execute(f"set session authorization {ROLE}")
    job_id = await sql_submit(user, SPEC | {"idempotency_key": "k"}, [1])
    assert await sql_submit(user, SPEC | {"idempotency_key": "k"}, [1]) == job_id
    for statement in ("select * from holdfast.jobs", "update holdfast.limits set retries_max = 1"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with user.transaction():
                await user.execute(statement)
    await transaction.rollback()


async def test_the_settings_of_a_session_change_nothing(open_session: Connect) -> None:
    plain, odd = await open_session(), await open_session()
    await odd.execute(
        "set standard_conforming_strings = off; set escape_string_warning = off;"
        "set extra_float_digits = -15; set bytea_output = escape; set datestyle = german;"
        "set intervalstyle = iso_8601; set timezone = 'Asia/Kolkata'; set search_path = '';"
        "set default_transaction_isolation = serializable; set enable_indexscan = off"
    )
    spec = SPEC | {
        "entrypoint": {"function": "größe:übung", "args": ['s \\ " s', 0.1 + 0.2]},
        "lease": 100 / 3,
        "not_before": 1_900_000_000.1234565,
        "scheduling_timeout": 0.1 + 0.2,
        "correlation_id": "c",
    }
    stored = (
        "select spec::text, eligible_at, input::text "
        "from holdfast.jobs join holdfast.tasks using (job_id) where job_id = $1"
    )
    job_ids = [await sql_submit(connection, spec, ["s \\s"]) for connection in (plain, odd)]
    ours, theirs = [await plain.fetchrow(stored, job_id) for job_id in job_ids]
    assert ours == theirs


async def test_a_users_own_functions_are_never_called_instead_of_ours(user: Any) -> None:
    await user.execute(
        "create schema mine; create function mine.sha256(bytea) returns bytea language plpgsql"
        " as 'begin raise exception ''taken over''; end'; set search_path = mine, pg_catalog"
    )
    assert await sql_submit(user, SPEC) > 0
