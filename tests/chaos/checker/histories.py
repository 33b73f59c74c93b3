"""A good history of a run, and the hands that plant in it what a check must find."""

from collections.abc import Callable
from datetime import UTC, datetime

from chaos.checker.history import (
    AttemptRow,
    Ended,
    Entry,
    Event,
    Firing,
    History,
    Hit,
    JobRow,
    Mark,
    Seen,
    State,
    Submitted,
    TaskRow,
    Told,
    Write,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TYPES = ("claimed", "started", "worker_failed", "retried", "claimed", "started", "succeeded")
ATTEMPTS = (0, 0, 0, 1, 1, 1, 1)
SUCCEEDED = {State.SUCCEEDED: 1}
KILLED, RUNNING = State.KILLED, State.RUNNING


def a_history() -> History:
    """A task whose first attempt was lost at 4, and whose second one succeeded at 11."""
    return History(
        began_at=0.0,
        healed_at=10.0,
        marks=[
            Mark("1.0", 0, "start", 1.0, "worker-1", "key-1"),
            Mark("1.0", 0, "beat", 3.0, "worker-1", "key-1"),
            Mark("1.0", 1, "start", 6.0, "worker-2", "key-1"),
            Mark("1.0", 1, "end", 9.0, "worker-2", "key-1"),
            Mark("2.0", 0, "start", 10.5, "worker-2", "key-1"),
            Mark("2.0", 0, "end", 11.0, "worker-2", "key-1"),
        ],
        writes=[Write(1, "1.0", 0), Write(2, "1.0", 1), Write(3, "1.0", 1)],
        ends=[Ended(1, State.SUCCEEDED)],
        has_schedule=True,
        effects=[("1.0", 1)],
        submitted=[
            Submitted(1, "paid", 0.5, results=(3,)),
            Submitted(2, "stored", 0.6),
        ],
        seen=[
            Seen("1.0", 0, State.RUNNING, 1.5, 1.6),
            Seen("1.0", 1, State.PENDING, 4.0, 4.1),
            Seen("1.0", 1, State.SUCCEEDED, 9.5, 9.6, is_finished=True),
        ],
        told=[Told("1.0", 3)],
        events=[
            Event(1, 0, seq, attempt, kind, id=seq)
            for seq, (attempt, kind) in enumerate(zip(ATTEMPTS, TYPES, strict=True))
        ]
        + [Event(2, 0, seq, 0, kind, id=10 + seq) for seq, kind in enumerate(TYPES[4:])]
        + [
            Event(job_id, -1, seq, -1, kind, id=30 + 10 * job_id + seq)
            for job_id in (1, 2)
            for seq, kind in enumerate(("submitted", "started", "succeeded"))
        ],
        tasks=[
            TaskRow(1, 0, State.SUCCEEDED, 1, True, 3),
            TaskRow(2, 0, State.SUCCEEDED, 0, True, 6),
        ],
        jobs=[
            JobRow(1, State.SUCCEEDED, 1, True, SUCCEEDED, "a"),
            JobRow(2, State.SUCCEEDED, 1, True, SUCCEEDED, "b"),
        ],
        attempts=[
            AttemptRow(1, 0, 0, State.WORKER_FAILED, True, "worker-1"),
            AttemptRow(1, 0, 1, State.SUCCEEDED, True, "worker-2-7"),
            AttemptRow(2, 0, 0, State.SUCCEEDED, True, "worker-2"),
        ],
        firings=[Firing("s", NOON, 2)],
        entries=[Entry("d", 1, "p", "2.0")],
        left={"outbox": 0},
        most={"key-": 1},
        hits=[Hit("host dead", "worker-1", 3.1, 3.1, {"running": 1})],
    )


Plant = Callable[[History], None]
LATE_HIT = Hit("host dead", "worker-1", 9.5, 9.5, {"running": 1})
SUBMITTED = 10  # the place of the first event of the first job's stream


def task_is(history: History, **fields: object) -> None:
    history.tasks[0] = history.tasks[0]._replace(**fields)  # type: ignore[arg-type]


def job_is(history: History, **fields: object) -> None:
    history.jobs[0] = history.jobs[0]._replace(**fields)  # type: ignore[arg-type]


def event_is(history: History, number: int, **fields: object) -> None:
    history.events[number] = history.events[number]._replace(**fields)  # type: ignore[arg-type]


def mark_lives(history: History, at: float) -> None:
    history.marks.append(Mark("1.0", 0, "beat", at, "worker-1", "key-1"))


def see(history: History, attempt: int, state: State, at: float, *, is_finished: bool) -> None:
    history.seen.append(Seen("1.0", attempt, state, at, at + 0.1, is_finished))


def gang(*transactions: int) -> Plant:
    """Make the second job a gang of two, placed by these transactions."""

    def plant(history: History) -> None:
        history.submitted[1] = Submitted(2, "gang", 0.6)
        history.entries.clear()
        history.jobs[1] = JobRow(2, State.SUCCEEDED, 2, True, {State.SUCCEEDED: 2}, "b")
        history.tasks.append(TaskRow(2, 1, State.SUCCEEDED, 0, True, 6))
        history.attempts.append(AttemptRow(2, 1, 0, State.SUCCEEDED, True, "worker-3"))
        history.marks += [Mark("2.1", 0, kind, 10.7, "worker-3") for kind in ("start", "end")]
        history.events = [e for e in history.events if e.job_id == 1 or e.task_index < 0]
        for index, txid in enumerate(transactions):
            kinds = ("placed", "started", "succeeded")
            history.events += [
                Event(2, index, seq, 0, kind, id=20 + 10 * index + seq, txid=txid)
                for seq, kind in enumerate(kinds)
            ]

    return plant


def run_job(history: History, job_id: int, *, begins: float, ends: float, key: str) -> None:
    """Have a job of one task, which succeeds at once, in the record and in all tables."""
    marks = (("start", begins), ("end", ends))
    history.marks += [Mark(f"{job_id}.0", 0, kind, at, "worker-3", key) for kind, at in marks]
    history.tasks.append(TaskRow(job_id, 0, State.SUCCEEDED, 0, True))
    history.jobs.append(JobRow(job_id, State.SUCCEEDED, 1, True, SUCCEEDED))
    history.attempts.append(AttemptRow(job_id, 0, 0, State.SUCCEEDED, True, "worker-3"))
    number = 100 * job_id
    for index, attempt, kinds in (
        (0, 0, TYPES[4:]),
        (-1, -1, ("submitted", "started", "succeeded")),
    ):
        history.events += [
            Event(job_id, index, seq, attempt, kind, id=number + 3 * -index + seq)
            for seq, kind in enumerate(kinds)
        ]


def run_all(key: str, *times: tuple[float, float]) -> Plant:
    """Have jobs 8, 9 and so on run, each from one instant to another."""

    def plant(history: History) -> None:
        history.most |= {"device-": 1, "room-": 2}
        for job_id, (begins, ends) in enumerate(times, 8):
            run_job(history, job_id, begins=begins, ends=ends, key=key)

    return plant


def regang(history: History, *, has_left: bool) -> None:
    """Have a gang of two in a second round, of one; the other one succeeded in the first, or not.

    Only what the check of gangs reads is consistent.
    """
    gang(5, 5)(history)
    ended = {(2, 1)} if has_left else {(2, 0), (2, 1)}
    history.events = [
        event
        for event in history.events
        if (event.job_id, event.task_index) not in ended or event.type != "succeeded"
    ]
    history.events.append(Event(2, 1, 3, 1, "placed", id=91, txid=6))


def undo(history: History, *steps: tuple[int, float]) -> None:
    """Have steps undone, each at an instant."""
    for number, at in steps:
        key = f"undo-s:{number}"
        run_job(history, 8 + number, begins=at, ends=at + 0.1, key=key)


def job_event(history: History, job_id: int, kind: str, number: int) -> None:
    """Have one more event in the stream of a job."""
    count = sum(event.job_id == job_id and event.task_index < 0 for event in history.events)
    history.events.append(Event(job_id, -1, count, -1, kind, id=number))


def waits(history: History) -> None:
    """Have the first job wait for the second, which ends after its beginning."""
    history.submitted[0] = history.submitted[0]._replace(after=(2,))


def is_cut(history: History, *, from_mark: int) -> None:
    """Have the second job's task leave no marks of its last steps."""
    del history.marks[from_mark:]
    history.marks.append(Mark("8.0", 0, "end", 12.0, "worker-1"))


def hits_miss(history: History) -> None:
    history.hits = [hit._replace(has_missed=True) for hit in history.hits]
