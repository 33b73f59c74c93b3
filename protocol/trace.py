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

STORY_MAX = 30
ILLEGAL_SHOWN_MAX = 20

# What the model calls a step that is recorded so; each is an inline of a model.
OPEN, REPORT, END, END_AND_RELEASE, RELEASE = (
    "open_lease", "report", "end_attempt", "end_and_release", "release",
)  # fmt: skip
AFTER, RENEW, CANCEL = "after_attempt", "renew_transaction", "cancel"
# The model leaves out when user code starts, and ends tasks without an attempt by a cancel alone.
NOT_INLINE = {REPORT, CANCEL}

_ENDS = {"succeeded", "failed", "killed", "worker_failed"}
_RETRIED = {"failed", "worker_failed"}


class Event(NamedTuple):
    """One move of a task, as it was recorded."""

    seq: int
    attempt: int
    type: str
    at: datetime
    cause: str | None = None


class Ended(NamedTuple):
    """An attempt that has ended: its lease as it was last, and when that was released."""

    attempt: int
    worker_id: str
    expired_at: datetime
    released_at: datetime | None


class Renewal(NamedTuple):
    """A heartbeat that was noted: until when the lease lives by it."""

    attempt: int
    at: datetime
    until: datetime


@dataclass(slots=True)
class Story:
    """All that is recorded of one task."""

    events: list[Event] = field(default_factory=list)
    ended: dict[int, Ended] = field(default_factory=dict)
    renewals: list[Renewal] = field(default_factory=list)
    # The attempt that holds the lease now, and whether it is ending.
    open: tuple[int, bool] | None = None


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
    """A task of the model: `task_state`, `lease` of the latest attempt, and `attempts_made`."""

    task_state: str = "PENDING"
    lease: str = "NO_LEASE"
    attempt: int = -1
    seq: int = 0
    at: datetime | None = None
    released_at: datetime | None = None
    stage: str = ""

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
    for event in sorted(story.events):
        _follow_stream(state, event)
        if event.type in {"claimed", "placed"} and state.lease == "ENDING":
            yield _release(state, story.ended.get(state.attempt), event.at)
        yield _step(state, event, story.ended.get(event.attempt))
    ended = story.ended.get(state.attempt)
    if state.lease == "ENDING" and ended is not None and ended.released_at is not None:
        yield _release(state, ended, ended.released_at)
    _compare_with_lease(state, story.open)
    yield from _renewals(story)


def _follow_stream(state: _State, event: Event) -> None:
    """See that nothing is left out, twice, or before what it follows."""
    # The first event of a task has the number that follows that of its submission.
    if state.at is not None and event.seq != state.seq + 1:
        raise _NoStep(f"{event.type} is number {event.seq} after {state.seq}")
    if state.at is not None and event.at < state.at:
        raise _NoStep(f"{event.type} is earlier than what comes before it")
    state.seq, state.at = event.seq, event.at


def _step(state: _State, event: Event, ended: Ended | None) -> tuple[str, str]:
    said = f"{event.type} of attempt {event.attempt}"
    match event.type:
        case "claimed" | "placed":
            _open(state, event)
            return OPEN, said
        case "building" | "started":
            _demand(state, event, leases={"LIVE"}, tasks={"ASSIGNED"})
            if event.type == state.stage or state.stage == "started":
                raise _NoStep(f"{said} comes after {state.stage}")
            state.stage = event.type
            return REPORT, said
        case "retried":
            if state.task_state not in _RETRIED:
                raise _NoStep(f"{said}, but the task is {state.task_state}")
            state.task_state = "PENDING"
            return AFTER, said
        case "unschedulable" | "dead_lettered" | "killed" if not state.is_unreleased:
            if state.task_state in {"succeeded", "unschedulable", "dead_lettered"}:
                raise _NoStep(f"{said}, but the task is {state.task_state}")
            state.task_state = event.type
            return CANCEL, said
        case "dead_lettered":
            if state.lease != "ENDING" or state.task_state not in _ENDS - {"succeeded"}:
                raise _NoStep(f"{said}, but its attempt has not ended")
            state.task_state = event.type
            return AFTER, said
        case _ if event.type in _ENDS:
            return _end(state, event, ended), said
        case _:
            raise _NoStep(f"{said} is no step of the model")


def _open(state: _State, event: Event) -> None:
    if state.task_state != "PENDING":
        raise _NoStep(f"attempt {event.attempt} begins, but the task is {state.task_state}")
    if state.is_unreleased:
        raise _NoStep(f"attempt {event.attempt} begins while {state.attempt} is unreleased")
    if state.released_at is not None and event.at < state.released_at:
        raise _NoStep(f"attempt {event.attempt} begins before {state.attempt} is released")
    if event.attempt <= state.attempt:
        raise _NoStep(f"attempt {event.attempt} begins after attempt {state.attempt}")
    state.task_state, state.lease, state.attempt = "ASSIGNED", "LIVE", event.attempt
    state.stage, state.released_at = "", None


def _end(state: _State, event: Event, ended: Ended | None) -> str:
    _demand(state, event, leases={"LIVE"}, tasks={"ASSIGNED"})
    if event.type == "succeeded" and state.stage != "started":
        raise _NoStep(f"attempt {event.attempt} succeeds before it has started")
    if ended is None:
        raise _NoStep(f"attempt {event.attempt} ends, but no record of it is kept")
    if event.cause == "lease expired" and event.at < ended.expired_at:
        raise _NoStep(f"the lease of attempt {event.attempt} expires before its time")
    state.task_state = event.type
    if ended.released_at is not None and ended.released_at <= event.at:
        state.lease, state.released_at = "RELEASED", ended.released_at
        return END_AND_RELEASE
    state.lease = "ENDING"
    return END


def _demand(state: _State, event: Event, *, leases: set[str], tasks: set[str]) -> None:
    if event.attempt != state.attempt:
        raise _NoStep(f"{event.type} of attempt {event.attempt}, but {state.attempt} is the latest")
    if state.lease not in leases or state.task_state not in tasks:
        held = f"its lease is {state.lease} and the task is {state.task_state}"
        raise _NoStep(f"{event.type} of attempt {event.attempt}, but {held}")


def _release(state: _State, ended: Ended | None, before: datetime) -> tuple[str, str]:
    if ended is None or ended.released_at is None or ended.released_at > before:
        raise _NoStep(f"another attempt begins while {state.attempt} is unreleased")
    state.lease, state.released_at = "RELEASED", ended.released_at
    return RELEASE, f"of attempt {state.attempt}"


def _compare_with_lease(state: _State, is_open: tuple[int, bool] | None) -> None:
    told = (state.attempt, state.lease == "ENDING") if state.is_unreleased else None
    if told != is_open:
        raise _NoStep(f"by its story {_word(told)}, but {_word(is_open)}")


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
        if ended and renewal.until > ended.expired_at:
            raise _NoStep(f"attempt {renewal.attempt} has lost a renewal")
        yield RENEW, f"of attempt {renewal.attempt}"


_EVENTS = """
select job_id, task_index, seq, attempt, type::text, ts, cause from holdfast.events
 where task_index >= 0 order by job_id, task_index, seq
"""
_ATTEMPTS = """
select job_id, task_index, attempt, worker_id, last_lease_expires_at, released_at
  from holdfast.attempts
"""
_LEASES = "select job_id, task_index, attempt, ending from holdfast.leases"
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
        for job_id, index, *rest in await connection.fetch(_ATTEMPTS):
            stories[job_id, index].ended[rest[0]] = Ended(*rest)
        for job_id, index, attempt, ending in await connection.fetch(_LEASES):
            stories[job_id, index].open = (attempt, ending)
        for job_id, index, *rest in await connection.fetch(_RENEWALS):
            stories[job_id, index].renewals.append(Renewal(*rest))
    return stories


async def check_database(url: str) -> tuple[Counter[str], list[Illegal]]:
    """Read a database and check it."""
    import asyncpg  # what only checks stories needs no driver

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
    except OSError as error:
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
