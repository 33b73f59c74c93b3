"""The database itself refuses a second lease, a rewritten past, and events that no move wrote."""

import pytest

from holdfast.model.work.states import TaskState
from tests.store.raw import Raw

# Leases


async def test_there_is_at_most_one_unreleased_lease_per_task(raw: Raw) -> None:
    job_id = await raw.insert_whole_job()
    await raw.insert_lease(job_id)
    async with raw.refused("one_unreleased_attempt_per_task"):
        await raw.insert_lease(job_id, attempt="1")
    await raw.run("update holdfast.leases set ending = true")
    async with raw.refused("one_unreleased_attempt_per_task"):
        await raw.insert_lease(job_id, attempt="1")
    await raw.run("delete from holdfast.leases")
    await raw.insert_lease(job_id, attempt="1")


@pytest.mark.parametrize(
    "change",
    [
        "attempt = attempt + 1",
        "attempt = attempt - 1",
        "lease_token = gen_random_uuid()",
        "created_at = created_at + interval '1 s'",
        "ending = false",
        "job_id = job_id + 1",
        "task_index = task_index + 1",
    ],
)
async def test_a_lease_keeps_its_identity(raw: Raw, change: str) -> None:
    job_id = await raw.insert_whole_job()
    await raw.insert_lease(job_id, attempt="1", ending="true")
    async with raw.refused("a_lease_keeps_its_identity"):
        await raw.run(f"update holdfast.leases set {change}")


@pytest.mark.parametrize(
    "change", ["expires_at = expires_at + duration", "ending = true", "worker_id = 'w2'"]
)
async def test_a_lease_may_be_renewed_ended_and_adopted(raw: Raw, change: str) -> None:
    await raw.insert_lease(await raw.insert_whole_job())
    await raw.run(f"update holdfast.leases set {change}")


@pytest.mark.parametrize("duration", ["0", "-1"])
async def test_a_lease_lasts_a_while(raw: Raw, duration: str) -> None:
    job_id = await raw.insert_whole_job()
    async with raw.refused("a_lease_lasts_a_while"):
        await raw.insert_lease(job_id, duration=f"interval '{duration} s'")


# Attempts

RELEASE = "released_at = finished_at + interval '1 s'"


@pytest.mark.parametrize("state", TaskState, ids=lambda state: state.name)
async def test_a_recorded_attempt_has_ended(raw: Raw, state: TaskState) -> None:
    job_id = await raw.insert_whole_job()
    if state.name in ("SUCCEEDED", "FAILED", "KILLED", "WORKER_FAILED"):
        await raw.insert_attempt(job_id, state=str(int(state)))
        return
    async with raw.refused("a_recorded_attempt_has_ended"):
        await raw.insert_attempt(job_id, state=str(int(state)))


async def test_an_attempt_is_recorded_once(raw: Raw) -> None:
    job_id = await raw.insert_whole_job()
    await raw.insert_attempt(job_id)
    await raw.insert_attempt(job_id, attempt="1")
    async with raw.refused("attempts_1_pkey"):
        await raw.insert_attempt(job_id)


@pytest.mark.parametrize(
    "columns",
    [
        {"finished_at": "holdfast.now() - interval '1 h'"},
        {"released_at": "holdfast.now() - interval '1 h'"},
    ],
    ids=str,
)
async def test_an_attempt_ends_after_it_began(raw: Raw, columns: dict[str, str]) -> None:
    job_id = await raw.insert_whole_job()
    async with raw.refused("an_attempt_ends_after_it_began"):
        await raw.insert_attempt(job_id, **columns)


@pytest.mark.parametrize(
    "change",
    [
        "job_id = job_id + 1",
        "task_index = 1",
        "attempt = 1",
        "worker_id = 'w2'",
        "state = 4",
        "created_at = created_at - interval '1 s'",
        "started_at = created_at",
        "finished_at = finished_at - interval '1 microsecond'",
        "exit_code = 0",
        "error = 'x'",
        "error_class = 'x'",
        "stage = 'fetch'",
        "lease_token = gen_random_uuid()",
        "reported = false",
    ],
)
async def test_an_ended_attempt_is_only_released(raw: Raw, change: str) -> None:
    job_id = await raw.insert_whole_job()
    await raw.insert_attempt(job_id)
    for changes in (change, f"{change}, {RELEASE}"):
        async with raw.refused("an_ended_attempt_is_only_released"):
            await raw.run(f"update holdfast.attempts set {changes}")


async def test_an_attempt_is_released_once(raw: Raw) -> None:
    await raw.insert_attempt(await raw.insert_whole_job())
    await raw.run(f"update holdfast.attempts set {RELEASE}, last_lease_expires_at = finished_at")
    for change in (RELEASE, "released_at = null", "last_lease_expires_at = holdfast.now()"):
        async with raw.refused("an_ended_attempt_is_only_released"):
            await raw.run(f"update holdfast.attempts set {change}")


@pytest.mark.parametrize(
    ("table", "constraint"),
    [
        ("events", "events_are_never_truncated"),
        ("attempts", "attempts_are_never_truncated"),
        ("events_1", "a_partition_is_written_through_its_parent"),
        ("attempts_1", "a_partition_is_written_through_its_parent"),
    ],
)
async def test_what_has_happened_is_never_truncated(raw: Raw, table: str, constraint: str) -> None:
    await raw.bring_to(TaskState.RUNNING)
    async with raw.refused(constraint):
        await raw.run(f"truncate holdfast.{table}")


async def test_an_attempt_is_never_deleted(raw: Raw) -> None:
    await raw.insert_attempt(await raw.insert_whole_job())
    async with raw.refused("an_attempt_is_never_deleted"):
        await raw.run("delete from holdfast.attempts")


# Events

AN_EVENT = (
    "insert into holdfast.events (job_id, task_index, seq, attempt, type, ts, txid) "
    "values ({}, {}, {}, 0, 'claimed', holdfast.now(), txid_current())"
)


@pytest.mark.parametrize(("task_index", "seq"), [(0, 0), (0, 1), (0, 7), (-1, 1), (99, 0)])
async def test_an_event_is_written_by_a_move_alone(raw: Raw, task_index: int, seq: int) -> None:
    job_id = await raw.bring_to(TaskState.ASSIGNED)
    async with raw.refused("events_are_written_by_moves_alone"):
        await raw.run(AN_EVENT.format(job_id, task_index, seq))


async def test_copying_rows_in_is_no_way_around(raw: Raw) -> None:
    job_id = await raw.bring_to(TaskState.ASSIGNED)
    columns = ["job_id", "task_index", "seq", "attempt", "type", "ts", "txid"]
    rows = await raw.rows("select holdfast.now()")
    async with raw.refused("events_are_written_by_moves_alone"):
        await raw.connection.copy_records_to_table(
            "events",
            schema_name="holdfast",
            columns=columns,
            records=[(job_id, 0, 1, 0, "started", rows[0][0], 1)],
        )


@pytest.mark.parametrize(
    "statement",
    ["update holdfast.events set cause = 'x'", "update holdfast.events set seq = seq + 1",
     "delete from holdfast.events"],
)  # fmt: skip
async def test_an_event_never_changes(raw: Raw, statement: str) -> None:
    await raw.bring_to(TaskState.ASSIGNED)
    async with raw.refused("an_event_never_changes"):
        await raw.run(statement)


async def test_not_even_a_trigger_writes_a_second_event_for_a_transition(raw: Raw) -> None:
    job_id = await raw.bring_to(TaskState.ASSIGNED)
    await raw.run("create table public.trap (seq int)")
    await raw.run(
        "create function public.spring() returns trigger language plpgsql as $$ begin "
        f"{AN_EVENT.format(job_id, 0, 'new.seq')}; return new; end $$"
    )
    await raw.run(
        "create trigger spring before insert on public.trap "
        "for each row execute function public.spring()"
    )
    async with raw.refused("events_1_job_id_task_index_seq_key"):
        await raw.run("insert into public.trap values (0)")
    await raw.run("insert into public.trap values (1)")


# Deletes


async def test_a_task_of_a_submitted_job_stays(raw: Raw) -> None:
    await raw.insert_whole_job()
    async with raw.refused("a_task_of_a_submitted_job_stays"):
        await raw.run("delete from holdfast.tasks")


async def test_a_job_goes_after_its_tasks(raw: Raw) -> None:
    await raw.insert_whole_job()
    async with raw.refused("a_job_goes_after_its_tasks"):
        await raw.run("delete from holdfast.jobs")


async def test_a_job_that_was_never_shown_can_be_taken_back(raw: Raw) -> None:
    job_id = await raw.insert_job(shown=False)
    await raw.insert_task(job_id)
    await raw.run("delete from holdfast.tasks")
    await raw.run("delete from holdfast.jobs")
    assert await raw.value("select count(*) from holdfast.events") == 0


# Partitions


@pytest.mark.parametrize("first_job_id", [1, 10_001], ids=["first", "later"])
@pytest.mark.parametrize("parent", ["tasks", "attempts", "events"])
@pytest.mark.parametrize(
    "statement",
    ["insert into {0} select * from {0}", "update {0} set job_id = job_id", "delete from {0}"],
)
async def test_a_partition_is_written_through_its_parent(
    raw: Raw, statement: str, parent: str, first_job_id: int
) -> None:
    await raw.run("select holdfast.add_partition(10001, 20001)")
    async with raw.refused("a_partition_is_written_through_its_parent"):
        await raw.run(statement.format(f"holdfast.{parent}_{first_job_id}"))


async def test_a_dropped_partition_takes_its_tasks_attempts_and_events_along(raw: Raw) -> None:
    job_id = await raw.bring_to(TaskState.SUCCEEDED)
    await raw.insert_attempt(job_id)
    await raw.run(
        "update holdfast.jobs set state = 4, finished_at = holdfast.now(), seq = seq + 1, "
        "event_type = 'succeeded', event_at = holdfast.now()"
    )
    await raw.run("select holdfast.drop_partition(1)")
    for table in ("tasks", "attempts", "events", "partitions"):
        assert await raw.value(f"select count(*) from holdfast.{table}") == 0


# Around them


@pytest.mark.parametrize(
    ("constraint", "statement"),
    [
        (
            "a_partition_holds_at_least_one_job",
            "insert into holdfast.partitions values (20001, 20001)",
        ),
        (
            "an_outbox_row_has_a_known_kind",
            "insert into holdfast.outbox (kind, job_id, created_at) values ('x', 1, now())",
        ),
        (
            "there_is_one_reaper_row",
            "insert into holdfast.reaper (one, last_pass_at) values (false, now())",
        ),
        ("reaper_pkey", "insert into holdfast.reaper (last_pass_at) values (now())"),
    ],
)
async def test_what_stands_around_the_ledger_has_its_rules_too(
    raw: Raw, constraint: str, statement: str
) -> None:
    async with raw.refused(constraint):
        await raw.run(statement)


@pytest.mark.parametrize(
    ("constraint", "columns"),
    [
        ("a_dead_letter_has_a_known_reason", {"reason_code": "'bad_luck'"}),
        ("a_replay_names_its_job", {"replayed_at": "holdfast.now()"}),
        ("a_replay_names_its_job", {"replayed_as": "7"}),
        (
            "a_dead_letter_is_replayed_or_discarded_not_both",
            {
                "replayed_at": "holdfast.now()",
                "replayed_as": "7",
                "discarded_at": "holdfast.now()",
            },
        ),
    ],
    ids=str,
)
async def test_a_dead_letter_makes_sense(
    raw: Raw, constraint: str, columns: dict[str, str]
) -> None:
    usual = {
        "job_id": "1",
        "task_index": "0",
        "reason_code": "'timeout'",
        "attempts": "1",
        "correlation_id": "'c'",
        "type": "'t'",
        "dead_lettered_at": "holdfast.now()",
    }
    async with raw.refused(constraint):
        await raw.insert("dead_letters", usual | columns)
    await raw.insert("dead_letters", usual)
    async with raw.refused("one_dead_letter_per_task"):
        await raw.insert("dead_letters", usual)
