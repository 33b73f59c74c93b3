"""The database itself refuses jobs that go backward, and counts that cannot be."""

from typing import Any

import pytest

from holdfast.model.work.states import ENDED_STATES, JobState
from holdfast.rules.lifecycle import EVENT_TYPES, LEGAL_JOB_MOVES
from tests.store.raw import Raw

FORWARD = "a_job_only_moves_forward"
FINAL = "a_job_is_finished_if_and_only_if_its_state_is_final"
EVENT_OF_ITS_OWN = "'cancel_requested'"
# What a job, unlike a task, is never in.
NOT_FOR_JOBS = frozenset({JobState.ASSIGNED, JobState.BUILDING})
STATES = [pytest.param(state, id=state.name) for state in JobState if state not in NOT_FOR_JOBS]


async def move_job(raw: Raw, job_id: int, /, **columns: str) -> None:
    """Change a job; without other words, its stream gets the next event."""
    wanted = {"seq": "seq + 1", "event_at": "holdfast.now()"} | columns
    changes = ", ".join(f"{column} = {value}" for column, value in wanted.items())
    await raw.run(f"update holdfast.jobs set {changes} where job_id = $1", job_id)


async def move_to(raw: Raw, job_id: int, state: JobState, /, **columns: Any) -> None:
    """Change a job's state the way it should be done."""
    event_type = EVENT_TYPES[state] if state not in (JobState.PENDING, *NOT_FOR_JOBS) else "started"
    wanted = {
        "state": str(int(state)),
        "event_type": f"'{event_type}'",
        "finished_at": "holdfast.now()" if state in ENDED_STATES else "null",
    } | columns
    await move_job(raw, job_id, **wanted)


async def job_in(raw: Raw, state: JobState) -> int:
    job_id = await raw.insert_job()
    if state is not JobState.PENDING:
        await move_to(raw, job_id, JobState.RUNNING)
    if state not in (JobState.PENDING, JobState.RUNNING):
        await move_to(raw, job_id, state)
    return job_id


@pytest.mark.parametrize("start", STATES)
async def test_exactly_the_legal_moves_of_a_job_pass(raw: Raw, start: JobState) -> None:
    for end in JobState:
        async with raw.rolled_back():
            job_id = await job_in(raw, start)
            if end in LEGAL_JOB_MOVES.get(start, frozenset()):
                await move_to(raw, job_id, end)
            else:
                async with raw.refused(FORWARD, "a_job_has_a_state_it_can_have"):
                    await move_to(raw, job_id, end)


@pytest.mark.parametrize("start", [JobState.SUCCEEDED, JobState.KILLED, JobState.DEAD_LETTERED])
async def test_a_terminal_job_keeps_state_and_time_while_its_counts_follow(
    raw: Raw, start: JobState
) -> None:
    job_id = await job_in(raw, start)
    await raw.run("update holdfast.jobs set pending = 0, succeeded = 1 where job_id = $1", job_id)
    for end in ENDED_STATES - {start}:
        async with raw.refused(FORWARD):
            await move_to(raw, job_id, end, finished_at="finished_at")
    for finished_at in ("null", "holdfast.now()"):
        async with raw.refused(FORWARD, FINAL):
            await raw.run(f"update holdfast.jobs set finished_at = {finished_at}")


@pytest.mark.parametrize("end", sorted(ENDED_STATES), ids=lambda state: state.name)
async def test_a_job_is_finished_if_and_only_if_its_state_is_final(raw: Raw, end: JobState) -> None:
    job_id = await job_in(raw, JobState.RUNNING)
    async with raw.refused(FINAL):
        await move_to(raw, job_id, end, finished_at="null")
    async with raw.refused(FINAL):
        await raw.run("update holdfast.jobs set finished_at = holdfast.now()")


@pytest.mark.parametrize("end", sorted(ENDED_STATES), ids=lambda state: state.name)
async def test_the_event_of_a_jobs_end_is_of_its_own_type_and_comes_once(
    raw: Raw, end: JobState
) -> None:
    job_id = await job_in(raw, JobState.RUNNING)
    for other in sorted(ENDED_STATES - {end}):
        async with raw.refused(FORWARD):
            await move_to(raw, job_id, end, event_type=f"'{EVENT_TYPES[other]}'")
    await move_to(raw, job_id, end)
    async with raw.refused(FORWARD):
        await move_job(raw, job_id)
    assert await raw.events(job_id, -1) == [
        (0, "submitted", -1),
        (1, "started", -1),
        (2, EVENT_TYPES[end], -1),
    ]


@pytest.mark.parametrize("event_type", ["submitted", "started", "succeeded", "claimed", "retried"])
async def test_an_event_that_tells_of_a_move_is_not_written_without_it(
    raw: Raw, event_type: str
) -> None:
    job_id = await raw.insert_job()
    async with raw.refused(FORWARD):
        await move_job(raw, job_id, event_type=f"'{event_type}'")


@pytest.mark.parametrize("event_type", ["cancel_requested", "replayed", "compensated"])
async def test_what_happens_to_a_job_beside_its_state_is_an_event_too(
    raw: Raw, event_type: str
) -> None:
    job_id = await job_in(raw, JobState.FAILED)
    await move_job(raw, job_id, event_type=f"'{event_type}'")
    assert (await raw.events(job_id, -1))[-1] == (3, event_type, -1)


@pytest.mark.parametrize("seq", ["seq", "seq + 2", "seq - 1", "0"])
async def test_a_jobs_stream_has_no_gap_and_no_repeat(raw: Raw, seq: str) -> None:
    job_id = await job_in(raw, JobState.RUNNING)
    async with raw.refused(FORWARD):
        await move_to(raw, job_id, JobState.SUCCEEDED, seq=seq)


async def test_a_change_of_counts_alone_writes_no_event(raw: Raw) -> None:
    job_id = await raw.insert_job(num_tasks=2)
    await raw.run("update holdfast.jobs set pending = 1, assigned = 1 where job_id = $1", job_id)
    assert await raw.events(job_id, -1) == [(0, "submitted", -1)]


async def test_the_time_of_a_jobs_events_does_not_run_backward(raw: Raw) -> None:
    job_id = await raw.insert_job()
    async with raw.refused(FORWARD):
        await move_to(raw, job_id, JobState.RUNNING, event_at="event_at - interval '1 microsecond'")


@pytest.mark.parametrize(
    "change",
    [
        "job_id = job_id + 1",
        "num_tasks = 2, pending = 2",
        "spec = '{\"a\": 1}'",
        "submitted_at = null",
        "submitted_at = submitted_at + interval '1 s'",
    ],
)
async def test_what_was_submitted_stays_as_it_is(raw: Raw, change: str) -> None:
    await raw.insert_job()
    async with raw.refused(FORWARD):
        await raw.run(f"update holdfast.jobs set {change}")


@pytest.mark.parametrize(
    ("before", "after", "passes"),
    [
        ("soft", "hard", True),
        ("soft", "soft", True),
        ("hard", "hard", True),
        ("hard", "soft", False),
        ("hard", None, False),
        ("soft", None, False),
    ],
)
async def test_a_cancel_is_never_taken_back(
    raw: Raw, before: str, after: str | None, passes: bool
) -> None:
    job_id = await raw.insert_job()
    await move_job(raw, job_id, cancel_mode=f"'{before}'", event_type=EVENT_OF_ITS_OWN)
    wanted = "null" if after is None else f"'{after}'"
    if passes:
        await move_job(raw, job_id, cancel_mode=wanted, event_type=EVENT_OF_ITS_OWN)
    else:
        async with raw.refused(FORWARD):
            await move_job(raw, job_id, cancel_mode=wanted, event_type=EVENT_OF_ITS_OWN)


COUNTS = (
    "pending", "assigned", "building", "running", "succeeded", "failed", "killed", "worker_failed",
    "unschedulable", "dead_lettered",
)  # fmt: skip


@pytest.mark.parametrize("column", COUNTS)
async def test_counts_are_not_negative_and_add_up(raw: Raw, column: str) -> None:
    other = "running" if column == "pending" else "pending"
    await raw.insert_job(num_tasks=3)
    async with raw.refused("counts_are_not_negative"):
        await raw.run(f"update holdfast.jobs set {column} = -1, {other} = 4")
    async with raw.refused("counts_add_up_to_the_number_of_tasks"):
        await raw.run(f"update holdfast.jobs set {column} = {column} + 1")
    await raw.run(f"update holdfast.jobs set {other} = 0, {column} = 3")


@pytest.mark.parametrize("timed_out", [-1, 2])
async def test_of_the_killed_some_timed_out_but_never_more_than_all(
    raw: Raw, timed_out: int
) -> None:
    await raw.insert_job()
    await raw.run("update holdfast.jobs set pending = 0, killed = 1, timed_out = 1")
    async with raw.refused("counts_are_not_negative"):
        await raw.run(f"update holdfast.jobs set timed_out = {timed_out}")


@pytest.mark.parametrize(
    ("constraint", "columns"),
    [
        ("a_job_is_born_pending", {"state": "3"}),
        ("a_job_is_born_pending", {"state": "4", "finished_at": "holdfast.now()"}),
        ("a_job_is_born_pending", {"pending": "0", "running": "1"}),
        ("a_job_is_born_pending", {"cancel_mode": "'soft'"}),
        ("a_job_is_born_pending", {"seq": "0"}),
        ("a_job_is_born_pending", {"seq": "2"}),
        ("a_job_has_at_least_one_task", {"num_tasks": "0", "pending": "0"}),
        (
            "a_job_is_finished_if_and_only_if_its_state_is_final",
            {"finished_at": "holdfast.now()"},
        ),
    ],
    ids=str,
)
async def test_a_job_is_born_pending_and_whole(
    raw: Raw, constraint: str, columns: dict[str, Any]
) -> None:
    async with raw.refused(constraint):
        await raw.insert_job(**columns)


async def test_a_cancel_is_soft_or_hard(raw: Raw) -> None:
    job_id = await raw.insert_job()
    async with raw.refused("a_cancel_is_soft_or_hard"):
        await move_job(raw, job_id, cancel_mode="'gentle'", event_type=EVENT_OF_ITS_OWN)


async def test_a_hidden_job_has_no_event_and_cannot_move_until_it_is_shown(raw: Raw) -> None:
    job_id = await raw.insert_job(shown=False)
    assert await raw.events(job_id, -1) == []
    for state in (JobState.RUNNING, JobState.KILLED):
        async with raw.refused(FORWARD):
            await move_to(raw, job_id, state)
    async with raw.refused(FORWARD):
        await move_job(raw, job_id, submitted_at="holdfast.now()", event_type="'started'")
    await move_job(raw, job_id, submitted_at="holdfast.now()", event_type="'submitted'")
    await move_to(raw, job_id, JobState.RUNNING)
    assert await raw.events(job_id, -1) == [(0, "submitted", -1), (1, "started", -1)]


async def test_one_job_per_owner_and_idempotency_key(raw: Raw) -> None:
    await raw.insert_job(idempotency_key="'k'")
    await raw.insert_job(idempotency_key="'k'", owner="'somebody else'")
    await raw.insert_job()
    await raw.insert_job()
    async with raw.refused("one_job_per_owner_and_idempotency_key"):
        await raw.insert_job(idempotency_key="'k'")


async def test_a_trace_parent_is_short(raw: Raw) -> None:
    await raw.insert_job(trace_parent="repeat('x', 1024)")
    async with raw.refused("a_trace_parent_is_short"):
        await raw.insert_job(trace_parent="repeat('x', 1025)")
