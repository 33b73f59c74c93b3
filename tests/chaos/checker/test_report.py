"""Each check refuses a history in which what it looks for is planted; none refuses a good one."""

import pytest

from chaos.checker.history import (
    AttemptRow,
    Ended,
    Entry,
    Event,
    Excuse,
    Firing,
    Hit,
    JobRow,
    LeaseRow,
    Mark,
    State,
    Submitted,
    Told,
    Write,
)
from chaos.checker.report import CHECKS, check, table_of_hits, tell_story
from tests.chaos.checker.histories import (
    KILLED,
    LATE_HIT,
    NOON,
    RUNNING,
    SUBMITTED,
    Plant,
    a_history,
    event_is,
    gang,
    hits_miss,
    is_cut,
    job_event,
    job_is,
    mark_lives,
    regang,
    run_all,
    see,
    task_is,
    undo,
    waits,
)

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
