"""The audit names every kind of damage, planted past the schema's guards."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.embedded import EmbeddedPostgres
from holdfast.ledger.ledger import Ledger
from holdfast.model.work.ids import TaskId
from holdfast.operations.submitting.replay import replay
from holdfast.store.database import Database
from tests.clock import Clock
from tests.operations.damage import Damage, a_scene, find_planted, reported
from tests.operations.test_policies import DAMAGES as POLICIES
from tests.operations.upkeep.test_audit_cluster import DAMAGES as PLACED
from tests.operations.upkeep.test_audit_datasets import DAMAGES as OUTPUTS
from tests.operations.upkeep.test_audit_limits import DAMAGES as LIMITED
from tests.operations.upkeep.test_audit_order import DAMAGES as ORDERED
from tests.operations.upkeep.test_audit_schedules import DAMAGES as SCHEDULED
from tests.operations.upkeep.test_audit_undo import DAMAGES as UNDONE
from tests.operations.upkeep.test_audit_unique import DAMAGES as UNIQUE
from tests.world import World

DOCS = Path(__file__).parents[3] / "docs" / "audit.md"


async def play_scene(world: World) -> None:
    """Leave one ledger in which every kind of row stands.

    Job 1 succeeded. Of job 2, task 0 waits for its retry, 1 runs, 2 is ready, and 3 was killed and
    is not released yet. Job 3 ended as a dead letter and was replayed as job 4, which is ready.
    Job 5 runs, and has been asked to stop. One input of job 6 succeeded; the other was replayed as
    job 7, which continues job 6.
    """
    await world.submit()
    await world.succeed((await world.claim())[0])
    await world.submit(
        [0, 1, 2, 3], max_retries_failure=1, max_retries_preemption=1, timeout=1000.0,
        scheduling_timeout=1000.0, backoff={"base": 60.0},
    )  # fmt: skip
    failing, running, killed = [await world.claim_by_id(TaskId(2, index)) for index in (0, 1, 3)]
    for claimed in (failing, running, killed):
        await world.start(claimed)
    await world.fail(failing)
    await world.cancel_task(killed.task_id)
    await world.submit()
    await world.fail(await world.claim_by_id(TaskId(3, 0)))
    await replay(world.ledger, [TaskId(3, 0)], actor="operator")
    await world.submit()
    await world.start(await world.claim_by_id(TaskId(5, 0)))
    await world.run_chores()
    await world.cancel_job(5, "soft")
    await world.submit([0, 1])
    await world.succeed(await world.claim_by_id(TaskId(6, 0)))
    await world.fail(await world.claim_by_id(TaskId(6, 1)))
    await replay(world.ledger, [TaskId(6, 1)], actor="operator")


def event(job_id: int, task_index: int, seq: int) -> str:
    """Pick one event."""
    return f"where job_id = {job_id} and task_index = {task_index} and seq = {seq}"


def task(job_id: int, task_index: int) -> str:
    """Pick the rows of one task."""
    return f"where job_id = {job_id} and task_index = {task_index}"


def new_event(job_id: int, task_index: int, seq: int, kind: str) -> str:
    """Write an event that no move has written."""
    return (
        "insert into events (job_id, task_index, seq, attempt, type, ts, actor, txid) values "
        f"({job_id}, {task_index}, {seq}, 0, '{kind}', now(), 'x', 1)"
    )


A_COPY_OF_ATTEMPT_3 = (
    "insert into attempts select job_id, {index}, attempt, worker_id, state, created_at, "
    "started_at, finished_at, finished_at, exit_code, error, error_class, stage, lease_token, "
    "last_lease_expires_at, reported from attempts " + task(2, 3)
)
A_COPY_OF_LEASE_1 = (
    "insert into leases select job_id, 2, attempt, worker_id, lease_token, created_at, expires_at, "
    "duration, run_timeout, run_deadline_at, null, null, null, {ending} from leases " + task(2, 1)
)
LATE = "interval '1 hour'"
# Task 2.0, whose attempt 0 has ended, waits for a signal.
PARKED = (
    f"update waiting set eligible_at = now() + 9 * {LATE} {task(2, 0)}; insert into signal_waits "
    "values (2, 0, 'a', 1, 0, now(), now() + 8 * interval '1 hour', now(), null, null); "
)

STREAMS = [
    Damage("gap_in_stream", "2.3", f"delete from events {event(2, 3, 1)}",
           (("attempt_differs_from_its_events", "2.3.0"),)),
    Damage("gap_in_stream", "3", f"update events set seq = 4 {event(3, -1, 3)}"),
    Damage("event_in_the_wrong_stream", "2.3",
           f"update events set type = 'submitted' {event(2, 3, 1)}",
           (("attempt_differs_from_its_events", "2.3.0"),)),
    Damage("event_in_the_wrong_stream", "3",
           f"update events set type = 'building' {event(3, -1, 3)}"),
    Damage("illegal_move", "1.0", f"update events set type = 'building' {event(1, 0, 1)}",
           (("attempt_differs_from_its_events", "1.0.0"),)),
    Damage("backward_transition", "2.3", f"update events set type = 'claimed' {event(2, 3, 1)}",
           (("illegal_move", "2.3"), ("attempt_told_twice", "2.3.0"),
            ("attempt_differs_from_its_events", "2.3.0"))),
    Damage("attempt_out_of_step", "2.1", f"update events set attempt = 1 {event(2, 1, 1)}",
           (("task_differs_from_its_last_event", "2.1"),)),
    Damage("move_after_the_end", "2.0", f"update events set txid = txid + 1 {event(2, 0, 3)}"),
    Damage("time_runs_backward", "2.1", f"update events set ts = ts + {LATE} {event(2, 1, 0)}"),
    Damage("time_runs_backward", "3", f"update events set ts = ts - {LATE} {event(3, -1, 3)}",
           (("job_times_differ_from_its_events", "3"),)),
    Damage("events_out_of_order", "2.1", f"update events set id = id + 1000 {event(2, 1, 0)}"),
    Damage("events_out_of_order", "1", f"update events set id = id + 1000 {event(1, -1, 0)}"),
    Damage("event_without_actor", "2.0", f"update events set actor = null {event(2, 0, 1)}"),
    Damage("event_without_actor", "3", f"update events set actor = '' {event(3, -1, 1)}"),
    Damage("event_without_task", "1.9", new_event(1, 9, 0, "killed")),
    Damage("event_without_move", "2.2", new_event(2, 2, 0, "killed")),
    Damage("event_without_move", "1", "update jobs set seq = 2 where job_id = 1"),
    Damage("event_without_job", "99", new_event(99, -1, 0, "submitted")),
    Damage("move_without_event", "2.1", f"delete from events {event(2, 1, 1)}"),
    Damage("move_without_event", "1", "update jobs set seq = 4 where job_id = 1"),
    Damage("task_differs_from_its_last_event", "2.1", f"update tasks set actor = 'x' {task(2, 1)}"),
    Damage("task_differs_from_its_last_event", "2.1", f"update tasks set state = 2 {task(2, 1)}",
           (("counts_differ", "2"),)),
    Damage("finished_at_does_not_fit_the_state", "1.0",
           f"update tasks set finished_at = finished_at + {LATE} {task(1, 0)}"),
    Damage("finished_at_does_not_fit_the_state", "2.3",
           f"update tasks set finished_at = null {task(2, 3)}"),
    Damage("submitted_not_first_and_once", "3",
           f"update events set type = 'submitted' {event(3, -1, 3)}",
           (("job_state_differs_from_its_events", "3"),)),
    Damage("illegal_job_move", "3", f"update events set type = 'started' {event(3, -1, 3)}",
           (("job_state_differs_from_its_events", "3"),)),
    Damage("cancel_after_the_end", "3",
           f"update events set type = 'cancel_requested' {event(3, -1, 3)}"),
]  # fmt: skip

ATTEMPTS = [
    Damage("claim_without_attempt", "2.1.0", f"delete from leases {task(2, 1)}",
           (("open_task_without_lease", "2.1.0"),)),
    Damage("ending_event_without_attempt", "1.0.0", f"delete from attempts {task(1, 0)}"),
    Damage("attempt_without_claim", "2.2.0", A_COPY_OF_ATTEMPT_3.format(index=2),
           (("attempt_without_ending_event", "2.2.0"),)),
    Damage("attempt_without_ending_event", "2.1.0", A_COPY_OF_ATTEMPT_3.format(index=1),
           (("live_lease_of_an_ended_attempt", "2.1.0"),)),
    Damage("attempt_told_twice", "2.3.0", f"update events set type = 'killed' {event(2, 3, 1)}",
           (("illegal_move", "2.3"), ("backward_transition", "2.3"), ("move_after_the_end", "2.3"),
            ("attempt_differs_from_its_events", "2.3.0"))),
    Damage("attempt_differs_from_its_events", "1.0.0",
           f"update attempts set created_at = created_at - {LATE} {task(1, 0)}"),
    Damage("attempt_differs_from_its_events", "1.0.0",
           f"update attempts set state = 7 {task(1, 0)}"),
    Damage("live_lease_of_an_ended_attempt", "2.3.0",
           f"update leases set ending = false {task(2, 3)}",
           (("lease_without_open_task", "2.3.0"), ("unreleased_attempt_without_lease", "2.3.0"))),
    Damage("lease_without_open_task", "2.2.0", A_COPY_OF_LEASE_1.format(ending=False),
           (("ready_row_beside_a_lease", "2.2"),)),
    Damage("open_task_without_lease", "2.1.0", f"update leases set attempt = 1 {task(2, 1)}",
           (("lease_without_open_task", "2.1.1"), ("claim_without_attempt", "2.1.0"))),
    Damage("ending_lease_without_attempt", "2.3.0",
           f"update attempts set released_at = finished_at {task(2, 3)}"),
    Damage("unreleased_attempt_without_lease", "2.3.0", f"delete from leases {task(2, 3)}"),
    Damage("unreleased_attempt_without_lease", "1.0.0",
           f"update attempts set released_at = null {task(1, 0)}"),
    Damage("lease_without_deadline", "2.1.0",
           f"update leases set run_deadline_at = null {task(2, 1)}"),
    Damage("failure_count_differs", "2.0", f"update tasks set failure_count = 0 {task(2, 0)}"),
    Damage("preemption_count_too_high", "2.1",
           f"update tasks set preemption_count = 1 {task(2, 1)}"),
    Damage("free_loss_count_too_high", "1.0",
           f"update tasks set free_loss_count = 1 {task(1, 0)}"),
    Damage("budget_overrun", "3.0", f"update tasks set failure_count = 2 {task(3, 0)}",
           (("failure_count_differs", "3.0"),)),
    Damage("retried_beyond_budget", "2.0",
           """update jobs set spec = spec || '{"max_retries_failure": 0}' where job_id = 2"""),
    Damage("retried_after_a_permanent_error", "2.0",
           f"update attempts set error_class = 'PermanentError' {task(2, 0)}"),
    Damage("note_without_attempt", "2.2.0",
           "insert into notes (job_id, task_index, attempt, kind, ts, expires_at) "
           "values (2, 2, 0, 'user:loaded', now(), now())"),
    Damage("dead_letter_missing", "3.0", "delete from dead_letters where job_id = 3"),
    Damage("dead_letter_of_a_task_that_is_not_dead", "1.0",
           "update dead_letters set job_id = 1 where job_id = 3",
           (("dead_letter_missing", "3.0"),)),
    Damage("dead_letter_differs", "3.0", "update dead_letters set attempts = 9 where job_id = 3"),
    Damage("dead_letter_differs", "3.0", "update jobs set replay_of = 1 where job_id = 4"),
]  # fmt: skip

LINES = [
    Damage("ready_row_without_task", "1.9", "insert into ready values ('q', 0, now(), 1, 9, null)"),
    Damage("hidden_job_in_line", "4.0", "update jobs set submitted_at = null where job_id = 4",
           (("hidden_job_has_moved", "4"), ("job_times_differ_from_its_events", "4"),
            ("job_listed_under_another_state", "4"))),
    Damage("ready_row_differs", "2.2", f"update ready set urgency = 3 {task(2, 2)}"),
    Damage("ready_row_differs", "2.2", f"update ready set queue = 'other' {task(2, 2)}"),
    Damage("ready_row_differs", "2.2", f"update ready set eligible_at = now() {task(2, 2)}"),
    Damage("ready_row_differs", "2.2", f"update ready set unschedulable_at = null {task(2, 2)}"),
    Damage("ready_row_beside_a_lease", "2.2", A_COPY_OF_LEASE_1.format(ending=True),
           (("ending_lease_without_attempt", "2.2.0"),)),
    Damage("waiting_row_without_task", "1.9", "insert into waiting values (1, 9, now())"),
    Damage("waiting_row_of_a_task_that_is_not_pending", "2.1",
           "insert into waiting values (2, 1, now())"),
    Damage("waiting_row_differs", "2.0",
           f"update waiting set eligible_at = eligible_at + {LATE} {task(2, 0)}"),
    Damage("signal_without_task", "1.9",
           "insert into signals values (1, 9, 'a', 1, '1', now(), 'x')"),
    Damage("gap_in_signals", "2.0", "insert into signals values (2, 0, 'a', 2, '1', now(), 'x')"),
    Damage("signal_passed_over", "2.0", "insert into signals select 2, 0, 'a', n, '1', now(), 'x' "
           "from generate_series(1, 2) as n; insert into signal_waits values "
           "(2, 0, 'a', 1, 0, now(), null, null, now(), 2)"),
    Damage("wait_without_its_signal", "2.0", "insert into signal_waits values "
           "(2, 0, 'a', 1, 0, now(), null, null, now(), 1)"),
    Damage("signal_not_heard", "2.0.0", PARKED + "insert into signals values "
           "(2, 0, 'a', 1, '1', now(), 'x')"),
    Damage("wait_beyond_its_time", "2.0.0", PARKED),
    Damage("pending_task_not_in_line", "2.2", f"delete from ready {task(2, 2)}"),
    Damage("pending_task_not_in_line", "2.0", f"delete from waiting {task(2, 0)}"),
    Damage("pending_task_in_line_twice", "2.2",
           f"insert into waiting select job_id, task_index, eligible_at from tasks {task(2, 2)}"),
    Damage("pending_task_in_line_twice", "4.0",
           "insert into outbox (kind, job_id, created_at) values ('feed', 4, now())"),
    Damage("live_task_left_behind", "5.0",
           "update leases set cancel_requested_at = null, cancel_deadline_at = null "
           "where job_id = 5"),
    Damage("live_task_left_behind", "4.0", "update jobs set cancel_mode = 'hard' where job_id = 4",
           (("cancel_flag_differs_from_its_events", "4"),)),
    Damage("live_child_of_an_ended_job", "2", "update jobs set parent_job_id = 3 where job_id = 2"),
    Damage("live_child_of_an_ended_job", "5", "update jobs set parent_job_id = 3 where job_id = 5"),
    Damage("outbox_row_without_job", "99",
           "insert into outbox (kind, job_id, created_at) values ('sweep', 99, now())"),
]  # fmt: skip

JOBS = [
    Damage("hidden_job_has_moved", "1", "update jobs set submitted_at = null where job_id = 1",
           (("job_times_differ_from_its_events", "1"), ("counts_differ", "1"))),
    Damage("job_state_differs_from_its_events", "1", "update jobs set state = 5 where job_id = 1",
           (("job_state_differs_from_its_counts", "1"), ("job_missing_from_its_state", "1"))),
    Damage("job_missing_from_its_state", "2", "delete from job_states where job_id = 2"),
    Damage("job_listed_under_another_state", "1", "insert into job_states values (5, 1)"),
    Damage("job_listed_under_another_state", "99", "insert into job_states values (1, 99)"),
    Damage("job_times_differ_from_its_events", "1",
           f"update jobs set started_at = started_at - {LATE} where job_id = 1"),
    Damage("cancel_flag_differs_from_its_events", "5",
           """update events set payload = '{"mode": "hard"}' """ + event(5, -1, 2)),
    Damage("finished_at_does_not_fit_the_state", "1",
           "alter table jobs drop constraint a_job_is_finished_if_and_only_if_its_state_is_final; "
           "update jobs set finished_at = null where job_id = 1",
           (("job_times_differ_from_its_events", "1"),)),
    Damage("task_without_job", "99",
           "insert into tasks (job_id, task_index, placed, eligible_at, submitted_at, moved_at) "
           "values (99, 0, false, now(), now(), now())"),
    Damage("number_of_tasks_differs", "1", "delete from tasks where job_id = 1",
           (("event_without_task", "1.0"),)),
    Damage("number_of_tasks_differs", "4",
           "alter table jobs drop constraint counts_add_up_to_the_number_of_tasks; "
           "update jobs set num_tasks = 2 where job_id = 4"),
    Damage("counts_differ", "2", "update jobs set assigned = 1, running = 0 where job_id = 2"),
    Damage("timed_out_count_too_high", "2", "update jobs set timed_out = 1 where job_id = 2"),
    Damage("task_placed_against_its_job", "2", f"update tasks set placed = true {task(2, 2)}"),
    Damage("job_state_differs_from_its_counts", "1",
           "update jobs set succeeded = 0, killed = 1 where job_id = 1", (("counts_differ", "1"),)),
]  # fmt: skip

CONTINUED = "update continuations set continues = "
CONTINUATIONS = [
    Damage("continuation_without_its_job", "99", "insert into continuations values (99, 6)"),
    Damage("continuation_of_no_job", "7",
           "alter table continuations drop constraint a_job_continues_an_earlier_one; "
           f"{CONTINUED} 99"),
    # Not what it replays; not ended; not stopped; a whole; of too few; of replicas.
    Damage("continuation_differs", "7", "update jobs set replay_of = 3 where job_id = 7",
           (("dead_letter_differs", "6.1"),)),
    Damage("continuation_differs", "7",
           "alter table jobs drop constraint a_job_is_finished_if_and_only_if_its_state_is_final; "
           "update jobs set finished_at = null where job_id = 6",
           (("job_times_differ_from_its_events", "6"),
            ("finished_at_does_not_fit_the_state", "6"))),
    Damage("continuation_differs", "7",
           "update jobs set dead_lettered = 0, running = 1 where job_id = 6",
           (("counts_differ", "6"), ("job_state_differs_from_its_counts", "6"))),
    Damage("continuation_differs", "4", "update jobs set fan_out = true where job_id = 3; "
           "insert into continuations values (4, 3)"),
    Damage("continuation_differs", "7",
           "alter table jobs drop constraint counts_add_up_to_the_number_of_tasks; "
           "update jobs set num_tasks = 2 where job_id = 7", (("number_of_tasks_differs", "7"),)),
    Damage("continuation_differs", "7", "update jobs set fan_out = false where job_id = 6"),
]  # fmt: skip

DAMAGES = STREAMS + ATTEMPTS + LINES + JOBS + CONTINUATIONS


@pytest.fixture(scope="module")
def scene_url(postgres: EmbeddedPostgres) -> Iterator[str]:
    """A database in which the scene has been played."""
    with a_scene(postgres, _play) as url:
        yield url


async def _play(ledger: Ledger, clock: Clock) -> None:
    await play_scene(World(ledger, clock))


async def test_the_scene_itself_is_sound(scene_url: str) -> None:
    async with Database(scene_url) as database:
        assert await reported(database) == set()


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: f"{damage[0]}-{damage[1]}")
async def test_planted_damage_is_named(scene_url: str, damage: Damage) -> None:
    found = await find_planted(scene_url, damage)
    assert found == {(damage.invariant, damage.subject), *damage.also}


def test_the_docs_explain_every_invariant() -> None:
    explained = re.findall(r"^\| `(\w+)` \|", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    planted = [
        *DAMAGES,
        *POLICIES,
        *PLACED,
        *OUTPUTS,
        *ORDERED,
        *UNDONE,
        *UNIQUE,
        *SCHEDULED,
        *LIMITED,
    ]
    assert sorted(explained) == sorted({damage.invariant for damage in planted})
