"""A plain role with nothing but DML is held to the same rules, and cannot switch them off."""

import asyncpg
import pytest

from holdfast.model.work.states import TaskState
from holdfast.rules.lifecycle import EVENT_TYPES, LEGAL_MOVES
from holdfast.store.database import Transaction
from holdfast.store.grants import write_grants
from tests.store.raw import PATHS, Raw

ROLE = "plain_user_of_the_ledger"


@pytest.fixture
async def plain(raw: Raw) -> Raw:
    """The database as a role sees it that may read and write rows, and nothing else."""
    await raw.run(f"create role {ROLE}")
    for statement in await write_grants(Transaction(raw.connection), ROLE):
        await raw.run(statement)
    await raw.run(f"set session authorization {ROLE}")
    return raw


async def test_the_role_is_neither_superuser_nor_owner(plain: Raw) -> None:
    assert await plain.value("select current_user = $1 and session_user = $1", ROLE)
    assert not await plain.value("select rolsuper from pg_roles where rolname = current_user")
    owner = "select pg_get_userbyid(relowner) from pg_class where oid = 'holdfast.tasks'::regclass"
    assert await plain.value(owner) != ROLE


@pytest.mark.parametrize("start", TaskState, ids=lambda state: state.name)
async def test_the_role_makes_exactly_the_legal_moves(plain: Raw, start: TaskState) -> None:
    for end in TaskState:
        async with plain.rolled_back():
            job_id = await plain.bring_to(start)
            if end in LEGAL_MOVES[start]:
                await plain.move(job_id, end)
                steps = [*PATHS[start], end]
            else:
                async with plain.refused("a_task_only_moves_forward"):
                    await plain.move(job_id, end)
                steps = [*PATHS[start]]
            types = [event[1] for event in await plain.events(job_id)]
            assert types == [EVENT_TYPES[step] for step in steps]


@pytest.mark.parametrize(
    ("constraint", "statement"),
    [
        ("events_are_written_by_moves_alone", "insert into h.events select * from h.events"),
        ("an_event_never_changes", "update h.events set cause = 'x'"),
        ("an_event_never_changes", "delete from h.events"),
        ("an_attempt_is_never_deleted", "delete from h.attempts"),
        ("an_ended_attempt_is_only_released", "update h.attempts set error = 'x'"),
        ("a_lease_keeps_its_identity", "update h.leases set lease_token = gen_random_uuid()"),
        ("one_unreleased_attempt_per_task", "insert into h.leases select * from h.leases"),
        ("a_task_only_moves_forward", "update h.tasks set state = 1"),
        ("a_task_only_moves_forward", "update h.tasks set seq = seq + 1"),
        ("a_task_of_a_submitted_job_stays", "delete from h.tasks"),
        ("a_job_goes_after_its_tasks", "delete from h.jobs"),
        ("a_job_only_moves_forward", "update h.jobs set seq = seq + 1, event_at = h.now()"),
        ("counts_are_not_negative", "update h.jobs set pending = -1, running = 2"),
        ("counts_add_up_to_the_number_of_tasks", "update h.jobs set pending = 2"),
        ("a_partition_is_written_through_its_parent", "delete from h.events_1"),
        ("a_partition_is_written_through_its_parent", "update h.tasks_1 set state = 4"),
    ],
)  # fmt: skip
async def test_the_role_is_refused_what_anybody_is_refused(
    plain: Raw, constraint: str, statement: str
) -> None:
    job_id = await plain.bring_to(TaskState.RUNNING)
    await plain.insert_lease(job_id)
    await plain.insert_attempt(job_id)
    async with plain.refused(constraint):
        await plain.run(statement.replace("h.", "holdfast."))


@pytest.mark.parametrize(
    "statement",
    [
        "alter table holdfast.tasks disable trigger all",
        "alter table holdfast.tasks disable trigger a_task_only_moves_forward",
        "drop trigger a_task_only_moves_forward on holdfast.tasks",
        "alter table holdfast.jobs drop constraint counts_are_not_negative",
        "drop index holdfast.one_event_per_transition",
        "set session_replication_role = replica",
        "truncate holdfast.events",
        "truncate holdfast.tasks",
        "create or replace function holdfast.refuse() returns trigger language plpgsql"
        " as 'begin return new; end'",
        "create trigger my_own before update on holdfast.tasks"
        " for each row execute function holdfast.write_job_event()",
        "alter table holdfast.tasks detach partition holdfast.tasks_1",
        "drop table holdfast.events_1",
    ],
)
async def test_the_role_cannot_switch_the_rules_off(plain: Raw, statement: str) -> None:
    await plain.bring_to(TaskState.RUNNING)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with plain.connection.transaction():
            await plain.run(statement)


async def test_the_role_cannot_drop_a_partition_with_live_jobs(plain: Raw) -> None:
    await plain.bring_to(TaskState.RUNNING)
    async with plain.refused("a_partition_with_live_jobs_stays"):
        await plain.run("select holdfast.drop_partition(1)")


async def test_the_role_can_add_a_partition(plain: Raw) -> None:
    await plain.run("select holdfast.add_partition(1000001, 1000010)")


async def test_the_rule_about_ended_tasks_holds_for_the_role_too(plain: Raw) -> None:
    async with plain.refused("an_ended_task_is_finished_or_retried"):
        await plain.bring_to(TaskState.FAILED)
        await plain.run("set constraints all immediate")
