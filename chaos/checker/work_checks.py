"""What must hold of the work itself, by the record that it has kept and by what callers saw."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from chaos.checker.history import Excuse, Finding, History, Mark, Seen, State

# How far each state of an attempt is.
RANK = {State.PENDING: 0, State.ASSIGNED: 1, State.BUILDING: 2, State.RUNNING: 3}
ENDED_RANK = 4
LAST = (1 << 31, 0)
# How the work names what undoes a step: this, the saga, a colon and the step's number.
UNDO = "undo-"


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


def check_one_start(history: History) -> Iterator[Finding]:
    """An attempt begins once."""
    starts = Counter((mark.task, mark.attempt) for mark in history.marks if mark.kind == "start")
    for (task, attempt), count in starts.items():
        if count > 1:
            yield Finding("starts", task, f"attempt {attempt} has begun {count} times")


def check_overlaps(history: History) -> Iterator[Finding]:
    """Two attempts of a task never live at once, unless something broke that no lease stands."""
    by_task: defaultdict[str, list[Execution]] = defaultdict(list)
    for execution in list_executions(history):
        by_task[execution.task].append(execution)
    for task, executions in by_task.items():
        for number, earlier in enumerate(executions):
            for later in executions[number + 1 :]:
                if later.began <= earlier.last and not _is_excused(history.excuses, earlier):
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
    for one in history.told:
        task = tasks.get(one.task)
        if task is None or task.state is not State.SUCCEEDED or task.result != one.result:
            text = f"{one.result!r} was told, and there is {task and (task.state, task.result)}"
            yield Finding("results", one.task, text)
    for job in history.submitted:
        for index, wanted in enumerate(job.results):
            task = tasks.get(f"{job.job_id}.{index}")
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
    for task, own in seen.items():
        ends = {each.state for each in own if each.is_finished}
        if len(ends) > 1:
            yield Finding("linear", task, f"it was seen to have ended as {_names(frozenset(ends))}")
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


def check_limits(history: History) -> Iterator[Finding]:
    """Of no key live more executions at once than may."""
    by_key: defaultdict[str, list[Execution]] = defaultdict(list)
    for execution in list_executions(history):
        if execution.key is not None and not _is_excused(history.excuses, execution):
            by_key[execution.key].append(execution)
    for key, executions in by_key.items():
        most = next((n for name, n in history.most.items() if key.startswith(name)), None)
        if most is None:
            continue
        for one in executions:
            at_once = [each for each in executions if each.began <= one.began <= each.last]
            if len(at_once) > most:
                names = sorted(f"{each.task}.{each.attempt}" for each in at_once)
                yield Finding("limits", one.task, f"{names} of {key} lived at once; {most} may")
    for key, held in history.held.items():
        most = next((n for name, n in history.most.items() if key.startswith(name)), None)
        if most is not None and held > most:
            yield Finding("limits", key, f"{held} slots were held at once; {most} may")


def check_schedules(history: History) -> Iterator[Finding]:
    """No instant has fired twice, and no job was fired by two."""
    instants = Counter((firing.schedule, firing.instant) for firing in history.firings)
    jobs = Counter(firing.job_id for firing in history.firings if firing.job_id is not None)
    for (schedule, instant), count in instants.items():
        if count > 1:
            yield Finding("schedules", schedule, f"{instant} has fired {count} times")
    for job_id, count in jobs.items():
        if count > 1:
            yield Finding("schedules", str(job_id), f"{count} instants have come to it")


def check_datasets(history: History) -> Iterator[Finding]:
    """A task has committed its part once if it has succeeded, and else nothing."""
    committed = Counter(entry.task for entry in history.entries)
    writers = {one.job_id for one in history.submitted if one.kind == "stored"}
    for task in history.tasks:
        wanted = int(task.job_id in writers and task.state is State.SUCCEEDED)
        if committed[task.name] != wanted:
            text = f"it is {task.state.name}, and has committed {committed[task.name]} parts"
            yield Finding("datasets", task.name, text)


def check_sagas(history: History) -> Iterator[Finding]:
    """Every step of a saga that failed is undone, once, and before those that came before it."""
    undoing = Counter(job.compensates for job in history.jobs if job.compensates is not None)
    for job_id, count in undoing.items():
        if count > 1:
            yield Finding("sagas", str(job_id), f"it was undone {count} times")
    began = {mark.task.partition(".")[0] for mark in history.marks}
    for one in history.submitted:
        if one.kind == "saga" and str(one.job_id) in began and not undoing[one.job_id]:
            yield Finding("sagas", str(one.job_id), "its saga failed, and it was not undone")
    undos: defaultdict[str, list[tuple[int, Execution]]] = defaultdict(list)
    for execution in list_executions(history):
        if (execution.key or "").startswith(UNDO) and not _is_excused(history.excuses, execution):
            saga, _, step = (execution.key or "").rpartition(":")
            undos[saga].append((int(step), execution))
    for saga, own in undos.items():
        for step_of_later, later in own:
            for step_of_earlier, earlier in own:
                if step_of_earlier > step_of_later and later.began <= earlier.last:
                    text = f"step {step_of_later} was undone before step {step_of_earlier} was"
                    yield Finding("sagas", later.task, f"{text}: {saga}")


def check_progress(history: History) -> Iterator[Finding]:
    """Something was done while things broke, and at the end of the run, too."""
    during = [mark for mark in history.marks if mark.kind == "end" and mark.at < history.healed_at]
    at_last = [mark for mark in history.marks if mark.kind == "end" and mark.at > history.healed_at]
    if not during:
        yield Finding("progress", "the run", "nothing has ended while things broke")
    if not at_last:
        yield Finding("progress", "the run", "nothing has ended once all was well again")
    if not any(task.state is State.SUCCEEDED for task in history.tasks):
        yield Finding("progress", "the run", "no task has succeeded")


def _is_excused(excuses: list[Excuse], execution: Execution) -> bool:
    return any(
        excuse.worker in (None, execution.worker)
        and excuse.began <= execution.last
        and execution.began <= excuse.ended
        for excuse in excuses
    )


def _names(states: frozenset[State]) -> str:
    return " or ".join(sorted(state.name for state in states))
