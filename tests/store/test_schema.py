"""The database itself refuses every move of a task that the table of legal moves does not hold."""

import re
from pathlib import Path
from typing import Any

import pytest

from holdfast.embedded.binaries import get_major_version
from holdfast.model.work.states import TaskState
from holdfast.rules.lifecycle import EVENT_TYPES, LEGAL_MOVES, successors_mask
from tests.store.raw import PATHS, Raw

FORWARD = "a_task_only_moves_forward"
# Constraints come before it.
LIVE = "a_live_task_is_not_finished"
STATES = [pytest.param(state, id=state.name) for state in TaskState]
CAN_WAIT_FOR_ITS_FATE = [TaskState.FAILED, TaskState.KILLED, TaskState.WORKER_FAILED]


async def test_this_postgres_is_the_version_that_was_asked_for(
    raw: Raw, postgres_binaries: Path | None
) -> None:
    wanted = 18 if postgres_binaries is None else get_major_version(postgres_binaries)
    assert await raw.value("select current_setting('server_version_num')::int / 10000") == wanted


async def test_the_guard_holds_the_table_of_legal_moves(raw: Raw) -> None:
    text = await raw.value(
        "select pg_get_triggerdef(oid) from pg_trigger "
        "where tgrelid = 'holdfast.tasks'::regclass and tgname = $1",
        FORWARD,
    )
    [masks] = re.findall(r"'\{([0-9,]+)\}'::integer\[\]", text)
    assert [int(mask) for mask in masks.split(",")] == [
        0,
        *(successors_mask(TaskState(number)) for number in range(1, 11)),
    ]


@pytest.mark.parametrize("start", STATES)
async def test_exactly_the_legal_moves_pass(raw: Raw, start: TaskState) -> None:
    for end in TaskState:
        async with raw.rolled_back():
            job_id = await raw.bring_to(start)
            if end in LEGAL_MOVES[start]:
                await raw.move(job_id, end)
                assert await raw.value("select state from holdfast.tasks") == end
            else:
                async with raw.refused(FORWARD):
                    await raw.move(job_id, end)


@pytest.mark.parametrize("start", STATES)
async def test_a_move_that_also_finishes_the_task_needs_to_be_legal_too(
    raw: Raw, start: TaskState
) -> None:
    for end in CAN_WAIT_FOR_ITS_FATE:
        async with raw.rolled_back():
            job_id = await raw.bring_to(start)
            if end in LEGAL_MOVES[start]:
                await raw.move(job_id, end, finished=True)
            else:
                async with raw.refused(FORWARD):
                    await raw.move(job_id, end, finished=True)


@pytest.mark.parametrize("start", CAN_WAIT_FOR_ITS_FATE, ids=lambda state: state.name)
async def test_a_finished_task_never_moves_again(raw: Raw, start: TaskState) -> None:
    job_id = await raw.bring_to(start, finished=True)
    for end in TaskState:
        async with raw.refused(FORWARD):
            await raw.move(job_id, end)
        async with raw.refused(FORWARD, LIVE):
            await raw.move(job_id, end, finished_at="finished_at")


@pytest.mark.parametrize("number", [-1, 0, 11, 32 + 9, 64 + 6])
async def test_there_are_no_other_states(raw: Raw, number: int) -> None:
    job_id = await raw.insert_whole_job()
    async with raw.refused(FORWARD, "a_task_has_a_state_it_can_have"):
        await raw.move(job_id, TaskState.ASSIGNED, state=str(number))


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(
    "change", ["finished_at = holdfast.now()", "result = '1'", "cause = 'x'", "failure_count = 9"]
)
async def test_nothing_about_a_task_changes_without_a_move(
    raw: Raw, state: TaskState, change: str
) -> None:
    job_id = await raw.bring_to(state)
    async with raw.refused(FORWARD, LIVE):
        await raw.run(f"update holdfast.tasks set {change} where job_id = $1", job_id)


@pytest.mark.parametrize("seq", ["seq", "seq + 2", "seq - 1", "0"])
async def test_a_stream_has_no_gap_and_no_repeat(raw: Raw, seq: str) -> None:
    job_id = await raw.bring_to(TaskState.RUNNING)
    async with raw.refused(FORWARD):
        await raw.move(job_id, TaskState.SUCCEEDED, seq=seq)


@pytest.mark.parametrize(
    ("start", "end", "attempt"),
    [
        (TaskState.PENDING, TaskState.ASSIGNED, "attempt + 1"),
        (TaskState.RUNNING, TaskState.FAILED, "attempt + 1"),
        (TaskState.FAILED, TaskState.DEAD_LETTERED, "attempt + 1"),
        (TaskState.FAILED, TaskState.PENDING, "attempt"),
        (TaskState.FAILED, TaskState.PENDING, "attempt + 2"),
        (TaskState.WORKER_FAILED, TaskState.PENDING, "attempt - 1"),
    ],
)
async def test_the_attempt_number_grows_by_one_with_a_retry_and_never_else(
    raw: Raw, start: TaskState, end: TaskState, attempt: str
) -> None:
    job_id = await raw.bring_to(start)
    async with raw.refused(FORWARD, "counters_are_not_negative"):
        await raw.move(job_id, end, attempt=attempt)


async def claim_and_start(raw: Raw, job_id: int, /, **columns: str) -> None:
    wanted: dict[str, Any] = {"seq": "seq + 2", "claim_seq": "seq", **columns}
    await raw.move(job_id, TaskState.RUNNING, **wanted)


async def test_a_claim_that_starts_is_two_moves_and_two_events(raw: Raw) -> None:
    job_id = await raw.insert_whole_job()
    await claim_and_start(raw, job_id)
    await raw.move(job_id, TaskState.FAILED)
    await raw.move(job_id, TaskState.PENDING)
    await claim_and_start(raw, job_id)
    await raw.move(job_id, TaskState.SUCCEEDED)
    assert await raw.events(job_id, 0) == [
        (0, "claimed", 0),
        (1, "started", 0),
        (2, "failed", 0),
        (3, "retried", 1),
        (4, "claimed", 1),
        (5, "started", 1),
        (6, "succeeded", 1),
    ]


async def test_what_an_earlier_claim_wrote_down_makes_no_event_later(raw: Raw) -> None:
    job_id = await raw.insert_whole_job()
    await claim_and_start(raw, job_id)
    for step in (TaskState.FAILED, TaskState.PENDING, TaskState.ASSIGNED, TaskState.RUNNING):
        await raw.move(job_id, step)
    assert [seq for seq, _, _ in await raw.events(job_id, 0)] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "columns",
    [
        {"seq": "seq + 1"},
        {"seq": "seq + 3"},
        {"claim_seq": "null"},
        {"claim_seq": "seq + 1"},
        {"claim_seq": "claim_seq"},
        {"state": "9"},
        {"state": "4", "finished_at": "holdfast.now()"},
        {"attempt": "attempt + 1"},
        {"moved_at": "moved_at - interval '1 microsecond'"},
    ],
)
async def test_two_moves_at_once_are_those_of_a_claim_that_starts(
    raw: Raw, columns: dict[str, str]
) -> None:
    job_id = await raw.insert_whole_job()
    async with raw.refused(FORWARD):
        await claim_and_start(raw, job_id, **columns)


@pytest.mark.parametrize("start", STATES)
async def test_nothing_but_a_task_in_line_is_claimed_and_started(
    raw: Raw, start: TaskState
) -> None:
    job_id = await raw.bring_to(start)
    if start is TaskState.PENDING:
        await claim_and_start(raw, job_id)
    else:
        async with raw.refused(FORWARD):
            await claim_and_start(raw, job_id)


@pytest.mark.parametrize("start", STATES)
async def test_the_number_of_a_claim_changes_with_one_that_starts_alone(
    raw: Raw, start: TaskState
) -> None:
    for end in LEGAL_MOVES[start]:
        job_id = await raw.bring_to(start)
        async with raw.refused(FORWARD):
            await raw.move(job_id, end, claim_seq="seq")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("failure_count", "failure_count - 1"),
        ("preemption_count", "preemption_count - 1"),
        ("moved_at", "moved_at - interval '1 microsecond'"),
        ("job_id", "job_id + 1"),
        ("task_index", "task_index + 1"),
    ],
)
async def test_counters_time_and_identity_are_not_taken_back(
    raw: Raw, column: str, value: str
) -> None:
    job_id = await raw.insert_whole_job()
    await raw.move(job_id, TaskState.ASSIGNED, failure_count="3", preemption_count="3")
    async with raw.refused(FORWARD, "a_task_keeps_its_identity"):
        changes: dict[str, Any] = {column: value}
        await raw.move(job_id, TaskState.RUNNING, **changes)


@pytest.mark.parametrize(
    ("constraint", "column", "value"),
    [
        ("a_task_is_born_pending", "attempt", "1"),
        ("a_task_is_born_pending", "seq", "1"),
        ("a_task_is_born_pending", "failure_count", "1"),
        ("a_task_is_born_pending", "preemption_count", "1"),
        ("a_task_is_born_pending", "free_loss_count", "1"),
        ("a_task_is_born_pending", "claim_seq", "0"),
        ("a_live_task_is_not_finished", "finished_at", "holdfast.now()"),
        ("a_task_index_is_not_negative", "task_index", "-1"),
        *(("a_task_is_born_pending", "state", str(number)) for number in (0, *range(2, 12))),
    ],
)
async def test_a_task_is_born_pending_and_new(
    raw: Raw, constraint: str, column: str, value: str
) -> None:
    job_id = await raw.insert_job()
    async with raw.refused(constraint):
        await raw.insert_task(job_id, **{column: value})


@pytest.mark.parametrize(
    ("end", "finished"),
    [
        (TaskState.ASSIGNED, True),
        (TaskState.UNSCHEDULABLE, False),
        (TaskState.DEAD_LETTERED, False),
    ],
    ids=str,
)
async def test_finished_goes_with_the_state(raw: Raw, end: TaskState, finished: bool) -> None:
    job_id = await raw.insert_whole_job()
    async with raw.refused("a_live_task_is_not_finished", "a_final_state_is_finished"):
        await raw.move(job_id, end, finished=finished)


@pytest.mark.parametrize("state", CAN_WAIT_FOR_ITS_FATE, ids=lambda state: state.name)
async def test_at_commit_an_ended_task_is_finished_or_has_gone_on(
    lasting: Raw, state: TaskState
) -> None:
    async with lasting.refused("an_ended_task_is_finished_or_retried"):
        await lasting.bring_to(state, finished=False)
    assert await lasting.value("select count(*) from holdfast.tasks") == 0
    finished = await lasting.bring_to(state, finished=True)
    async with lasting.connection.transaction():
        dead = await lasting.bring_to(state)
        await lasting.move(dead, TaskState.DEAD_LETTERED)
    async with lasting.connection.transaction():
        retried = await lasting.bring_to(state)
        if TaskState.PENDING in LEGAL_MOVES[state]:
            await lasting.move(retried, TaskState.PENDING)
        else:
            await lasting.move(retried, TaskState.DEAD_LETTERED)
    rows = await lasting.rows("select job_id from holdfast.tasks")
    assert {row[0] for row in rows} == {finished, dead, retried}


async def test_an_upsert_cannot_pass_the_guard_by(raw: Raw) -> None:
    job_id = await raw.bring_to(TaskState.RUNNING)
    upsert = (
        "insert into holdfast.tasks"
        " (job_id, task_index, placed, eligible_at, submitted_at, moved_at)"
        f" values ({job_id}, 0, false, holdfast.now(), holdfast.now(), holdfast.now())"
        " on conflict (job_id, task_index) do update set state = {}, seq = tasks.seq + 1,"
        " moved_at = holdfast.now(), finished_at = holdfast.now()"
    )
    async with raw.refused(FORWARD):
        await raw.run(upsert.format(8))
    await raw.run(upsert.format(4))
    assert (await raw.events(job_id))[-1] == (2, "succeeded", 0)


@pytest.mark.parametrize("state", STATES)
async def test_every_move_writes_exactly_one_event(raw: Raw, state: TaskState) -> None:
    job_id = await raw.bring_to(state)
    expected = [(seq, EVENT_TYPES[step], 0) for seq, step in enumerate(PATHS[state])]
    assert await raw.events(job_id) == expected


async def test_a_retried_task_tells_its_whole_story(raw: Raw) -> None:
    job_id = await raw.insert_whole_job()
    async with raw.connection.transaction():
        for step in (9, 3, 5, 1, 9, 7, 1, 9, 2, 3, 4):
            await raw.move(job_id, TaskState(step))
    assert await raw.events(job_id) == [
        (0, "claimed", 0), (1, "started", 0), (2, "failed", 0), (3, "retried", 1),
        (4, "claimed", 1), (5, "worker_failed", 1), (6, "retried", 2),
        (7, "claimed", 2), (8, "building", 2), (9, "started", 2), (10, "succeeded", 2),
    ]  # fmt: skip


async def test_a_placed_task_is_placed_not_claimed(raw: Raw) -> None:
    job_id = await raw.insert_job()
    await raw.insert_task(job_id, placed="true")
    await raw.move(job_id, TaskState.ASSIGNED)
    assert await raw.events(job_id) == [(0, "placed", 0)]


async def test_one_statement_over_many_tasks_writes_one_event_for_each(raw: Raw) -> None:
    job_id = await raw.insert_whole_job(num_tasks=50)
    await raw.move(job_id, TaskState.ASSIGNED, actor="'w1'", cause="'because'")
    rows = await raw.rows(
        "select events.actor, events.cause, ts = moved_at, txid = txid_current() "
        "from holdfast.events join holdfast.tasks using (job_id, task_index)"
    )
    assert [tuple(row) for row in rows] == [("w1", "because", True, True)] * 50
