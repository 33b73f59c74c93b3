"""Each check refuses a history in which what it looks for is planted; none refuses a good one."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from chaos.checker.history import (
    AttemptRow,
    Ended,
    Entry,
    Event,
    Excuse,
    Firing,
    History,
    Hit,
    JobRow,
    LeaseRow,
    Mark,
    Seen,
    State,
    Submitted,
    TaskRow,
    Told,
    Write,
)
from chaos.checker.report import CHECKS, check, table_of_hits, tell_story

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


PLANTED: list[tuple[str, str, Plant]] = [
    ("progress", "nothing has ended while", lambda h: setattr(h, "healed_at", 0.5)),
    ("progress", "once all was well", lambda h: setattr(h, "healed_at", 20.0)),
    ("progress", "no task has succeeded", lambda h: h.tasks.clear()),
    ("progress", "nothing has broken", hits_miss),
    ("progress", "no instant", lambda h: h.firings.clear()),
    ("progress", "nothing has ended while", lambda h: setattr(h, "hits", [LATE_HIT])),
    ("executions", "given to nobody", lambda h: h.marks.append(Mark("1.0", 2, "start", 12, "w"))),
    (
        "executions",
        "ran on worker-2, and was given to worker-22",
        lambda h: h.attempts.__setitem__(
            2, AttemptRow(2, 0, 0, State.SUCCEEDED, True, "worker-22")
        ),
    ),
    ("executions", "which has not begun", lambda h: is_cut(h, from_mark=4)),
    ("executions", "not come to its end", lambda h: is_cut(h, from_mark=5)),
    (
        "accepted",
        "nobody has asked for that",
        lambda h: h.jobs.append(JobRow(3, KILLED, 1, True, {KILLED: 1}, type="quick")),
    ),
    ("accepted", "is not there", lambda h: h.submitted.append(Submitted(3, "quick", 1.0))),
    ("accepted", "ended KILLED", lambda h: job_is(h, state=KILLED)),
    ("accepted", "nothing says why", lambda h: job_is(h, is_finished=False)),
    ("accepted", "have this idempotency key", lambda h: job_is(h, key="b")),
    ("ended", "still RUNNING", lambda h: task_is(h, is_finished=False, state=RUNNING)),
    ("starts", "begun 2 times", lambda h: h.marks.append(Mark("1.0", 1, "start", 6.1, "w"))),
    ("overlaps", "attempt 0 on worker-1 lived", lambda h: mark_lives(h, 6.5)),
    ("fences", "came after attempt 1", lambda h: h.writes.append(Write(4, "1.0", 0))),
    ("effects", "effects of [1, 1]", lambda h: h.effects.append(("1.0", 1))),
    ("effects", "effects of [0]", lambda h: h.effects.__setitem__(0, ("1.0", 0))),
    ("effects", "effects of []", lambda h: h.effects.clear()),
    ("effects", "it is KILLED", lambda h: task_is(h, state=KILLED)),
    ("results", "was told", lambda h: h.told.append(Told("1.0", 4))),
    ("results", "was told", lambda h: h.told.append(Told("9.0", 4))),
    ("results", "it returned 4, not 3", lambda h: task_is(h, result=4)),
    ("results", "its end KILLED was told", lambda h: h.ends.append(Ended(2, KILLED))),
    ("linear", "ended as KILLED or SUCCEEDED", lambda h: task_is(h, state=KILLED)),
    ("linear", "in attempt [1, 2]", lambda h: task_is(h, attempt=2)),
    ("linear", "had been", lambda h: task_is(h, is_finished=False, state=RUNNING)),
    ("linear", "had been", lambda h: see(h, 0, RUNNING, 4.5, is_finished=False)),
    ("linear", "had been", lambda h: see(h, 1, State.PENDING, 7.0, is_finished=False)),
    ("linear", "had been", lambda h: see(h, 1, RUNNING, 9.8, is_finished=False)),
    ("linear", "KILLED or SUCCEEDED", lambda h: see(h, 1, KILLED, 9.8, is_finished=True)),
    (
        "limits",
        "lived at once",
        lambda h: h.marks.append(Mark("3.0", 0, "beat", 7.0, "worker-3", "key-1")),
    ),
    ("limits", "2 slots were held", lambda h: h.held.update({"key-1": 2})),
    ("limits", "1 may", run_all("device-worker-1-0", (7.0, 8.0), (7.5, 8.5))),
    ("limits", "2 may", run_all("room-worker-1", (7.0, 8.0), (7.5, 8.5), (7.6, 8.5))),
    ("order", "before job 8", run_all("chain", (7.0, 8.0), (7.9, 8.5))),
    ("order", "before job 2", waits),
    ("schedules", "fired 2 times", lambda h: h.firings.append(Firing("s", NOON, 1))),
    (
        "schedules",
        "2 instants",
        lambda h: h.firings.append(Firing("s", NOON.replace(hour=13), 2)),
    ),
    ("datasets", "committed 2 parts", lambda h: h.entries.append(Entry("d", 1, "q", "2.0"))),
    ("datasets", "committed 0 parts", lambda h: h.entries.clear()),
    (
        "sagas",
        "undone 2 times",
        lambda h: h.jobs.__setitem__(slice(None), [job._replace(compensates=1) for job in h.jobs]),
    ),
    ("sagas", "step 0 was undone before", lambda h: undo(h, (0, 7.0), (1, 7.5))),
    ("sagas", "step 0 was undone before", lambda h: undo(h, (1, 7.0), (0, 7.0))),
    ("sagas", "was not undone", lambda h: h.submitted.append(Submitted(1, "saga", 0.5))),
    ("streams", "are numbered", lambda h: event_is(h, 2, seq=3)),
    ("streams", "do not grow", lambda h: event_is(h, 2, id=99)),
    ("moves", "succeeded, after PENDING", lambda h: event_is(h, 0, type="succeeded")),
    ("moves", "of attempt 0, not 1", lambda h: event_is(h, 3, attempt=0)),
    ("rows", "its last event says", lambda h: task_is(h, attempt=2)),
    ("moves", "its events are", lambda h: job_event(h, 1, "killed", 60)),
    ("moves", "its events are", lambda h: job_event(h, 1, "started", 60)),
    ("moves", "it is KILLED, and its events", lambda h: job_is(h, state=KILLED)),
    (
        "moves",
        "its events are ['started'",
        lambda h: event_is(h, SUBMITTED, type="started"),
    ),
    ("cancels", "and it went on", lambda h: h.cancels.append((2, 10.7))),
    ("cancels", "claimed after", lambda h: job_event(h, 2, "cancel_requested", 9)),
    ("rows", "no row tells of it", lambda h: h.attempts.__delitem__(0)),
    ("rows", "is not there", lambda h: h.events.append(Event(7, 0, 0, 0, "claimed", id=99))),
    (
        "rows",
        "its events say",
        lambda h: h.attempts.__setitem__(0, AttemptRow(1, 0, 0, State.FAILED, True)),
    ),
    ("counts", "it counts", lambda h: job_is(h, counts={State.SUCCEEDED: 2})),
    ("counts", "and it has not", lambda h: job_is(h, is_finished=False)),
    ("counts", "succeeded with", lambda h: task_is(h, state=KILLED)),
    ("left", "it has ended", lambda h: h.leases.append(LeaseRow(1, 0, 1, "w"))),
    ("left", "nothing is left to do", lambda h: h.left.update(outbox=1)),
    (
        "left",
        "is not released",
        lambda h: h.attempts.__setitem__(0, AttemptRow(1, 0, 0, State.WORKER_FAILED, False)),
    ),
    ("gangs", "by 2 transactions", gang(5, 6)),
    ("gangs", "1 of 2 members", gang(5)),
    ("gangs", "by 1 transactions, 1 of 2", lambda h: regang(h, has_left=False)),
]


def test_a_good_history_has_nothing_to_say() -> None:
    assert check(a_history()) == []


def test_a_gang_that_is_placed_by_one_transaction_is_good() -> None:
    history = a_history()
    gang(5, 5)(history)
    assert check(history) == []


@pytest.mark.parametrize(
    ("name", "text", "plant"), PLANTED, ids=[f"{name}: {text}" for name, text, _ in PLANTED]
)
def test_what_must_never_be_is_found(name: str, text: str, plant: Plant) -> None:
    history = a_history()
    plant(history)
    found = [finding for finding in check(history) if finding.check == name]
    assert any(text in finding.text for finding in found), check(history)


def test_every_check_has_something_planted_for_it() -> None:
    silent = []
    for each in CHECKS:
        found = False
        for _, _, plant in PLANTED:
            history = a_history()
            plant(history)
            found = found or bool(list(each(history)))
        if not found:
            silent.append(each.__name__)
    assert not silent


def test_who_has_succeeded_stays_out_of_the_next_round_of_a_gang() -> None:
    history = a_history()
    regang(history, has_left=True)
    assert not [finding for finding in check(history) if finding.check == "gangs"]


def test_a_chain_in_its_order_and_devices_one_after_another_are_good() -> None:
    for key in ("chain", "device-worker-1-0", "room-worker-1"):
        history = a_history()
        run_all(key, (7.0, 8.0), (8.5, 9.0))(history)
        assert check(history) == []


def test_steps_that_are_undone_from_the_last_on_are_good() -> None:
    history = a_history()
    undo(history, (2, 7.0), (1, 7.5), (0, 8.0))
    assert check(history) == []


def test_a_frozen_host_excuses_its_own_executions_alone() -> None:
    for worker, is_found in (("worker-1", False), (None, False), ("worker-2", True)):
        history = a_history()
        history.excuses.append(Excuse("frozen", 2.0, 5.0, worker))
        mark_lives(history, 6.5)
        assert any(each.check == "overlaps" for each in check(history)) is is_found


def test_a_job_that_had_ended_need_not_have_heard_of_its_cancel() -> None:
    history = a_history()
    history.cancels += [(1, 9.5), (2, 11.5)]
    assert check(history) == []


def test_an_excuse_lets_no_stale_write_in() -> None:
    history = a_history()
    history.excuses.append(Excuse("frozen", 0.0, 99.0))
    history.writes.append(Write(4, "1.0", 0))
    assert [finding.check for finding in check(history)] == ["fences"]


def test_a_job_that_was_cancelled_may_have_been_killed() -> None:
    history = a_history()
    history.submitted[0] = history.submitted[0]._replace(may_end=frozenset({State.SUCCEEDED}))
    assert check(history) == []
    history.submitted[0] = history.submitted[0]._replace(may_end=frozenset({State.KILLED}))
    assert [finding.check for finding in check(history)] == ["accepted"]


def test_a_story_has_marks_looks_faults_events_and_writes() -> None:
    story = "\n".join(tell_story(a_history(), "1.0"))
    assert "attempt 0 on worker-1: start" in story
    assert "a caller sees RUNNING, attempt 0" in story
    assert story.index("FAULT host dead worker-1") < story.index("attempt 1 on worker-2: start")
    assert "event 2 at -: attempt 0 worker_failed" in story
    assert "write 3 of attempt 1" in story
    assert "2.0" not in story


def test_a_state_that_no_fault_has_hit_is_seen_in_the_table() -> None:
    hits = [
        Hit("host dead", "worker-1", 1.0, 1.0, {"running": 2}),
        Hit("host dead", "worker-2", 2.0, 2.0, {"running": 1, "ending": 1}),
        Hit("host dead", "worker-2", 3.0, 3.0, {"running": 5, "gated": 5}, has_missed=True),
    ]
    [head, row] = table_of_hits(hits)
    states = dict(zip(head.split()[3:], row.split()[4:], strict=True))
    assert row.startswith("host dead")
    assert row.split()[2:4] == ["2", "1"]
    assert states["running"] == "3"
    assert states["ending"] == "1"
    assert states["gated"] == states["ready"] == "."
