"""Attempts own execution: the stories of document 000, told with the pure rules alone."""

from collections import Counter

from holdfast.model.submitting.spec import Limits, Submission
from holdfast.model.work.outcomes import Failed, Outcome, Succeeded, TaskRetried, WorkerFailed
from holdfast.model.work.states import LIVE_STATES, JobState, TaskState
from holdfast.rules.job_state import JobCounts, job_state
from holdfast.rules.lifecycle import LEGAL_MOVES, RANK, is_ahead
from holdfast.rules.retry import Counters, after_attempt
from holdfast.rules.submitting.submission import complete_submission, parse_spec, terms_of


class ToldTask:
    """A task whose every step is a legal move and whose every end is decided by the rules."""

    def __init__(self, max_retries_failure: int = 0, max_retries_preemption: int = 0) -> None:
        spec = parse_spec(
            {
                "entrypoint": {"shell": "true"},
                "max_retries_failure": max_retries_failure,
                "max_retries_preemption": max_retries_preemption,
            }
        )
        self.terms = terms_of(complete_submission(Submission(spec), Limits()).spec)
        self.attempts: list[tuple[str, TaskState]] = []
        self.state = TaskState.PENDING
        self.counters = Counters()
        self.next_attempt = 0
        self.places = [(0, RANK[TaskState.PENDING])]

    def claim(self, worker: str) -> None:
        self._go(TaskState.ASSIGNED)
        self.attempts.append((worker, TaskState.ASSIGNED))

    def report(self, state: TaskState) -> None:
        if is_ahead(state, self.state):
            self._go(state)
            self.attempts[-1] = (self.attempts[-1][0], state)

    def end(self, outcome: Outcome) -> None:
        verdict = after_attempt(self.counters, outcome, self.terms, job_is_live=True, jitter=0.5)
        self._go(verdict.state)
        self.attempts[-1] = (self.attempts[-1][0], verdict.state)
        if isinstance(verdict, TaskRetried):
            self.next_attempt += 1
            self._go(TaskState.PENDING)
            self.counters = Counters(
                verdict.failure_count, verdict.preemption_count, verdict.free_loss_count
            )

    def _go(self, state: TaskState) -> None:
        assert state in LEGAL_MOVES[self.state]
        self.state = state
        self.places.append((self.next_attempt, RANK[state]))
        assert self.places[-2] < self.places[-1], "a backward transition"


def told_job_state(tasks: list[ToldTask], *, has_started: bool = True) -> JobState:
    counts = Counter(task.state.name.lower() for task in tasks)
    return job_state(
        JobCounts(**counts),
        fan_out=False,
        max_task_failures=0,
        cancel=None,
        has_started=has_started,
    )


def test_a_tasks_state_is_that_of_its_current_attempt() -> None:
    task = ToldTask()
    assert (task.state, task.attempts) == (TaskState.PENDING, [])
    task.claim("w1")
    assert task.attempts[-1] == ("w1", task.state)
    for state in (TaskState.BUILDING, TaskState.RUNNING):
        task.report(state)
        assert task.attempts[-1] == ("w1", task.state) == ("w1", state)
    task.end(Succeeded())
    assert task.attempts == [("w1", TaskState.SUCCEEDED)]
    assert task.state is TaskState.SUCCEEDED


def test_a_report_at_or_behind_the_recorded_state_changes_nothing() -> None:
    task = ToldTask()
    task.claim("w1")
    task.report(TaskState.RUNNING)
    places = list(task.places)
    for state in (TaskState.ASSIGNED, TaskState.BUILDING, TaskState.RUNNING):
        task.report(state)
    assert (task.state, task.places) == (TaskState.RUNNING, places)


def test_a_retry_creates_a_new_attempt_and_keeps_the_old_one() -> None:
    task = ToldTask(max_retries_failure=1)
    task.claim("w1")
    task.report(TaskState.RUNNING)
    task.end(Failed("oops"))
    assert task.state is TaskState.PENDING
    assert task.attempts == [("w1", TaskState.FAILED)]
    task.claim("w2")
    assert task.attempts == [("w1", TaskState.FAILED), ("w2", TaskState.ASSIGNED)]


def test_a_failure_beyond_the_budget_stays_failed() -> None:
    task = ToldTask(max_retries_failure=1)
    for worker in ("w1", "w2"):
        task.claim(worker)
        task.end(Failed("oops"))
    assert task.state is TaskState.FAILED
    assert [state for _, state in task.attempts] == [TaskState.FAILED, TaskState.FAILED]


def test_failures_and_losses_are_charged_apart() -> None:
    task = ToldTask(max_retries_failure=1, max_retries_preemption=1)
    for outcome in (Failed("oops"), WorkerFailed("lost")):
        task.claim("w1")
        task.end(outcome)
        assert task.state is TaskState.PENDING
    task.claim("w1")
    task.end(WorkerFailed("lost"))
    assert task.state is TaskState.WORKER_FAILED


def test_a_jobs_state_aggregates_from_its_tasks() -> None:
    tasks = [ToldTask() for _ in range(3)]
    assert told_job_state(tasks, has_started=False) is JobState.PENDING
    tasks[0].claim("w1")
    assert told_job_state(tasks, has_started=False) is JobState.RUNNING
    for task in tasks:
        if task.state is TaskState.PENDING:
            task.claim("w1")
        task.report(TaskState.RUNNING)
        task.end(Succeeded())
    assert told_job_state(tasks) is JobState.SUCCEEDED


def test_full_lifecycle_with_a_retry() -> None:
    task = ToldTask(max_retries_failure=1)
    task.claim("w1")
    task.report(TaskState.RUNNING)
    assert told_job_state([task]) is JobState.RUNNING
    task.end(Failed("crash"))
    assert (task.state in LIVE_STATES, told_job_state([task])) == (True, JobState.RUNNING)
    task.claim("w2")
    task.report(TaskState.RUNNING)
    task.end(Succeeded())
    assert [worker for worker, _ in task.attempts] == ["w1", "w2"]
    assert (task.state, told_job_state([task])) == (TaskState.SUCCEEDED, JobState.SUCCEEDED)
