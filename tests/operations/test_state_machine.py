"""Random sequences of everything that can happen, on a real Postgres, against the pure rules.

The clock stands still between steps and moves when a step says so. Each answer is compared with the
model's, and so are the tables after each step; at the end the whole history is, and the audit must
be silent. A failure prints the shortest sequence of steps that shows it, and how to run it again.
"""

from typing import Any, TypeVar
from uuid import UUID

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from holdfast.embedded import EmbeddedPostgres
from holdfast.errors import LeaseConflict
from holdfast.model.work.fence import Fence
from holdfast.model.work.outcomes import CancelMode, Stage, Status
from holdfast.model.work.states import TaskState
from holdfast.model.workers.resources import Capacity, fits
from holdfast.operations.claiming.claim import Claim, claim
from holdfast.operations.claiming.complete_and_claim import Turn, complete_and_claim
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.operations.dead_letters import dead_letter_task
from holdfast.operations.ending.cancel import cancel_job
from holdfast.operations.ending.complete import Completed, Completion, complete
from holdfast.operations.ending.reap import reap
from holdfast.operations.follow_up import follow_up_all
from holdfast.operations.notes import Note, add_user_event
from holdfast.operations.queues import pause_queue, resume_queue
from holdfast.operations.register import Registration, register
from holdfast.operations.renew import Renewed, renew
from holdfast.operations.report import Recorded, Report, report
from holdfast.operations.submitting.submit import submit_one
from holdfast.operations.upkeep.requeue import give_up_scheduling, requeue_due
from holdfast.rules.placement.claim_shares import Asked, share_line
from holdfast.rules.submitting.submission import complete_submission
from tests.operations import ledger_model as expected
from tests.operations.draws import QUEUES, SPECS, STEP
from tests.operations.ledger_model import CONFLICT
from tests.operations.machine import Machine
from tests.operations.model_state import ModelTask
from tests.operations.placed_rules import BOOK, BOOK_CORES, PlacedRules, shares_book
from tests.operations.submitting.test_submit import a_submission
from tests.world import fence_of

Thing = TypeVar("Thing")

CORES = 3


def forged(fence: Fence, forgery: str) -> Fence:
    """Make one thing about a fence wrong, or none."""
    match forgery:
        case "token":
            return fence._replace(lease_token=UUID(int=fence.lease_token.int ^ 1))
        case "attempt":
            return fence._replace(attempt=fence.attempt + 1)
        case "task":
            return fence._replace(task_id=fence.task_id._replace(task_index=9))
        case _:
            return fence


def picked(things: list[Thing], pick: int) -> Thing:
    """Pick one of a list, counted from its end back and around."""
    return things[-1 - pick % len(things)]


class WorkerRules(PlacedRules):
    """What workers do: also late, twice, and with what is not theirs."""

    def claim_from_queues(
        self, worker: int, queues: list[str], count: int, *, starting: bool = False
    ) -> None:
        """Claim from queues: a beginning of what can be claimed, in its order."""
        name = picked(self.workers, worker)
        claimable = self.model.claimable(queues)
        stale = self.model.count_stale()
        plain = ClaimRequest(name, tuple(queues), count, start=starting)
        request, room = self._bound(plain)
        asked = Asked(count, room, request.capacity or Capacity(cpu=BOOK_CORES))
        [answer] = self.ask(claim(self.ledger, [request]))
        if name in self.model.lost:
            assert not isinstance(answer, list) or answer == []
            return
        assert isinstance(answer, list)
        by_id = {task.id: task for task in claimable}
        tasks = [by_id[mine.task_id] for mine in answer]
        owners = share_line([self.model.needs_of(task) for task in claimable], [asked])
        fitting = [task for task, owner in zip(claimable, owners, strict=True) if owner == 0]
        # Which of two queues goes first is open where priority and eligibility are the same.
        assert [*map(self.model.turn, tasks)] == [*map(self.model.turn, fitting[: len(tasks)])]
        # Stale rows may cut a claim short, but never keep it from what stands behind them.
        assert min(1 if stale else count, len(fitting)) <= len(answer) <= count
        for task, mine in zip(tasks, answer, strict=True):
            self._take_over(task, mine, name)
        assert self.model.cpu_of(name) <= CORES or shares_book(name)
        assert self.cores_booked() <= BOOK_CORES

    def claim_by_id(self, worker: int, task: int) -> None:
        """Claim one task: it is leased if it can be, or refused."""
        name, wanted = picked(self.workers, worker), self.task(task)
        queue = self.model.job_of(wanted).terms.queue
        can_be = self.model.is_claimable(wanted) and queue not in {None, *self.model.paused}
        request, room = self._bound(ClaimRequest(name, task_id=wanted.id))
        need = self.model.needs_of(wanted)
        [answer] = self.ask(claim(self.ledger, [request]))
        if not can_be or name in self.model.lost or (need and not fits(need, room)):
            assert isinstance(answer, LeaseConflict)
            return
        assert isinstance(answer, list)
        [mine] = answer
        assert mine.task_id == wanted.id
        self._take_over(wanted, mine, name)

    def _bound(self, request: ClaimRequest) -> tuple[ClaimRequest, Capacity]:
        """Have a request say what its worker has free, by its word or by its book; says it, too."""
        if shares_book(request.worker_id):
            room = Capacity(cpu=BOOK_CORES - self.cores_booked())
            return request._replace(book=BOOK), room
        room = Capacity(cpu=CORES - self.model.cpu_of(request.worker_id))
        return request._replace(free=room, capacity=Capacity(cpu=CORES)), room

    def _take_over(self, task: ModelTask, mine: Claim, worker: str) -> None:
        seen = (mine.attempt, mine.failure_count, mine.preemption_count)
        assert seen == (task.attempt, *task.counters[:2])
        self.model.claim(task, worker, mine.lease_token)
        if mine.started:
            assert self.model.report(fence_of(mine), TaskState.RUNNING) is True
        self.fences.append(fence_of(mine))

    def report(self, pick: int, forgery: str, state: TaskState) -> None:
        """Report where an attempt stands."""
        fence = forged(self.fence(pick), forgery)
        [answer] = self.ask(report(self.ledger, [Report(fence, state)]))
        wanted = self.model.report(fence, state)
        assert (answer.is_news if isinstance(answer, Recorded) else CONFLICT) == wanted

    def renew(self, pick: int, forgery: str) -> None:
        """Renew a lease."""
        fence = forged(self.fence(pick), forgery)
        [answer] = self.ask(renew(self.ledger, [fence]))
        wanted = self.model.renew(fence)
        assert (answer.cancel if isinstance(answer, Renewed) else CONFLICT) == wanted

    def note(self, pick: int, forgery: str) -> None:
        """Write an event of user code."""
        fence = forged(self.fence(pick), forgery)
        answer = self.ask(add_user_event(self.ledger, fence, Note("loaded")))
        wanted = self.model.note(fence)
        assert (True if answer is None else answer) == wanted

    def complete(self, pick: int, forgery: str, end: tuple[Status, str, Stage]) -> None:
        """End an attempt."""
        fence = forged(self.fence(pick), forgery)
        status, error_class, stage = end
        completion = Completion(fence, status, error_class=error_class, stage=stage)
        [answer] = self.ask(complete(self.ledger, [completion]))
        wanted = self.model.complete(fence, *end)
        assert (answer.accepted if isinstance(answer, Completed) else CONFLICT) == wanted

    def complete_and_claim(
        self, pick: int, end: tuple[Status, str, Stage], worker: int, count: int
    ) -> None:
        """End an attempt, and claim what is next in the same turn."""
        fence, name = self.fence(pick), picked(self.workers, worker)
        status, error_class, stage = end
        completion = Completion(fence, status, error_class=error_class, stage=stage)
        request, _ = self._bound(ClaimRequest(name, tuple(QUEUES), count, start=True))
        [answer] = self.ask(complete_and_claim(self.ledger, [Turn((completion,), request)]))
        wanted = self.model.complete(fence, *end)
        [completed] = answer.completed
        assert (completed.accepted if isinstance(completed, Completed) else CONFLICT) == wanted
        if name in self.model.lost:
            assert not isinstance(answer.claimed, list) or answer.claimed == []
            return
        assert isinstance(answer.claimed, list)
        by_id = {task.id: task for task in self.model.claimable(QUEUES)}
        for mine in answer.claimed:
            self._take_over(by_id[mine.task_id], mine, name)
        assert self.model.cpu_of(name) <= CORES or shares_book(name)
        assert self.cores_booked() <= BOOK_CORES

    def replace(self, worker: int) -> None:
        """Let a new incarnation take over from one that is gone."""
        name = picked(self.workers, worker)
        if name in self.model.lost:
            return
        registration = Registration(f"{name}x", name, "host", replaces=name)
        self.ask(register(self.ledger, registration))
        self.model.replace(name)
        self.workers.append(registration.worker_id)


class PeopleRules(Machine):
    """What people do: submit, cancel, dead-letter, pause."""

    def submit(self, fields: dict[str, Any], count: int, fan_out: bool, has_parent: bool) -> None:
        """Submit a job, perhaps as the child of the last one that lives."""
        if "gpu" in fields.get("resources", ()):
            fields = fields | {"queue": None}
        live = [job.id for job in self.model.jobs.values() if job.is_live]
        parent = live[-1] if has_parent and live else None
        given = {"inputs": [0] * count} if fan_out else {"replicas": count}
        submission = a_submission(**fields, **given, parent_job_id=parent)
        job_id = self.ask(submit_one(self.ledger, submission)).job_id
        spec = complete_submission(submission, self.ledger.limits).spec
        self.model.submit(job_id, spec, count=count, fan_out=fan_out, parent=parent)

    def cancel_job(self, pick: int, mode: CancelMode) -> None:
        """Flag a job for cancel; what follows from it comes later."""
        job = picked(list(self.model.jobs.values()), pick)
        answer = self.ask(cancel_job(self.ledger, job.id, mode, actor="ann"))
        assert answer == self.model.cancel_job(job, mode)

    def cancel_task(self, pick: int, mode: CancelMode) -> None:
        """Cancel one task."""
        task = self.open_task(pick)
        answer = self.ask(self.world.cancel_task(task.id, mode))
        assert answer == self.model.cancel_task(task, mode)

    def dead_letter(self, pick: int) -> None:
        """Send a task to the dead letters."""
        task = self.open_task(pick)
        answer = self.ask(dead_letter_task(self.ledger, task.id, actor="ann"))
        assert (answer != CONFLICT) == self.model.dead_letter(task)

    def pause_or_resume(self, queue: str) -> None:
        """Pause a queue, or let it go on."""
        if queue in self.model.paused:
            self.ask(resume_queue(self.ledger, queue, actor="ann"))
        else:
            self.ask(pause_queue(self.ledger, queue, actor="ann"))
        self.model.paused ^= {queue}


class TimeRules(Machine):
    """Time passes, with and without anybody at the chores."""

    def follow_up(self) -> None:
        """Do what follows downward."""
        self.ask(follow_up_all(self.ledger))
        expected.follow_up(self.model)

    def pass_unwatched(self, seconds: float) -> None:
        """Let time pass while every server is away."""
        self.advance(seconds)

    def pass_watched(self, rounds: int) -> None:
        """Let time pass while the chores are done."""
        for _ in range(rounds):
            self.advance(5.0)
            self.reap()
            self.compare()
            self.requeue()
            self.follow_up()
            self.ask(give_up_scheduling(self.ledger))
            expected.give_up(self.model)
            self.compare()

    def reap(self) -> None:
        """End what has run out of time."""
        self.ask(reap(self.ledger))
        expected.reap(self.model)

    def requeue(self) -> None:
        """Make ready what is due."""
        self.ask(requeue_due(self.ledger))
        expected.requeue(self.model)


class LedgerMachine(WorkerRules, PeopleRules, TimeRules):
    """Everything that can happen to a ledger."""

    @initialize(specs=st.lists(st.tuples(SPECS, st.booleans()), min_size=4, max_size=6))
    def begin(self, specs: list[tuple[dict[str, Any], bool]]) -> None:
        """Let workers come up, jobs come in, and the first tasks be claimed."""
        for name in self.workers:
            self.ask(register(self.ledger, Registration(name, name, "host")))
        self.come_up()
        for fields, fan_out in specs:
            self.submit(fields, count=3, fan_out=fan_out, has_parent=False)
        self.claim_from_queues(0, list(QUEUES), 4)
        self.place()

    @rule(step=STEP)
    def take(self, step: tuple[str, dict[str, Any]]) -> None:
        """Take one step. One rule for all: the steps then come in a mix that leads somewhere."""
        name, arguments = step
        getattr(self, name)(**arguments)

    @invariant()
    def tables_follow_the_rules(self) -> None:
        """See after each step that the tables hold what the rules say."""
        self.compare()


BOUNDED = settings(
    max_examples=6,
    stateful_step_count=70,
    deadline=None,
    print_blob=True,
    report_multiple_bugs=False,
    phases=[Phase.reuse, Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)


def machine_on(postgres: EmbeddedPostgres) -> type[Any]:
    """Make a machine whose databases live on this Postgres."""

    class MachineOnPostgres(LedgerMachine):
        def __init__(self) -> None:
            super().__init__(postgres)

    return MachineOnPostgres


def test_a_flag_ends_no_job_until_one_of_its_tasks_moves(postgres: EmbeddedPostgres) -> None:
    machine: LedgerMachine = machine_on(postgres)()
    try:
        fields = {"queue": "a", "max_retries_failure": 0, "max_task_failures": 0}
        machine.begin([(fields, True)])
        machine.cancel_task(0, "hard")
        machine.cancel_job(0, "hard")
        machine.cancel_task(0, "soft")  # its lease is told, which is no move
        machine.compare()
        machine.follow_up()
        machine.compare()
    finally:
        machine.teardown()


def test_random_sequences_follow_the_rules(postgres: EmbeddedPostgres) -> None:
    run_state_machine_as_test(machine_on(postgres), settings=BOUNDED)


@pytest.mark.nightly
def test_many_long_random_sequences_follow_the_rules(postgres: EmbeddedPostgres) -> None:
    thorough = settings(BOUNDED, max_examples=1_000, stateful_step_count=80)
    run_state_machine_as_test(machine_on(postgres), settings=thorough)
