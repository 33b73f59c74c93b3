"""What must hold within the ledger, by the specification: streams, counts, ends, what is left."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from chaos.checker.history import Event, Finding, History, State

PENDING, BUILDING, RUNNING, ASSIGNED = (
    State.PENDING,
    State.BUILDING,
    State.RUNNING,
    State.ASSIGNED,
)
FINAL = frozenset(State) - {PENDING, BUILDING, RUNNING, ASSIGNED}
# The specification's section 2, in the names of its events.
LEADS_TO = {
    "claimed": ASSIGNED, "placed": ASSIGNED, "building": BUILDING, "started": RUNNING,
    "succeeded": State.SUCCEEDED, "failed": State.FAILED, "killed": State.KILLED,
    "worker_failed": State.WORKER_FAILED, "retried": PENDING,
    "unschedulable": State.UNSCHEDULABLE, "dead_lettered": State.DEAD_LETTERED,
}  # fmt: skip
# What may happen to a job that has ended, and what only once to any.
AFTER_THE_END = frozenset({"compensated", "replayed"})
ONCE = ("submitted", "started", "compensated")
_ENDS = frozenset({State.FAILED, State.KILLED, State.WORKER_FAILED})
MAY_FOLLOW = {
    PENDING: {ASSIGNED, State.KILLED, State.UNSCHEDULABLE, State.DEAD_LETTERED},
    ASSIGNED: {BUILDING, RUNNING, *_ENDS},
    BUILDING: {RUNNING, *_ENDS},
    RUNNING: {State.SUCCEEDED, *_ENDS},
    State.FAILED: {PENDING, State.DEAD_LETTERED},
    State.WORKER_FAILED: {PENDING, State.DEAD_LETTERED},
    State.KILLED: {State.DEAD_LETTERED},
}


def list_streams(history: History) -> dict[tuple[int, int], list[Event]]:
    """Sort the events into streams, each in the order of its numbers."""
    streams = defaultdict(list)
    for event in history.events:
        streams[event.job_id, event.task_index].append(event)
    return {name: sorted(stream, key=lambda event: event.seq) for name, stream in streams.items()}


def check_streams(history: History) -> Iterator[Finding]:
    """Each stream counts 0, 1, 2 ..., in the order in which it was written."""
    for (job_id, index), stream in list_streams(history).items():
        subject = f"{job_id}.{index}" if index >= 0 else str(job_id)
        numbers = [event.seq for event in stream]
        if numbers != list(range(len(stream))):
            yield Finding("streams", subject, f"its events are numbered {numbers}")
        ids = [event.id for event in stream]
        if ids != sorted(ids):
            yield Finding("streams", subject, f"the ids {ids} do not grow with the numbers")


def check_moves(history: History) -> Iterator[Finding]:
    """Each event of a task is a legal move from the one before; an attempt begins and ends once."""
    for (job_id, index), stream in list_streams(history).items():
        if index < 0:
            continue
        state, attempt = PENDING, 0
        for event in stream:
            to = LEADS_TO.get(event.type)
            if to is None or to not in MAY_FOLLOW.get(state, set()):
                text = f"event {event.seq} is {event.type}, after {state.name}"
                yield Finding("moves", f"{job_id}.{index}", text)
                break
            wanted = attempt + 1 if to is PENDING else attempt
            if event.attempt != wanted:
                text = f"event {event.seq} is of attempt {event.attempt}, not {wanted}"
                yield Finding("moves", f"{job_id}.{index}", text)
                break
            state, attempt = to, event.attempt


def check_job_streams(history: History) -> Iterator[Finding]:
    """A job is submitted first, starts once at most, and ends once, as its row says."""
    streams = list_streams(history)
    for job in history.jobs:
        types = [event.type for event in streams.get((job.job_id, -1), [])]
        ends = [each for each in types if LEADS_TO.get(each) in FINAL]
        wanted = [job.state] if job.is_finished else []
        after = types[types.index(ends[0]) + 1 :] if ends else []
        if [LEADS_TO[each] for each in ends] != wanted or set(after) - AFTER_THE_END:
            text = f"it is {job.state.name}, and its events are {types}"
            yield Finding("moves", str(job.job_id), text)
        elif types and (types[0] != "submitted" or max(map(types.count, ONCE)) > 1):
            yield Finding("moves", str(job.job_id), f"its events are {types}")


def check_cancels(history: History) -> Iterator[Finding]:
    """Once a job has been asked to end, none of its tasks is given out or tried again."""
    asked: dict[int, int] = {}
    for event in sorted(history.events, key=lambda event: event.id):
        if event.task_index < 0 and event.type == "cancel_requested":
            asked.setdefault(event.job_id, event.id)
        elif event.job_id in asked and LEADS_TO.get(event.type) in (ASSIGNED, PENDING):
            text = f"it was {event.type} after its job was asked to end"
            yield Finding("cancels", f"{event.job_id}.{event.task_index}", text)


def check_rows(history: History) -> Iterator[Finding]:
    """A task is where its last event led, and an attempt ended as its event says."""
    streams = list_streams(history)
    for task in history.tasks:
        stream = streams.get((task.job_id, task.task_index), [])
        state, attempt = PENDING, 0
        if stream:
            state, attempt = LEADS_TO.get(stream[-1].type, PENDING), stream[-1].attempt
        if (task.state, task.attempt) != (state, attempt):
            text = f"it is {task.state.name} in attempt {task.attempt}; its last event says "
            yield Finding("rows", task.name, f"{text}{state.name} in attempt {attempt}")
    known = {(task.job_id, task.task_index) for task in history.tasks}
    for job_id, index in streams.keys() - known:
        if index >= 0:
            yield Finding("rows", f"{job_id}.{index}", "it has events, and is not there")
    for row in history.attempts:
        stream = streams.get((row.job_id, row.task_index), [])
        ends = [
            LEADS_TO[event.type]
            for event in stream
            if event.attempt == row.attempt and LEADS_TO.get(event.type) in _ENDS | {State(4)}
        ]
        if ends != [row.state]:
            subject = f"{row.job_id}.{row.task_index}"
            told = [end.name for end in ends]
            text = f"attempt {row.attempt} ended {row.state.name}; its events say {told}"
            yield Finding("rows", subject, text)
    there = {row[:3] for row in (*history.attempts, *history.leases)}
    for (job_id, index), stream in streams.items():
        for event in stream:
            is_given = LEADS_TO.get(event.type) is ASSIGNED
            if is_given and (job_id, index, event.attempt) not in there:
                text = f"attempt {event.attempt} was given out, and no row tells of it"
                yield Finding("rows", f"{job_id}.{index}", text)


def check_counts(history: History) -> Iterator[Finding]:
    """A job counts its tasks as they are, and has ended when all of them have."""
    states: defaultdict[int, Counter[State]] = defaultdict(Counter)
    for task in history.tasks:
        states[task.job_id][task.state] += 1
    for job in history.jobs:
        counted = {state: count for state, count in job.counts.items() if count}
        if counted != states[job.job_id] or sum(counted.values()) != job.num_tasks:
            text = f"of {job.num_tasks} tasks it counts {_name(counted)}, and there are "
            yield Finding("counts", str(job.job_id), text + _name(states[job.job_id]))
        is_over = all(state in FINAL for state in states[job.job_id])
        if is_over and not job.is_finished:
            yield Finding("counts", str(job.job_id), "all its tasks have ended, and it has not")
        if job.state is State.SUCCEEDED and set(states[job.job_id]) != {State.SUCCEEDED}:
            text = f"it succeeded with {_name(states[job.job_id])}"
            yield Finding("counts", str(job.job_id), text)


def check_nothing_is_left(history: History) -> Iterator[Finding]:
    """What has ended holds no lease, slot, device or room, and stands in no line."""
    live = {(t.job_id, t.task_index) for t in history.tasks if not t.is_finished}
    for lease in history.leases:
        if (lease.job_id, lease.task_index) not in live:
            text = f"attempt {lease.attempt} is not released by {lease.worker}"
            yield Finding("left", f"{lease.job_id}.{lease.task_index}", f"{text}; it has ended")
    if not live:
        for table, rows in history.left.items():
            if rows:
                yield Finding("left", table, f"{rows} rows, and nothing is left to do")
    for row in history.attempts:
        holds = any(lease[:3] == row[:3] for lease in history.leases)
        if not row.is_released and not holds:
            text = f"attempt {row.attempt} is not released, and has no lease"
            yield Finding("left", f"{row.job_id}.{row.task_index}", text)


def _name(counts: "dict[State, int] | Counter[State]") -> str:
    return ", ".join(f"{count} {state.name}" for state, count in sorted(counts.items()) if count)
