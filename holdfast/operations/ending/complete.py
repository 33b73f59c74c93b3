"""Take a worker's word that an attempt has ended, once, from whoever holds the lease."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import NamedTuple

from holdfast.errors import Invalid, LeaseConflict, Refused, TooLarge
from holdfast.ledger.keys import RequestKey, write_once
from holdfast.ledger.ledger import Ledger
from holdfast.ledger.moves import Moves, apply_moves
from holdfast.model.datasets import OutputEntry
from holdfast.model.submitting.spec import Limits, TaskTerms
from holdfast.model.work.attempts import LockedLease
from holdfast.model.work.fence import Fence, check_fence
from holdfast.model.work.ids import TaskId
from holdfast.model.work.outcomes import PUT_OFF_MS_MAX, STAGES, STATUSES, PutOff, Stage, Status
from holdfast.model.work.states import TaskState
from holdfast.operations.claiming.turn import take_turns
from holdfast.operations.datasets.commit_outputs import Commit, commit_outputs
from holdfast.operations.ending.attempts import add_siblings, end_locked
from holdfast.operations.ending.reap import read_outage
from holdfast.operations.notes import Note, add_notes, as_user_event, check_note
from holdfast.operations.report import start
from holdfast.rules.commits import check_entries
from holdfast.rules.ending import Judged, end_reported
from holdfast.rules.retry import LOSSES_IN_A_ROW_MAX
from holdfast.rules.submitting.submission import check_json, check_text
from holdfast.store.database import Transaction
from holdfast.store.tables.work.attempts import (
    Success,
    find_ended_attempts,
    list_last_error_classes,
    succeed_attempts,
)
from holdfast.store.tables.work.signals import list_asked
from holdfast.store.tables.work.tasks import NO_TIME, lock_tasks

_BEFORE_USER_CODE = ("fetch", "input")
_EXIT_CODE_MAX = 2**31 - 1
OUTPUTS_PER_WRITE_MAX = 20_000


class Completion(NamedTuple):
    """A worker says how its attempt ended, and that its process is gone."""

    fence: Fence
    status: Status
    exit_code: int | None = None
    error: str | None = None
    error_class: str | None = None
    stage: Stage | None = None
    result: str | None = None
    events: tuple[Note, ...] = ()
    # What the worker says of an earlier report; it only decides what is tried first.
    start_reported: bool = True
    # Committed with the success, or not at all.
    outputs: tuple[OutputEntry, ...] = ()
    # For how long it ran, by the worker's own clock.
    run: timedelta = NO_TIME
    # Of a failure: when to try again.
    put_off: PutOff | None = None


class Completed(NamedTuple):
    """Not accepted: the attempt had been ended before; the report only confirms that it is gone."""

    task_id: TaskId
    accepted: bool


Answer = Completed | Refused


class _KeptAnswer(NamedTuple):
    """What one completion was answered, as it is kept under a request's key: one of the three."""

    accepted: bool | None = None
    conflict: str | None = None
    # Of outputs that were refused: the field, and what is wrong with it.
    unfit: tuple[str, str] | None = None


async def complete(
    ledger: Ledger, completions: Sequence[Completion], keyed: RequestKey | None = None
) -> list[Answer]:
    """Record how attempts ended. A repeat with the same token is answered as the first time."""
    refused, ordered = sort_out(completions, ledger.limits)
    if keyed is not None and ordered:
        count = sum(len(item.outputs) for item in ordered)
        if count > OUTPUTS_PER_WRITE_MAX:  # one key, one transaction
            raise TooLarge("outputs", count, OUTPUTS_PER_WRITE_MAX, unit="entries under one key")
        kept = await write_once(ledger, keyed, _complete_once, ordered, returns=list[_KeptAnswer])
        answers = {
            item.fence: _restore(item.fence.task_id, answer)
            for item, answer in zip(ordered, kept, strict=True)
        }
    else:
        plain = [item for item in ordered if is_plain(item)]
        recorded = await _succeed_at_once(ledger, plain) if plain else set()
        answers = {fence: Completed(fence.task_id, accepted=True) for fence in recorded}
        for part in _part([item for item in ordered if item.fence not in answers]):
            answers |= await ledger.write(_complete, part)
    return [
        refusal if refusal is not None else answers[item.fence]
        for item, refusal in zip(completions, refused, strict=True)
    ]


def is_plain(item: Completion) -> bool:
    """Tell whether an attempt ended as most do: nothing is to be decided, or written beside.

    Whether its start is recorded, as its worker believes, the statement that ends it will see.
    """
    return (
        item.status == "succeeded" and item.start_reported and not item.outputs and not item.events
    )


async def _succeed_at_once(ledger: Ledger, plain: list[Completion]) -> set[Fence]:
    """Record plain successes; what is not among those returned has to go on."""
    successes = [Success(item.fence, item.result) for item in plain]
    recorded = (await take_turns(ledger, successes, [])).recorded
    return {item.fence for item, done in zip(plain, recorded, strict=True) if done}


def sort_out(
    completions: Sequence[Completion], limits: Limits
) -> tuple[list[Refused | None], list[Completion]]:
    """Tell what is wrong with each, and list the others in their order.

    One statement cannot move a row twice, so duplicates in a batch are folded into one.
    """
    refused = [_check(item, limits) for item in completions]
    if len({item.fence.task_id for item in completions}) == len(completions):  # as mostly
        pairs = zip(completions, refused, strict=True)
        return refused, [item for item, refusal in pairs if refusal is None]
    good = {
        item.fence: item
        for item, refusal in zip(reversed(completions), reversed(refused), strict=True)
        if refusal is None
    }
    return refused, list(good.values())[::-1]


async def _complete_once(
    ledger: Ledger, tx: Transaction, completions: list[Completion]
) -> list[_KeptAnswer]:
    answers = await _complete(ledger, tx, completions)
    return [_keep(answers[item.fence]) for item in completions]


def _keep(answer: Answer) -> _KeptAnswer:
    if isinstance(answer, Completed):
        return _KeptAnswer(accepted=answer.accepted)
    if isinstance(answer, Invalid):
        return _KeptAnswer(unfit=(answer.field, answer.problem))
    assert isinstance(answer, LeaseConflict), "a checked completion was refused otherwise"
    return _KeptAnswer(conflict=answer.reason)


def _restore(task_id: TaskId, kept: _KeptAnswer) -> Answer:
    if kept.unfit is not None:
        return Invalid(*kept.unfit)
    if kept.accepted is None:
        return LeaseConflict(task_id, kept.conflict or "")
    return Completed(task_id, kept.accepted)


def _part(items: list[Completion]) -> Iterator[list[Completion]]:
    """Part completions so that no transaction commits too many outputs; most have none."""
    part: list[Completion] = []
    count = 0
    for item in items:
        if part and item.outputs and count + len(item.outputs) > OUTPUTS_PER_WRITE_MAX:
            yield part
            part, count = [], 0
        part.append(item)
        count += len(item.outputs)
    if part:
        yield part


async def _complete(
    ledger: Ledger, tx: Transaction, completions: list[Completion]
) -> dict[Fence, Answer]:
    moves = Moves()
    answers = await end_reported_attempts(ledger, tx, completions, moves=moves)
    await apply_moves(tx, moves)
    return answers


async def end_reported_attempts(
    ledger: Ledger, tx: Transaction, completions: list[Completion], *, moves: Moves
) -> dict[Fence, Answer]:
    """Write how attempts ended; the moves are left to be counted at the end of the transaction."""
    succeeded = [item for item in completions if item.status == "succeeded"]
    commits = [Commit(item.fence, item.outputs) for item in succeeded if item.outputs]
    if len(succeeded) < len(completions) or commits:
        # More than one statement follows; tasks are locked once, all together and in order.
        await lock_tasks(tx, await _list_touched(ledger, tx, completions))
    refused = await commit_outputs(tx, commits) if commits else {}
    if refused:  # nothing happens to these
        completions = [item for item in completions if item.fence not in refused]
        succeeded = [item for item in succeeded if item.fence not in refused]
    if not all(item.start_reported for item in succeeded):
        # This locks them all, started or not, so that the next statement finds them locked.
        unknown = {item.fence for item in succeeded}
        await start(tx, unknown, TaskState.RUNNING, moves=moves, runs=_list_runs(succeeded))
    answers: dict[Fence, Answer] = {**refused, **await _succeed(tx, succeeded, moves)}
    await ledger.specs.load(tx, {item.fence.task_id.job_id for item in completions})
    left = [item for item in completions if item.fence not in answers]
    if left:
        answers |= await _end(ledger, tx, left, moves=moves)
    await add_notes(
        tx,
        [
            (item.fence.task_id, item.fence.attempt, as_user_event(event))
            for item in completions
            for event in item.events
            if answers.get(item.fence) == Completed(item.fence.task_id, accepted=True)
        ],
    )
    return answers | await _recall(tx, [item for item in completions if item.fence not in answers])


async def _succeed(
    tx: Transaction, items: list[Completion], moves: Moves
) -> dict[Fence, Completed]:
    """End attempts whose lease is live and whose code ran and succeeded: nothing to decide."""
    if not items:
        return {}
    ended = await succeed_attempts(tx, [Success(item.fence, item.result) for item in items])
    done = [items[position - 1] for position in ended.positions or ()]
    for item, ran, worker_id in zip(done, ended.seconds or (), ended.worker_ids or (), strict=True):
        moves.add(item.fence.task_id.job_id, TaskState.RUNNING, TaskState.SUCCEEDED)
        tx.news.runs.append((item.fence.task_id.job_id, ran))
        tx.news.ends[worker_id, TaskState.SUCCEEDED] += 1
    tx.news.add_all_opened(ended.opened_queues, ended.opened_job_ids, ended.opened_indexes)
    return {item.fence: Completed(item.fence.task_id, accepted=True) for item in done}


async def _end(
    ledger: Ledger, tx: Transaction, items: list[Completion], *, moves: Moves
) -> dict[Fence, Answer]:
    """End live leases otherwise, and release ending ones; strangers are left unanswered."""
    # A completion without a reported start records the start first.
    begun = {item.fence for item in items if _has_run(item)}
    await start(tx, begun, TaskState.RUNNING, moves=moves, runs=_list_runs(items))
    # Of those that had started already, the start may have been on its way to the ledger: they are
    # locked now, and can be seen as they are.
    late = [item for item in items if item.status == "succeeded"]
    answers: dict[Fence, Answer] = dict(await _succeed(tx, late, moves))
    left = {item.fence: item for item in items if item.fence not in answers}
    if not left:
        return answers
    is_loss = any(item.status == "worker_failed" for item in left.values())
    outage = await read_outage(tx) if is_loss else None
    unbuilt = [
        item.fence.task_id for item in left.values() if item.error_class in LOSSES_IN_A_ROW_MAX
    ]
    count_max = max(LOSSES_IN_A_ROW_MAX.values()) - 1
    earlier = await list_last_error_classes(tx, unbuilt, count_max) if unbuilt else {}
    waiting = [fence[:2] for fence, item in left.items() if item.status == "waiting"]
    asked = await list_asked(tx, waiting) if waiting else {}

    def judge(lease: LockedLease, _: TaskTerms) -> Judged:
        item = left.get(lease.fence)
        if item is None:
            return None
        return end_reported(
            lease,
            item.status,
            exit_code=item.exit_code,
            error=item.error,
            error_class=item.error_class,
            stage=item.stage,
            outage=outage,
            earlier=earlier.get(lease.fence.task_id, ()),
            put_off=item.put_off,
            asked=asked.get(lease.fence.task_id),
        )

    touched = await _list_touched(ledger, tx, list(left.values()))
    locked = await lock_tasks(tx, touched)
    # In the order of the reports: the first error is the job's.
    tasks = {task_id: locked[task_id] for task_id in touched if task_id in locked}
    ends, released = await end_locked(ledger, tx, tasks, judge=judge, moves=moves)
    accepted = {fence: Completed(fence.task_id, accepted=True) for fence in ends.keys() & left}
    too_late = {fence: Completed(fence.task_id, accepted=False) for fence in released}
    return answers | accepted | too_late


async def _list_touched(ledger: Ledger, tx: Transaction, items: list[Completion]) -> list[TaskId]:
    """List the tasks to lock: success is a member's own, any other end concerns its whole gang."""
    others = [item.fence.task_id for item in items if item.status != "succeeded"]
    return [*map(_task_id_of, items), *await add_siblings(ledger, tx, others)]


async def _recall(tx: Transaction, items: list[Completion]) -> dict[Fence, Answer]:
    """Answer a repeated report as the first time; another story, or a stranger's, is a conflict."""
    if not items:
        return {}
    states = await find_ended_attempts(tx, [item.fence for item in items])
    succeeded = {fence: state == TaskState.SUCCEEDED for fence, state in states.items()}
    return {
        item.fence: Completed(item.fence.task_id, accepted=True)
        if succeeded.get(item.fence) == (item.status == "succeeded")
        else LeaseConflict(item.fence.task_id, "this attempt no longer holds the lease")
        for item in items
    }


def _list_runs(items: Sequence[Completion]) -> dict[Fence, timedelta]:
    return {item.fence: item.run for item in items}


def _task_id_of(item: Completion) -> TaskId:
    return item.fence.task_id


def _has_run(item: Completion) -> bool:
    """Tell whether user code had started, from what the worker says of the end."""
    if item.status == "failed":
        return item.stage not in _BEFORE_USER_CODE
    return item.status in ("succeeded", "waiting")


def _check_exit_code(exit_code: int) -> None:
    if type(exit_code) is not int or abs(exit_code) > _EXIT_CODE_MAX:
        raise Invalid("exit_code", f"{exit_code!r} is not an exit code; send a whole number")


def _check_put_off(item: Completion) -> None:
    assert item.put_off is not None
    if item.status != "failed":
        raise Invalid("put_off", "goes with status failed only")
    if not 0 <= item.put_off.after_ms <= PUT_OFF_MS_MAX:
        raise Invalid("put_off.after_ms", f"is out of range; use 0 to {PUT_OFF_MS_MAX}")


def _check(item: Completion, limits: Limits) -> Refused | None:
    try:
        check_fence(item.fence)
        if item.status not in STATUSES:
            raise Invalid("status", f"{item.status!r} is unknown; use one of {', '.join(STATUSES)}")
        if item.stage is not None and item.stage not in STAGES:
            raise Invalid("stage", f"{item.stage!r} is unknown; use one of {', '.join(STAGES)}")
        if item.exit_code is not None:
            _check_exit_code(item.exit_code)
        if item.status == "succeeded" and item.exit_code:
            raise Invalid("exit_code", f"is {item.exit_code}, but succeeded means 0; report failed")
        if item.error is not None:
            check_text("error", item.error, limits.error_length_max)
        if item.error_class is not None:
            check_text("error_class", item.error_class, limits.text_length_max)
        if item.result is not None:
            if item.status != "succeeded":
                raise Invalid("result", "goes with status succeeded only")
            check_json("result", item.result, limits.result_bytes_max)
        if item.put_off is not None:
            _check_put_off(item)
        for note in item.events:
            check_note(note, limits)
        if item.outputs:
            if item.status != "succeeded":
                raise Invalid("outputs", "go with status succeeded only")
            check_entries(item.outputs)
    except Refused as refused:
        return refused
    return None
