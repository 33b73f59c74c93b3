"""The table of jobs through its functions."""

from datetime import timedelta

from holdfast.model.work.states import JobState, TaskState
from holdfast.rules.job_state import JobCounts
from holdfast.store.database import Transaction
from holdfast.store.tables.submitting.new_jobs import insert_jobs
from holdfast.store.tables.work.jobs import (
    CountedMoves,
    HeldJob,
    JobFlags,
    JobMoves,
    KeyedJob,
    LockedJob,
    Repeat,
    count_moves,
    delete_job,
    find_repeated,
    flag_cancel,
    hold_jobs,
    list_finished,
    list_hidden_jobs,
    list_live_children,
    load_specs,
    lock_hidden_job,
    lock_job,
    read_job_flags,
    read_job_to_rerun,
    read_time_to_start,
    read_verbosity,
    record_job_events,
    show_job,
)
from holdfast.store.tables.work.tasks import lock_tasks_of_jobs
from tests.store.tables.submitting.test_new_jobs import a_job
from tests.world import World


async def test_a_repeat_is_compared_with_what_was_asked(world: World, tx: Transaction) -> None:
    spec, asked = '{"lease": 45.0, "b": 1}', '{"b": 1}'
    plain = a_job(901, idempotency_key="k", spec=spec)
    filled = a_job(902, idempotency_key="l", spec=spec, asked=asked, shown=False)
    await insert_jobs(tx, [plain, filled], now=await tx.now())
    repeats = [
        Repeat(("o", "l"), asked, fan_out=False, num_tasks=1),
        Repeat(("o", "none"), spec, fan_out=False, num_tasks=1),
        Repeat(("o", "k"), '{"b":1,"lease":45}', fan_out=False, num_tasks=1),
        Repeat(("o", "k"), asked, fan_out=False, num_tasks=1),
        Repeat(("o", "k"), spec, fan_out=True, num_tasks=1),
        Repeat(("o", "k"), spec, fan_out=False, num_tasks=2),
    ]
    assert await find_repeated(tx, repeats) == [
        KeyedJob(902, shown=False, is_same=True),
        None,
        KeyedJob(901, shown=True, is_same=True),
        *[KeyedJob(901, shown=True, is_same=False)] * 3,
    ]


async def test_a_job_is_hidden_until_it_is_shown(world: World, tx: Transaction) -> None:
    now = await tx.now()
    await insert_jobs(tx, [a_job(901, shown=False), a_job(902, shown=False)], now=now)
    hidden = await list_hidden_jobs(tx, older_than=timedelta(), batch_max=9)
    assert sorted(hidden) == [901, 902], "of one moment, so in any order"
    assert await lock_hidden_job(tx, 901)
    await show_job(tx, 901, unmet=0, actor=None, now=now)
    assert not await lock_hidden_job(tx, 901)
    await delete_job(tx, 902)
    assert (await hold_jobs(tx, [902, 901])).keys() == {901}


async def test_counts_change_and_states_follow(world: World, tx: Transaction) -> None:
    job_id = await world.submit([1, 2])
    counts = JobCounts(pending=-2, running=1, failed=1)
    begun = await count_moves(tx, [JobMoves(job_id, counts, "boom", 3)])
    assert begun == CountedMoves(1, None, None, has_follow_ups=False)
    rerun = await read_job_to_rerun(tx, job_id)
    assert rerun is not None
    assert (rerun.state, rerun.fan_out, rerun.num_tasks, rerun.live) == (3, True, 2, 1)
    counts = JobCounts(running=-1, succeeded=1)
    ended = await count_moves(tx, [JobMoves(job_id, counts, "late", 4)])
    assert ended == CountedMoves(1, [job_id], [JobState.FAILED], has_follow_ups=True)
    assert await list_finished(tx, [job_id]) == [job_id]


async def test_a_job_is_locked_held_flagged_and_noted(world: World, tx: Transaction) -> None:
    job_id = await world.submit()
    child = await world.submit_child(job_id)
    locked = LockedJob(job_id, JobState.PENDING, None, None, 1, "q", finished=False)
    assert await lock_job(tx, job_id) == locked
    assert await lock_job(tx, job_id + 1000) is None
    held = HeldJob(job_id, JobState.PENDING, ended=False, is_over=False)
    assert await hold_jobs(tx, [job_id]) == {job_id: held}
    assert await list_live_children(tx, job_id, mode="soft", batch_max=9) == [child]
    await record_job_events(tx, "replayed", {job_id: "{}"}, actor="me")
    await flag_cancel(tx, [(job_id, "enough")], mode="soft", actor="me")
    flags = JobFlags(job_id, "soft", finished=False, cancel_reason="enough", state=1)
    assert await read_job_flags(tx, [job_id]) == {job_id: flags}


async def test_specs_are_read_as_they_are_stored(world: World, tx: Transaction) -> None:
    job_id = await world.submit(name="mine", verbose_events=True)
    [row] = await load_specs(tx, [job_id])
    assert (row.job_id, row.name, row.num_tasks) == (job_id, "mine", 1)
    assert '"verbose_events": true' in row.spec
    assert await read_verbosity(tx, [job_id]) == {job_id: True}
    [task] = await lock_tasks_of_jobs(tx, [job_id])
    assert task.state == TaskState.PENDING


async def test_the_time_to_start_counts_from_the_submission(world: World, tx: Transaction) -> None:
    job_id = await world.submit()
    early = await read_time_to_start(tx, job_id, timedelta(hours=1))
    assert timedelta(minutes=59) < early <= timedelta(hours=1)
    assert await read_time_to_start(tx, job_id, timedelta()) <= timedelta()
