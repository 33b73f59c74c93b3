"""Tasks that did not succeed in their own job, but in a replay of some of its dead letters."""

from typing import NamedTuple

from holdfast.model.work.ids import JOB_ID_MAX, TaskId
from holdfast.model.work.states import TaskState
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_FILLS = load_statements("reads/work/fills")
GENERATIONS_MAX = 100


class Fills(NamedTuple):
    """Which task has succeeded in the place of one, by its index, and the jobs looked at for that.

    `seqs` has the last event of each of these replays, `open` those that are still under way.
    """

    tasks: dict[int, TaskId]
    seqs: dict[int, int]
    open: list[int]

    def last_job(self) -> int | None:
        """Name the newest of the jobs in which they have succeeded: nothing in it has failed."""
        return max((task.job_id for task in self.tasks.values()), default=None)


async def find_fills(tx: Transaction, job_id: int, *, before: int = JOB_ID_MAX) -> Fills:
    """Find what replays of dead letters, and of theirs, have made good: those before a job.

    With `before` it is what counted when that job was submitted, though it be undone since.
    """
    fills = Fills({}, {}, [])
    # The first task, by the one that ran it last.
    wanted: dict[TaskId, int] | None = None
    generation = [job_id]
    for _ in range(GENERATIONS_MAX):
        rows = await tx.fetch(_FILLS["list_replayed_tasks"], job_ids=generation, before=before)
        failed: dict[TaskId, int] = {}
        for row in rows:
            task_id, again = TaskId(*row[:2]), TaskId(*row[2:4])
            first = task_id.task_index if wanted is None else wanted.get(task_id)
            if first is None:
                continue
            if not row["has_ended"] and again.job_id not in fills.open:
                fills.open.append(again.job_id)
            fills.seqs[again.job_id] = row["seq"]
            if row["state"] == TaskState.SUCCEEDED:
                fills.tasks[first] = again
            else:
                failed[again] = first
        if not failed:
            break
        wanted, generation = failed, sorted({task_id.job_id for task_id in failed})
    return fills
