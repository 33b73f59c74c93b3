"""The ledger of the simulation refuses what the real one cannot do."""

from datetime import timedelta
from functools import partial

import pytest

from holdfast.errors import LeaseConflict
from holdfast.model.work.states import TaskState
from holdfast.rules.ending import end_lost, end_overdue
from holdfast.rules.outage import Watch
from holdfast.simulation.ledger import IllegalMove, only
from tests.simulation.ledgers import Heard, make_ledger, submission
from tests.simulation.small_plans import COMMAND, START

LATER = START + timedelta(seconds=1)


def test_a_lost_attempt_is_followed_by_the_next_once_its_lease_is_released() -> None:
    heard = Heard()
    ledger = make_ledger(heard)
    [task] = ledger.submit(submission(COMMAND), START).tasks
    first = ledger.lease(task, "w-1", START)
    first.acknowledged = True
    ledger.start(first.fence, TaskState.RUNNING, START)
    lost = partial(
        end_lost, cause="lost", is_gone=False, has_crashed=False, outage=(Watch(LATER), LATER)
    )
    ledger.end([task], only(first.fence, lost), LATER)
    assert (task.state, task.attempt, task.preemption_count) == (TaskState.PENDING, 1, 1)
    with pytest.raises(AssertionError, match="nobody has released"):
        ledger.lease(task, "w-2", LATER)
    over = first.expires_at
    judge = partial(end_overdue, terms=task.job.terms, watch=Watch(over), now=over)
    ledger.end([task], only(first.fence, judge), over)
    assert heard.released == [first]
    with pytest.raises(LeaseConflict):
        ledger.succeed(first.fence, over)
    second = ledger.lease(task, "w-2", over)
    ledger.succeed(second.fence, over)
    assert task.job.state == TaskState.SUCCEEDED
    assert [job.id for job in heard.ended] == [1]


def test_a_move_that_is_not_in_the_table_is_refused() -> None:
    ledger = make_ledger()
    [task] = ledger.submit(submission(COMMAND), START).tasks
    lease = ledger.lease(task, "w-1", START)
    ledger.succeed(lease.fence, START)
    with pytest.raises(IllegalMove, match="SUCCEEDED to ASSIGNED"):
        ledger.lease(task, "w-1", START)


def test_the_end_of_a_job_stops_what_is_left_of_it() -> None:
    heard = Heard()
    ledger = make_ledger(heard)
    job = ledger.submit(submission(COMMAND | {"replicas": 3}), START)
    lease = ledger.lease(job.tasks[0], "w-1", START)
    ledger.start(lease.fence, TaskState.RUNNING, START)
    ledger.cancel(job, "soft", LATER, reason="enough")
    assert [task.state for task in job.tasks[1:]] == [TaskState.KILLED] * 2
    assert (job.tasks[0].state, lease.cancelled) == (TaskState.RUNNING, True)
    ledger.cancel(job, "hard", LATER, reason="now")
    assert (job.tasks[0].state, job.state) == (TaskState.KILLED, TaskState.KILLED)
    assert (lease.ending, heard.released) == (True, [])
