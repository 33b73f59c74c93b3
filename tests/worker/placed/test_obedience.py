"""What a call changes on a worker, by a clock that stands still until it is moved."""

from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

from holdfast.wire.answers import AttemptName
from holdfast.wire.cluster import TaskToKill, TaskToRun, WorkerHeartbeatRequest
from holdfast.worker.placed.attempt import PlacedAttempt
from holdfast.worker.placed.held import Held
from holdfast.worker.placed.incarnation import CallRefused, Incarnation
from holdfast.worker.placed.obedience import Obedience, count_patience
from holdfast.worker.running.attempt_outcome import HANDED_BACK, KILLED
from tests.worker.placed_orders import a_job

TOKEN = UUID(int=7)


class Noted(Held):
    """Runs nothing."""

    def _begin(self, attempt: PlacedAttempt) -> None:
        """Leave it as it is."""

    def _clear_away(self, attempt: PlacedAttempt) -> None:
        """Leave nothing, since there is nothing."""


class Workplace:
    """A worker that is called here, and does nothing else."""

    def __init__(self, folder: Path) -> None:
        self.now = 100.0
        self.asked = 0
        self.held = Noted()
        self.incarnation = Incarnation("w")
        self.obedience = Obedience(
            self.incarnation, self.held, folder, ask_for_call=self.ask, clock=lambda: self.now
        )

    def ask(self) -> None:
        """Count that it asks to be called."""
        self.asked += 1

    def call(self, number: int, *, is_draining: bool = False, **fields: Any) -> None:
        """Be called; the leases count from the answer before."""
        answered = number - 1 or None
        request = WorkerHeartbeatRequest(
            worker_id=self.incarnation.worker_id,
            epoch=1,
            number=number,
            answered_epoch=None if answered is None else 1,
            answered_number=answered,
            **fields,
        )
        self.obedience.obey(request, is_draining=is_draining)


@pytest.fixture
def workplace(tmp_path: Path) -> Workplace:
    """A worker that has answered one call, at 100."""
    workplace = Workplace(tmp_path)
    workplace.call(1)
    return workplace


def to_run(number: int = 0, **fields: Any) -> TaskToRun:
    """Want an attempt, with a lease of a minute."""
    job = msgspec.Raw(msgspec.json.encode(a_job(lease=60.0)))
    return TaskToRun(
        task_id="7.0", attempt=number, lease_token=TOKEN, lease_ms=60_000, job=job, **fields
    )


def test_an_attempt_begins_with_a_lease_from_the_answer_before(workplace: Workplace) -> None:
    workplace.now = 103.0
    workplace.call(2, tasks_to_run=[to_run()])
    [attempt] = workplace.held
    assert (attempt.expires_at, attempt.began_at) == (160.0, 103.0)
    workplace.now = 110.0
    workplace.call(3, tasks_to_run=[to_run()])
    assert attempt.expires_at == 163.0


def test_a_call_that_is_not_newer_changes_nothing(workplace: Workplace) -> None:
    workplace.call(3, tasks_to_run=[to_run()])
    with pytest.raises(CallRefused, match="not newer"):
        workplace.call(2)
    assert all(attempt.stop is None for attempt in workplace.held)


def test_what_a_call_does_not_name_has_to_go(workplace: Workplace) -> None:
    workplace.call(2, tasks_to_run=[to_run(0)])
    workplace.call(3, tasks_to_kill=[TaskToKill("7.0", 0, TOKEN, 60_000)])
    [attempt] = workplace.held
    assert attempt.stop == "hard"
    workplace.call(4, tasks_to_run=[to_run(1)])
    assert [each.stop for each in workplace.held] == ["hard", None]


def test_what_was_acknowledged_is_not_begun_again_by_a_late_word_of_it(
    workplace: Workplace,
) -> None:
    workplace.call(2, tasks_to_run=[to_run()])
    [attempt] = workplace.held
    attempt.outcome = KILLED
    name = AttemptName("7.0", 0)
    workplace.call(3, acknowledged=[name], tasks_to_run=[to_run()])
    assert len(workplace.held) == 0


def test_who_drains_hands_back_what_comes_and_what_is_cancelled_does_not_begin(
    workplace: Workplace,
) -> None:
    workplace.call(2, tasks_to_run=[to_run()], is_draining=True)
    workplace.call(3, tasks_to_run=[to_run(0), to_run(1, cancel_ms=0)])
    assert [attempt.outcome for attempt in workplace.held] == [HANDED_BACK, KILLED]


def test_an_adopted_attempt_has_it_ask_for_a_call_once(tmp_path: Path) -> None:
    workplace = Workplace(tmp_path)
    before = Workplace(tmp_path)
    before.call(1)
    before.call(2, tasks_to_run=[to_run()])
    workplace.held.add(next(iter(before.held)))
    workplace.call(1, tasks_to_run=[to_run()])
    workplace.call(5, tasks_to_run=[to_run()])  # which names an answer that it never gave
    assert workplace.asked == 1


def test_a_worker_waits_for_a_call_till_its_leases_are_over(workplace: Workplace) -> None:
    assert count_patience([], 100.0, 60.0) == 60.0
    workplace.call(2, tasks_to_run=[to_run()])
    assert count_patience(workplace.held, 130.0, 60.0) == 30.0
    # A lease that is over while calls come is no reason to start anew.
    assert count_patience(workplace.held, 190.0, 60.0) == 30.0
