"""What must hold of the work itself, by the record that it has kept and by what callers saw."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from chaos.checker.history import Excuse, Finding, History, Mark, Seen, State

# How far each state of an attempt is.
RANK = {State.PENDING: 0, State.ASSIGNED: 1, State.BUILDING: 2, State.RUNNING: 3}
ENDED_RANK = 4
LAST = (1 << 31, 0)
# Work that may fail of itself: the last step of a saga does.
MAY_FAIL = "step"


class Execution(NamedTuple):
    """One attempt's life as its own marks show it."""

    task: str
    attempt: int
    worker: str
    key: str | None
    began: float
    last: float
    has_ended: bool


def list_executions(history: History) -> list[Execution]:
    """Put the marks of each attempt together."""
    marks: defaultdict[tuple[str, int], list[Mark]] = defaultdict(list)
    for mark in history.marks:
        marks[mark.task, mark.attempt].append(mark)
    return [
        Execution(
            task,
            attempt,
            own[0].worker,
            own[0].key,
            min(mark.at for mark in own),
            max(mark.at for mark in own),
            any(mark.kind == "end" for mark in own),
        )
        for (task, attempt), own in sorted(marks.items())
    ]


def find_ends(history: History) -> dict[str, float]:
    """Say when each task that has succeeded was done, by the mark of the attempt that has."""
    ends = {(mark.task, mark.attempt): mark.at for mark in history.marks if mark.kind == "end"}
    done = ((each.name, each.attempt) for each in history.tasks if each.state is State.SUCCEEDED)
    return {task: ends[task, attempt] for task, attempt in done if (task, attempt) in ends}


def check_one_start(history: History) -> Iterator[Finding]:
    """An attempt begins once."""
    starts = Counter((mark.task, mark.attempt) for mark in history.marks if mark.kind == "start")
    for (task, attempt), count in starts.items():
        if count > 1:
            yield Finding("starts", task, f"attempt {attempt} has begun {count} times")


def check_executions(history: History) -> Iterator[Finding]:
    """What begins was given to who runs it, and what has succeeded was done, from start to end.

    Who writes an effect has succeeded by that, and may be lost before he notes his end.
    """
    given = {
        (f"{event.job_id}.{event.task_index}", event.attempt)
        for event in history.events
        if event.type in ("claimed", "placed")
    }
    ended_by = {(f"{a.job_id}.{a.task_index}", a.attempt): a.worker for a in history.attempts}
    executions = {(each.task, each.attempt): each for each in list_executions(history)}
    for (task, attempt), each in executions.items():
        name = ended_by.get((task, attempt))
        if (task, attempt) not in given:
            yield Finding("executions", task, f"attempt {attempt} began, and was given to nobody")
        elif name is not None and not f"{name}-".startswith(f"{each.worker}-"):
            text = f"attempt {attempt} ran on {each.worker}, and was given to {name}"
            yield Finding("executions", task, text)
    effects = set(history.effects)
    for row in history.tasks:
        if row.state is not State.SUCCEEDED:
            continue
        done = executions.get((row.name, row.attempt))
        if done is None or not (done.has_ended or (row.name, row.attempt) in effects):
            text = f"it succeeded in attempt {row.attempt}, which has "
            text += "not begun" if done is None else "not come to its end"
            yield Finding("executions", row.name, text)


def check_overlaps(history: History) -> Iterator[Finding]:
    """Two attempts of a task never live at once, unless something broke that no lease stands."""
    by_task: defaultdict[str, list[Execution]] = defaultdict(list)
    for execution in list_executions(history):
        by_task[execution.task].append(execution)
    for task, executions in by_task.items():
        for number, earlier in enumerate(executions):
            for later in executions[number + 1 :]:
                if later.began <= earlier.last and not is_excused(history.excuses, earlier):
                    text = (
                        f"attempt {earlier.attempt} on {earlier.worker} lived until "
                        f"{earlier.last - history.began_at:.3f}, attempt {later.attempt} on "
                        f"{later.worker} began at {later.began - history.began_at:.3f}"
                    )
                    yield Finding("overlaps", task, text)


def check_fences(history: History) -> Iterator[Finding]:
    """A guarded write of an attempt is never let in after one of a later attempt."""
    highest: dict[str, int] = {}
    for write in sorted(history.writes):
        before = highest.get(write.task, -1)
        if write.attempt < before:
            text = f"write {write.number} of attempt {write.attempt} came after attempt {before}"
            yield Finding("fences", write.task, text)
        highest[write.task] = max(before, write.attempt)


def check_effects(history: History) -> Iterator[Finding]:
    """What is written together with the success of a task is there once, and only then."""
    effects: defaultdict[str, list[int]] = defaultdict(list)
    for name, attempt in history.effects:
        effects[name].append(attempt)
    paid = {one.job_id for one in history.submitted if one.kind == "paid"}
    for task in history.tasks:
        found = effects.get(task.name, [])
        if task.state is State.SUCCEEDED and (task.job_id in paid or found):
            if found != [task.attempt]:
                text = f"it succeeded in attempt {task.attempt}, and has effects of {found}"
                yield Finding("effects", task.name, text)
        elif found:
            text = f"it is {task.state.name}, and has effects of attempts {found}"
            yield Finding("effects", task.name, text)


def check_accepted(history: History) -> Iterator[Finding]:
    """Every job that was acknowledged is there and has ended as it may, or says what it waits for.

    One that was not asked to end otherwise succeeds: its retries outlast any fault.
    """
    jobs = {job.job_id: job for job in history.jobs}
    reasons = {task.job_id: task.reason for task in history.tasks if not task.is_finished}
    for one in history.submitted:
        job = jobs.get(one.job_id)
        if job is None:
            yield Finding("accepted", str(one.job_id), f"{one.kind} was accepted, and is not there")
        elif job.is_finished:
            if job.state not in one.may_end:
                text = f"{one.kind} ended {job.state.name}, not {_names(one.may_end)}"
                yield Finding("accepted", str(one.job_id), text)
        elif not reasons.get(one.job_id):
            text = f"{one.kind} is {job.state.name}, and nothing says why it has not ended"
            yield Finding("accepted", str(one.job_id), text)
    known = {one.job_id for one in history.submitted}
    for job in history.jobs:
        may_end = {State.SUCCEEDED, *([State.FAILED] if job.type == MAY_FAIL else [])}
        if job.is_finished and job.job_id not in known and job.state not in may_end:
            text = f"{job.type} ended {job.state.name}, and nobody has asked for that"
            yield Finding("accepted", str(job.job_id), text)
    keys = Counter(job.key for job in history.jobs if job.key is not None)
    for key, count in keys.items():
        if count > 1:
            yield Finding("accepted", key, f"{count} jobs have this idempotency key")


def check_ended(history: History) -> Iterator[Finding]:
    """Within the bound, once all is well again, everything has ended."""
    for task in history.tasks:
        if not task.is_finished:
            text = f"it is still {task.state.name}, attempt {task.attempt}: {task.reason or '-'}"
            yield Finding("ended", task.name, text)


def check_results(history: History) -> Iterator[Finding]:
    """A result that was told is there, and every success has the result that it must have."""
    tasks = {task.name: task for task in history.tasks}
    jobs = {job.job_id: job for job in history.jobs}
    for end in history.ends:
        job = jobs.get(end.job_id)
        if job is None or not job.is_finished or job.state is not end.state:
            text = f"its end {end.state.name} was told, and it is {job and job.state.name}"
            yield Finding("results", str(end.job_id), text)
    for one in history.told:
        task = tasks.get(one.task)
        if task is None or task.state is not State.SUCCEEDED or task.result != one.result:
            text = f"{one.result!r} was told, and there is {task and (task.state, task.result)}"
            yield Finding("results", one.task, text)
    for asked in history.submitted:
        for index, wanted in enumerate(asked.results):
            task = tasks.get(f"{asked.job_id}.{index}")
            if task and task.state is State.SUCCEEDED and task.result != wanted:
                text = f"it returned {task.result!r}, not {wanted!r}"
                yield Finding("results", task.name, text)


def place_of(seen: Seen) -> tuple[int, int]:
    """Say how far along its life a task was; it only grows."""
    if seen.is_finished:
        return LAST
    return seen.attempt, RANK.get(seen.state, ENDED_RANK)


def check_linear(history: History) -> Iterator[Finding]:
    """Each task is as if it were one register: who asks later never sees an earlier state.

    Its states have one order, so it is enough to compare what was seen with what had been seen, or
    had happened, before the call. A body that has begun is a claim that had happened.
    """
    seen: defaultdict[str, list[Seen]] = defaultdict(list)
    for each in history.seen:
        seen[each.task].append(each)
    for mark in history.marks:
        if mark.task in seen and mark.kind == "start":
            fact = Seen(mark.task, mark.attempt, State.ASSIGNED, mark.at, mark.at)
            seen[mark.task].append(fact)
    at_last = max([history.ended_at, *(each.returned for each in history.seen)]) + 1
    for row in history.tasks:
        if row.name in seen:  # the tables are the last look
            look = Seen(row.name, row.attempt, row.state, at_last, at_last + 1, row.is_finished)
            seen[row.name].append(look)
    for task, own in seen.items():
        states = frozenset(each.state for each in own if each.is_finished)
        # Of one that was killed while it waited, a caller sees the attempt before.
        attempts = {each.attempt for each in own if each.state is State.SUCCEEDED}
        if len(states) > 1 or len(attempts) > 1:
            text = f"it was seen to have ended as {_names(states)}, in attempt {sorted(attempts)}"
            yield Finding("linear", task, text)
        for later in own:
            before = [each for each in own if each.returned < later.invoked]
            if not before or later.invoked == later.returned:
                continue
            last = max(before, key=place_of)
            if place_of(later) < place_of(last):
                text = (
                    f"asked at {later.invoked - history.began_at:.3f} it was {later.state.name} in "
                    f"attempt {later.attempt}, at {last.returned - history.began_at:.3f} it had "
                    f"been {last.state.name} in attempt {last.attempt}"
                )
                yield Finding("linear", task, text)


def check_progress(history: History) -> Iterator[Finding]:
    """Something broke; something was done while it did, and at the end of the run, too."""
    broke = [hit for hit in history.hits if not hit.has_missed]
    first = min((hit.began for hit in broke), default=history.healed_at)
    ends = [mark.at for mark in history.marks if mark.kind == "end"]
    if not broke:
        yield Finding("progress", "the run", "nothing has broken")
    elif not any(first < at < history.healed_at for at in ends):
        yield Finding("progress", "the run", "nothing has ended while things broke")
    if not any(at > history.healed_at for at in ends):
        yield Finding("progress", "the run", "nothing has ended once all was well again")
    if not any(task.state is State.SUCCEEDED for task in history.tasks):
        yield Finding("progress", "the run", "no task has succeeded")
    if history.has_schedule and not any(each.job_id is not None for each in history.firings):
        yield Finding("progress", "the run", "no instant of the schedule has fired")


def is_excused(excuses: list[Excuse], execution: Execution) -> bool:
    return any(
        excuse.worker in (None, execution.worker)
        and excuse.began <= execution.last
        and execution.began <= excuse.ended
        for excuse in excuses
    )


def _names(states: frozenset[State]) -> str:
    return " or ".join(sorted(state.name for state in states))
