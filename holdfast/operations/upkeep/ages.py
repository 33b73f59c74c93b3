"""Jobs that are older than their type may be: what has not finished of them is dead-lettered."""

from collections.abc import Mapping

from holdfast.ledger.ledger import Ledger
from holdfast.operations.dead_letters import dead_letter_locked
from holdfast.store.database import LockTimeout, Transaction
from holdfast.store.tables.submitting.policies import load_policies
from holdfast.store.tables.work.jobs import read_job_flags, walk_jobs_by_age
from holdfast.store.tables.work.ready import Stretch, leave_line
from holdfast.store.tables.work.tasks import lock_live_tasks

JOBS_MAX = 1000
TASKS_MAX = 1000


class Ages:
    """Ends jobs over their age: of each type, it knows up to which job all have ended."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._ended_up_to: dict[str, int] = {}

    async def look(self) -> int:
        """Look at the next jobs of each type whose age is limited; returns how many were over it.

        What somebody holds, or what is broken, is looked at again the next time.
        """
        ages = await self._read_ages()
        self._ended_up_to = {name: self._ended_up_to.get(name, 0) for name in ages}
        over, broken = 0, None
        for type_name, age in ages.items():
            try:
                over += await self._end_type(type_name, age)
            except LockTimeout:
                continue
            except Exception as error:  # noqa: BLE001 - raised when the other types had a turn
                broken = broken or error
        if broken is not None:
            raise broken
        return over

    async def _read_ages(self) -> Mapping[str, float]:
        book = await load_policies(self._ledger.database)
        limits = ((name, policy.limits.age) for name, policy in book.by_type.items())
        return {name: age for name, age in limits if age is not None}

    async def _end_type(self, type_name: str, age: float) -> int:
        async with self._ledger.database.transaction() as tx:
            jobs = await walk_jobs_by_age(
                tx, type_name, age=age, after=self._ended_up_to[type_name], jobs_max=JOBS_MAX
            )
        over, is_all_ended = 0, True
        for job in jobs:
            if not job.is_old:
                break
            over += 1
            if job.is_live:
                is_all_ended &= await self._end_job(job.job_id, job.num_tasks, age=age)
            if is_all_ended:
                self._ended_up_to[type_name] = job.job_id
        return over if is_all_ended else 0

    async def _end_job(self, job_id: int, num_tasks: int, *, age: float) -> bool:
        """Dead-letter what has not finished of a job; returns whether nothing was left."""
        reason = f"it has not finished within {age:g} s, the age that its type may have"
        for first in range(0, num_tasks, TASKS_MAX):
            await self._ledger.write(_end_tasks, job_id, first_index=first, reason=reason)
        async with self._ledger.database.transaction() as tx:
            flags = (await read_job_flags(tx, [job_id])).get(job_id)
        return flags is None or flags.finished


async def _end_tasks(
    ledger: Ledger, tx: Transaction, job_id: int, *, first_index: int, reason: str
) -> None:
    found = await lock_live_tasks(
        tx, job_id, first_index=first_index, end_index=first_index + TASKS_MAX
    )
    flags = (await read_job_flags(tx, [job_id])).get(job_id)
    if not found or flags is None or flags.finished or flags.cancel_mode is not None:
        return
    tasks = {task.id: task for task in found}
    # Only what ends here: what somebody holds keeps its place until the next look.
    await leave_line(tx, [Stretch.of(task_id) for task_id in tasks])
    await dead_letter_locked(ledger, tx, tasks, actor="server", reason=reason)
