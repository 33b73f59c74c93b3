"""Check what a database has recorded against the steps of the model.

    python -m protocol.trace DATABASE_URL [--json]

Each event of a task, each release and each renewal is a step of `protocol/ledger.pml`, or of the
models over it; the state of the task's lease, rebuilt from the steps before, must allow it. Exit
code 0: all are steps of the model, 1: some are not, 2: the database cannot be read.
"""

import argparse
import asyncio
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import asyncpg

STORY_MAX = 30
ILLEGAL_SHOWN_MAX = 20

# What the model calls a step that is recorded so; each is an inline of a model.
OPEN, END, END_AND_RELEASE, RELEASE, AFTER, RENEW, CANCEL = (
    "open_lease", "end_attempt", "end_and_release", "release", "after_attempt",
    "renew_transaction", "cancel",
)  # fmt: skip
# The model leaves out when user code starts.
REPORT = "report"

# In which state a move leaves a task, by its number.
_STATES = {
    "retried": 1, "building": 2, "started": 3, "succeeded": 4, "failed": 5, "killed": 6,
    "worker_failed": 7, "unschedulable": 8, "claimed": 9, "placed": 9, "dead_lettered": 10,
}  # fmt: skip
_PENDING = _STATES["retried"]
_STAGES = ("claimed", "building", "started")
_ENDS = {"succeeded", "failed", "killed", "worker_failed"}
_WITHOUT_ATTEMPT = {"killed", "unschedulable", "dead_lettered"}
# What may follow an end, in its own transaction and never later.
_AFTER = {"retried": {"failed", "worker_failed"}, "dead_lettered": _ENDS - {"succeeded"}}


class Event(NamedTuple):
    """One move of a task, as it was recorded."""

    seq: int
    attempt: int
    type: str
    at: datetime
    transaction: int
    cause: str | None = None


class Ended(NamedTuple):
    """An attempt that has ended: how and when, its lease as it was last, when it was released."""

    state: int
    at: datetime
    expired_at: datetime
    released_at: datetime | None


class Renewal(NamedTuple):
    """A heartbeat that was noted: until when the lease lives by it."""

    attempt: int
    at: datetime
    until: datetime


class Lease(NamedTuple):
    """The lease that a task has now."""

    attempt: int
    is_ending: bool
    expires_at: datetime


class Row(NamedTuple):
    """A task as it is now: its state, the number of its current or next attempt, its moves."""

    state: int = _PENDING
    attempt: int = 0
    moves: int = 0


@dataclass(slots=True)
class Story:
    """All that is recorded of one task."""

    events: list[Event] = field(default_factory=list)
    ended: dict[int, Ended] = field(default_factory=dict)
    renewals: list[Renewal] = field(default_factory=list)
    lease: Lease | None = None
    row: Row = field(default_factory=Row)


TaskKey = tuple[int, int]
Recorded = Mapping[TaskKey, Story]


class Illegal(NamedTuple):
    """What was recorded is no step of the model, and the steps that led to it."""

    task: TaskKey
    problem: str
    story: tuple[str, ...]

    def __str__(self) -> str:
        steps = "".join(f"\n        {step}" for step in self.story)
        return f"task {self.task[0]}.{self.task[1]}: {self.problem}{steps}"


class _NoStep(Exception):
    """The state does not allow it."""


@dataclass(slots=True)
class _State:
    """A task of the model: its state, and the lease of its latest attempt."""

    task: str = "PENDING"
    lease: str = "NO_LEASE"
    attempt: int = -1
    stage: str = ""
    last: Event | None = None
    told: set[int] = field(default_factory=set)

    @property
    def is_unreleased(self) -> bool:
        return self.lease in {"LIVE", "ENDING"}


def check(recorded: Recorded) -> tuple[Counter[str], list[Illegal]]:
    """Walk through stories of tasks; returns how often each step was taken, and what is none."""
    steps: Counter[str] = Counter()
    illegal = []
    for task, story in recorded.items():
        taken: list[str] = []
        try:
            for name, said in _walk(story):
                steps[name] += 1
                taken.append(f"{name}: {said}")
        except _NoStep as problem:
            illegal.append(Illegal(task, str(problem), tuple(taken[-STORY_MAX:])))
    return steps, illegal


def _walk(story: Story) -> Iterable[tuple[str, str]]:
    state = _State()
    for event in sorted(story.events, key=lambda event: event.seq):
        _follow_stream(state, event)
        yield from _release(state, story, event.at)
        yield _step(state, event, story.ended.get(event.attempt))
        state.last = event
    yield from _release(state, story)
    _compare_with_row(state, story.row)
    _compare_with_lease(state, story.lease)
    if unheard := story.ended.keys() - state.told:
        raise _NoStep(f"attempt {min(unheard)} is recorded as ended, and no event tells of it")
    yield from _renewals(story)


def _follow_stream(state: _State, event: Event) -> None:
    """See that nothing is left out, twice, or before what it follows."""
    wanted = 0 if state.last is None else state.last.seq + 1
    if event.seq != wanted:
        raise _NoStep(f"{event.type} is number {event.seq}, not {wanted}")
    if state.last is not None and event.at < state.last.at:
        raise _NoStep(f"{event.type} is earlier than what comes before it")


def _step(state: _State, event: Event, ended: Ended | None) -> tuple[str, str]:
    said = f"{event.type} of attempt {event.attempt}"
    if event.type in {"claimed", "placed"}:
        _open(state, event)
        return OPEN, said
    if event.type in {"building", "started"}:
        _demand_open(state, event)
        if _STAGES.index(event.type) <= _STAGES.index(state.stage):
            raise _NoStep(f"{said} comes after {state.stage}")
        state.stage = event.type
        return REPORT, said
    if state.task in _AFTER.get(event.type, ()):
        _follow_end(state, event)
        return AFTER, said
    # Also while the lease of the last attempt is ending: the task itself has no attempt then.
    if event.type in _WITHOUT_ATTEMPT and state.task == "PENDING":
        _cancel(state, event)
        return CANCEL, said
    if event.type in _ENDS:
        return _end(state, event, ended), said
    raise _NoStep(f"{said}, but the task is {state.task}")


def _open(state: _State, event: Event) -> None:
    if state.task != "PENDING":
        raise _NoStep(f"attempt {event.attempt} begins, but the task is {state.task}")
    if state.is_unreleased:
        raise _NoStep(f"attempt {event.attempt} begins while {state.attempt} is unreleased")
    _demand_next(state, event)
    state.task, state.lease, state.attempt = "ASSIGNED", "LIVE", event.attempt
    state.stage = _STAGES[0]


def _follow_end(state: _State, event: Event) -> None:
    """Retry the task, or dead-letter it, together with the end of its attempt."""
    if state.last is None or event.transaction != state.last.transaction:
        raise _NoStep(f"{event.type} comes later than the end of the attempt")
    if event.type == "retried":
        _demand_next(state, event)
    elif event.attempt != state.attempt:
        raise _NoStep(f"{event.type} of attempt {event.attempt} after {state.attempt}")
    state.task = "PENDING" if event.type == "retried" else event.type


def _cancel(state: _State, event: Event) -> None:
    _demand_next(state, event)
    if event.type == "unschedulable" and state.is_unreleased:
        raise _NoStep(f"nobody could take the task while attempt {state.attempt} is unreleased")
    state.task = event.type


def _end(state: _State, event: Event, ended: Ended | None) -> str:
    _demand_open(state, event)
    if event.type == "succeeded" and state.stage != "started":
        raise _NoStep(f"attempt {event.attempt} succeeds before it has started")
    if ended is None:
        raise _NoStep(f"attempt {event.attempt} ends, but no record of it is kept")
    if (ended.state, ended.at) != (_STATES[event.type], event.at):
        raise _NoStep(f"{event.type} of attempt {event.attempt}, but its record differs")
    if event.cause == "lease expired" and event.at < ended.expired_at:
        raise _NoStep(f"the lease of attempt {event.attempt} expires before its time")
    if ended.released_at is not None and ended.released_at < event.at:
        raise _NoStep(f"attempt {event.attempt} is released before it has ended")
    state.task = event.type
    state.told.add(event.attempt)
    state.lease = "RELEASED" if ended.released_at == event.at else "ENDING"
    return END_AND_RELEASE if state.lease == "RELEASED" else END


def _demand_open(state: _State, event: Event) -> None:
    if event.attempt != state.attempt:
        raise _NoStep(f"{event.type} of attempt {event.attempt}, but {state.attempt} is the latest")
    if (state.lease, state.task) != ("LIVE", "ASSIGNED"):
        held = f"its lease is {state.lease} and the task is {state.task}"
        raise _NoStep(f"{event.type} of attempt {event.attempt}, but {held}")


def _demand_next(state: _State, event: Event) -> None:
    if event.attempt != state.attempt + 1:
        raise _NoStep(f"{event.type} names attempt {event.attempt} after attempt {state.attempt}")


def _release(state: _State, story: Story, by: datetime | None = None) -> Iterable[tuple[str, str]]:
    """Release what was ending, if that was recorded by then."""
    if state.lease == "ENDING":
        released_at = story.ended[state.attempt].released_at
        if released_at is not None and (by is None or released_at <= by):
            state.lease = "RELEASED"
            yield RELEASE, f"of attempt {state.attempt}"


def _compare_with_row(state: _State, row: Row) -> None:
    last = state.last
    told = Row(_STATES[last.type], last.attempt, last.seq + 1) if last else Row()
    if told != row:
        raise _NoStep(f"by its story the task is {told}, but it is {row}")


def _compare_with_lease(state: _State, lease: Lease | None) -> None:
    told = (state.attempt, state.lease == "ENDING") if state.is_unreleased else None
    held = None if lease is None else (lease.attempt, lease.is_ending)
    if told != held:
        raise _NoStep(f"by its story {_word(told)}, but {_word(held)}")


def _word(lease: tuple[int, bool] | None) -> str:
    if lease is None:
        return "no lease is open"
    return f"that of attempt {lease[0]} is {'ending' if lease[1] else 'open'}"


def _renewals(story: Story) -> Iterable[tuple[str, str]]:
    opened = {e.attempt: e.at for e in story.events if e.type in {"claimed", "placed"}}
    for renewal in sorted(story.renewals):
        ended = story.ended.get(renewal.attempt)
        if renewal.attempt not in opened or renewal.at < opened[renewal.attempt]:
            raise _NoStep(f"attempt {renewal.attempt} is renewed before it begins")
        if ended and ended.released_at is not None and renewal.at > ended.released_at:
            raise _NoStep(f"attempt {renewal.attempt} is renewed after it was released")
        lease = story.lease if story.lease and story.lease.attempt == renewal.attempt else None
        until = lease.expires_at if lease else ended and ended.expired_at
        if until is None or renewal.until > until:
            raise _NoStep(f"attempt {renewal.attempt} has lost a renewal")
        yield RENEW, f"of attempt {renewal.attempt}"


_EVENTS = """
select job_id, task_index, seq, attempt, type::text, ts, txid, cause from holdfast.events
 where task_index >= 0
"""
_ATTEMPTS = """
select job_id, task_index, attempt, state, finished_at, last_lease_expires_at, released_at
  from holdfast.attempts
"""
_LEASES = "select job_id, task_index, attempt, ending, expires_at from holdfast.leases"
_TASKS = "select job_id, task_index, state, attempt, seq from holdfast.tasks where seq > 0"
_RENEWALS = """
select job_id, task_index, attempt, ts,
       to_timestamp((payload ->> 'lease_expires_at_ms')::float8 / 1000)
  from holdfast.notes where kind = 'lease_renewed'
"""


async def read(connection: Any) -> Recorded:
    """Read everything that a database has recorded, as of one moment."""
    stories: dict[TaskKey, Story] = defaultdict(Story)
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        for job_id, index, *rest in await connection.fetch(_EVENTS):
            stories[job_id, index].events.append(Event(*rest))
        for job_id, index, attempt, *rest in await connection.fetch(_ATTEMPTS):
            stories[job_id, index].ended[attempt] = Ended(*rest)
        for job_id, index, *rest in await connection.fetch(_LEASES):
            stories[job_id, index].lease = Lease(*rest)
        for job_id, index, *rest in await connection.fetch(_TASKS):
            stories[job_id, index].row = Row(*rest)
        for job_id, index, *rest in await connection.fetch(_RENEWALS):
            stories[job_id, index].renewals.append(Renewal(*rest))
    return stories


async def check_database(url: str) -> tuple[Counter[str], list[Illegal]]:
    """Read a database and check it."""
    connection = await asyncpg.connect(url)
    try:
        return check(await read(connection))
    finally:
        await connection.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Check a database and say what was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("url", help="of the database that a run has left")
    parser.add_argument("--json", action="store_true", help="one JSON object for programs")
    chosen = parser.parse_args(arguments)
    try:
        steps, illegal = asyncio.run(check_database(chosen.url))
    except (OSError, asyncpg.PostgresError) as error:
        print(f"trace: {error}", file=sys.stderr)
        return 2
    if chosen.json:
        print(json.dumps({"steps": steps, "illegal": [str(each) for each in illegal]}))
    else:
        print("".join(f"{count:>9} {name}\n" for name, count in sorted(steps.items())), end="")
        print("".join(f"ILLEGAL {each}\n" for each in illegal[:ILLEGAL_SHOWN_MAX]), end="")
        print(f"{steps.total()} steps, {len(illegal)} tasks with what is no step of the model")
    return 1 if illegal else 0


if __name__ == "__main__":
    sys.exit(main())
