"""Dead letters: put there by an operator, replayed as a new job, discarded."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from holdfast.errors import IllegalMove, Invalid, NotFound
from holdfast.ledger.keys import RequestKey, recall, request_key, wait_turn, write_once
from holdfast.ledger.ledger import Ledger
from holdfast.ledger.moves import Moves, apply_moves
from holdfast.model.ids import TaskId, check_task_id
from holdfast.model.outcomes import Killed
from holdfast.model.spec import Submission
from holdfast.model.states import OPEN_STATES, TaskState
from holdfast.operations.ending.attempts import end_locked
from holdfast.operations.submitting.admit import Admitted, admit
from holdfast.operations.submitting.resubmission import describe_again, note_replay
from holdfast.operations.submitting.store import Submitted, store_jobs
from holdfast.rules.ending import AttemptEnd
from holdfast.rules.submission import check_text, complete_submission
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements
from holdfast.store.tables.columns import id_columns
from holdfast.store.tables.dead_letters import NewDeadLetter, dead_letter_tasks
from holdfast.store.tables.jobs import read_job_flags
from holdfast.store.tables.tasks import lock_tasks

_DEAD = load_statements("dead_letters")
IDS_MAX = 10_000


async def dead_letter_task(
    ledger: Ledger,
    task_id: TaskId,
    *,
    actor: str,
    reason: str = "dead-lettered by an operator",
    idempotency_key: str | None = None,
) -> None:
    """Move a task that has not finished to the dead letters, with reason policy_violation."""
    check_task_id(task_id)
    check_text("actor", actor, 256)
    check_text("reason", reason, 1024)
    keyed = request_key("dead-letter", actor, idempotency_key, request=[task_id, reason])
    await write_once(ledger, keyed, _dead_letter, task_id, returns=bool, actor=actor, reason=reason)


async def _dead_letter(
    ledger: Ledger, tx: Transaction, task_id: TaskId, *, actor: str, reason: str
) -> bool:
    tasks = await lock_tasks(tx, [task_id])
    if not tasks or not await read_job_flags(tx, [task_id.job_id]):
        raise NotFound("task", task_id)
    task = tasks[task_id]
    moves = Moves()
    if task.state in OPEN_STATES:
        # The attempt ends as KILLED, its lease as ending; then the task goes where it was sent.
        end = AttemptEnd(Killed(reason), actor=actor, released=False, is_dead_letter=True)
        ended = await end_locked(ledger, tx, tasks, judge=lambda *_: end, moves=moves)
        assert ended.ends, "an open task has no lease"
    elif task.state == TaskState.PENDING:
        await dead_letter_tasks(tx, [NewDeadLetter(task_id, "policy_violation", actor, reason)])
        moves.add(task_id.job_id, TaskState.PENDING, TaskState.DEAD_LETTERED)
    else:
        raise IllegalMove(f"task {task_id}", TaskState(task.state).name, "dead-letter")
    moves.add_error(task_id.job_id, reason)
    await apply_moves(tx, moves)
    return True


@dataclass(frozen=True, slots=True)
class Replay:
    """Dead letters of one job, and the new job that runs them again (None in a dry run)."""

    replay_of: int
    task_ids: tuple[TaskId, ...]
    job_id: int | None


async def replay(
    ledger: Ledger,
    task_ids: Sequence[TaskId],
    *,
    actor: str,
    dry_run: bool = False,
    keyed: RequestKey | None = None,
    rebind: bool = False,
) -> list[Replay]:
    """Submit dead letters again: a new job for each job they came from, linked to it.

    With inputs, the new job has the dead inputs; replicas belong together and run again as a whole.
    If it may rebind, it writes the newest open version where the one that was named is sealed.
    """
    _check_ids(task_ids)
    check_text("actor", actor, 256)
    if dry_run:
        return [replayed for replayed, _ in await _plan_replays(ledger, task_ids, rebind=rebind)]
    again = partial(_replay, ledger, task_ids, actor=actor, keyed=keyed, rebind=rebind)
    return await again() if keyed is None else await wait_turn(keyed, again)


async def _replay(
    ledger: Ledger,
    task_ids: Sequence[TaskId],
    *,
    actor: str,
    keyed: RequestKey | None,
    rebind: bool,
) -> list[Replay]:
    first = await recall(ledger, keyed, list[Replay])
    if first is not None:
        return first
    plan = await _plan_replays(ledger, task_ids, only_open=keyed is None, rebind=rebind)
    jobs = await admit(ledger, [submission for _, submission in plan])
    return await write_once(
        ledger, keyed, _store_replays, plan, jobs=jobs, returns=list[Replay], actor=actor
    )


async def _plan_replays(
    ledger: Ledger, task_ids: Sequence[TaskId], *, only_open: bool = True, rebind: bool
) -> list[tuple[Replay, Submission]]:
    """Describe the new jobs.

    Under a key, letters that are settled are left to the transaction that takes it: the same
    request may have settled them.
    """
    async with ledger.database.transaction() as tx:
        letters = await _lock_letters(tx, task_ids, "replay", only_open=only_open)
        job_ids = {task_id.job_id for task_id in letters}
        again = await describe_again(ledger, tx, job_ids, rebind=rebind)
    inputs: dict[int, list[tuple[TaskId, str | None]]] = defaultdict(list)
    for task_id, text in letters.items():
        inputs[task_id.job_id].append((task_id, text))
    return [
        (
            Replay(job_id, tuple(task_id for task_id, _ in group), None),
            complete_submission(
                again[job_id].submission(tuple(text or "null" for _, text in group)),
                ledger.limits,
            ),
        )
        for job_id, group in sorted(inputs.items())
    ]


async def _store_replays(
    _: Ledger,
    tx: Transaction,
    plan: list[tuple[Replay, Submission]],
    *,
    jobs: list[Admitted],
    actor: str,
) -> list[Replay]:
    # Locked and checked again: somebody may have replayed or discarded them meanwhile.
    await _lock_letters(tx, [t for replayed, _ in plan for t in replayed.task_ids], "replay")
    answers = await store_jobs(tx, jobs)
    replays = []
    for (replayed, _submission), answer in zip(plan, answers, strict=True):
        if not isinstance(answer, Submitted):  # a job whose result it needs is gone
            raise answer
        await tx.fetch(
            _DEAD["mark_replayed"],
            **id_columns(replayed.task_ids),
            replayed_as=[answer.job_id] * len(replayed.task_ids),
        )
        await note_replay(tx, replayed.replay_of, answer.job_id, actor=actor)
        replays.append(Replay(replayed.replay_of, replayed.task_ids, answer.job_id))
    return replays


async def discard(
    ledger: Ledger,
    task_ids: Sequence[TaskId],
    *,
    actor: str,
    idempotency_key: str | None = None,
) -> None:
    """Decide that dead letters need nothing more; they stay readable until retention."""
    _check_ids(task_ids)
    check_text("actor", actor, 256)
    keyed = request_key("discard", actor, idempotency_key, request=sorted(task_ids))
    await write_once(ledger, keyed, _discard, task_ids, returns=bool, actor=actor)


async def _discard(_: Ledger, tx: Transaction, task_ids: Sequence[TaskId], *, actor: str) -> bool:
    await _lock_letters(tx, task_ids, "discard")
    await tx.fetch(_DEAD["mark_discarded"], **id_columns(task_ids), actor=actor)
    return True


async def _lock_letters(
    tx: Transaction, task_ids: Sequence[TaskId], request: str, *, only_open: bool = True
) -> dict[TaskId, str | None]:
    """Lock dead letters and read their inputs; settled ones are refused unless asked for."""
    rows = await tx.fetch(_DEAD["lock_dead_letters"], **id_columns(sorted(task_ids)))
    found = {TaskId(row[0], row[1]): row for row in rows}
    for task_id in task_ids:
        row = found.get(task_id)
        if row is None:
            raise NotFound("dead letter", task_id)
        if not only_open:
            continue
        if row["discarded_at"] is not None:
            raise IllegalMove(f"dead letter {task_id}", "discarded", request)
        if row["replayed_as"] is not None:
            state = f"replayed as job {row['replayed_as']}"
            raise IllegalMove(f"dead letter {task_id}", state, request)
    return {task_id: row["input"] for task_id, row in found.items()}


def _check_ids(task_ids: Sequence[TaskId]) -> None:
    if not 1 <= len(task_ids) <= IDS_MAX:
        raise Invalid("task_ids", f"names {len(task_ids)} tasks; give 1 to {IDS_MAX}")
    if len(set(task_ids)) != len(task_ids):
        raise Invalid("task_ids", "names a task twice")
    for task_id in task_ids:
        check_task_id(task_id)
