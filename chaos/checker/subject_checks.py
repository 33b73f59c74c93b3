"""What must hold of limits, order, schedules, datasets, sagas and gangs, by record and tables."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator

from chaos.checker.history import Finding, History, State
from chaos.checker.work_checks import Execution, find_ends, is_excused, list_executions

# How the work names what undoes a step: this, the saga, a colon and the step's number.
UNDO = "undo-"


def check_limits(history: History) -> Iterator[Finding]:
    """Of no key live more executions at once than may."""
    by_key: defaultdict[str, list[Execution]] = defaultdict(list)
    for execution in list_executions(history):
        if execution.key is not None and not is_excused(history.excuses, execution):
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


def check_acknowledged_cancels(history: History) -> Iterator[Finding]:
    """A job whose cancel was acknowledged has heard of it, or had ended before."""
    heard = {event.job_id for event in history.events if event.type == "cancel_requested"}
    last: defaultdict[int, float] = defaultdict(float)
    for task, at in find_ends(history).items():
        job_id = int(task.partition(".")[0])
        last[job_id] = max(last[job_id], at)
    for job_id, at in history.cancels:
        if job_id not in heard and last[job_id] > at:
            text = f"its cancel was acknowledged at {at - history.began_at:.3f}, and it went on"
            yield Finding("cancels", str(job_id), text)


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
    ends = find_ends(history)
    undos: defaultdict[str, dict[int, Execution]] = defaultdict(dict)
    for execution in list_executions(history):
        if execution.key is not None and execution.key.startswith(UNDO):
            saga, _, step = execution.key.rpartition(":")
            first = undos[saga].setdefault(int(step), execution)
            undos[saga][int(step)] = min(first, execution, key=lambda each: each.began)
    for saga, own in undos.items():
        for step_of_later, later in own.items():
            for step_of_earlier, earlier in own.items():
                ended = ends.get(earlier.task, math.inf)
                if step_of_earlier > step_of_later and later.began <= ended:
                    text = f"step {step_of_later} was undone before step {step_of_earlier} was"
                    yield Finding("sagas", later.task, f"{text}, by {earlier.task}: {saga}")


def check_order(history: History) -> Iterator[Finding]:
    """What waits for other jobs begins when these have succeeded; a chain goes by its ids."""
    ends: defaultdict[int, float] = defaultdict(float)
    done = find_ends(history)
    for task in history.tasks:
        ends[task.job_id] = max(ends[task.job_id], done.get(task.name, math.inf))
    begins: dict[int, Execution] = {}
    for each in sorted(list_executions(history), key=lambda each: each.began):
        begins.setdefault(int(each.task.partition(".")[0]), each)
    chain = sorted(job_id for job_id, each in begins.items() if each.key == "chain")
    pairs = [(one.job_id, before) for one in history.submitted for before in one.after]
    for job_id, before in [*pairs, *zip(chain[1:], chain, strict=False)]:
        began = begins.get(job_id)
        if began is not None and began.began <= ends[before]:
            text = f"it began before job {before}, for which it waits, was done"
            yield Finding("order", began.task, text)


def check_gangs(history: History) -> Iterator[Finding]:
    """Of a job whose tasks are placed together, each round is placed by one transaction.

    Who has succeeded stays out of the rounds that come after.
    """
    gangs = {one.job_id for one in history.submitted if one.kind == "gang"}
    rounds: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
    members: Counter[tuple[int, int]] = Counter()
    leaving: Counter[tuple[int, int]] = Counter()
    for event in history.events:
        if event.job_id in gangs and event.type == "placed":
            rounds[event.job_id, event.attempt].add(event.txid)
            members[event.job_id, event.attempt] += 1
        elif event.job_id in gangs and event.type == "succeeded" and event.task_index >= 0:
            leaving[event.job_id, event.attempt] += 1
    sizes = {job.job_id: job.num_tasks for job in history.jobs}
    for (job_id, attempt), transactions in rounds.items():
        gone = sum(leaving[job_id, earlier] for earlier in range(attempt))
        wanted = sizes.get(job_id, 0) - gone
        if len(transactions) > 1 or members[job_id, attempt] != wanted:
            text = f"round {attempt} was placed by {len(transactions)} transactions, "
            text += f"{members[job_id, attempt]} of {wanted} members"
            yield Finding("gangs", str(job_id), text)
