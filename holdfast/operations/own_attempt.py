"""What a running attempt may reach by its lease: its own job, what that was given, its children."""

from collections.abc import Iterable

from holdfast.errors import LeaseConflict, NotAllowed
from holdfast.model.work.fence import Fence, check_fence
from holdfast.model.work.ids import AttemptId
from holdfast.rules.submitting.order import dependencies_of
from holdfast.store.database import Transaction
from holdfast.store.reads.work.jobs import find_job
from holdfast.store.specs import SpecCache, StoredSpec
from holdfast.store.tables.work.leases import find_leases, has_live_lease


async def check_lease(tx: Transaction, fence: Fence, *, also_ending: bool = False) -> None:
    """Refuse who does not hold this lease; one that is ending counts where that is said."""
    check_fence(fence)
    if also_ending:
        is_held = bool(await find_leases(tx, [fence]))
    else:
        is_held = await has_live_lease(tx, fence)
    if not is_held:
        raise LeaseConflict(
            fence.task_id,
            "the lease is lost, and is good for nothing any more; stop the attempt"
            if also_ending
            else "the lease is lost, or its attempt has ended and may only checkpoint and log; "
            "stop the attempt",
        )


async def load_own(tx: Transaction, specs: SpecCache, fence: Fence) -> StoredSpec:
    """Load the spec of the job that an attempt belongs to."""
    job_id = fence.task_id.job_id
    found = (await specs.load(tx, [job_id])).get(job_id)
    if found is None:
        raise LeaseConflict(fence.task_id, "its job is gone; stop the attempt")
    return found


async def list_given(tx: Transaction, specs: SpecCache, fence: Fence) -> set[int]:
    """List the jobs whose results an attempt may read: those its job, or what it undoes, names."""
    own = await load_own(tx, specs, fence)
    given = {int(dependency.job) for dependency in dependencies_of(own.spec)}
    given |= _list_results(own)
    undone = own.compensates_job_id
    if undone is not None:
        found = await specs.load(tx, [undone])
        given |= {job_id for stored in found.values() for job_id in _list_results(stored)}
    return given


async def check_children(
    tx: Transaction, fence: Fence, job_ids: Iterable[int], *, besides: Iterable[int] = ()
) -> None:
    """Refuse jobs that are no children of the job of an attempt, but for some others."""
    for job_id in sorted(set(job_ids) - set(besides)):
        job = await find_job(tx, job_id)
        if job is None or job.parent_job_id != fence.task_id.job_id:
            # The same of one that is not there: what others have is nobody's business.
            raise NotAllowed(
                f"job {job_id} is no child of job {fence.task_id.job_id}, and the lease of attempt "
                f"{name_attempt(fence)} reaches no other; use a token",
                lacks=f"job {job_id}",
            )


def name_attempt(fence: Fence) -> AttemptId:
    """Name the attempt that a fence is of."""
    return AttemptId(*fence.task_id, fence.attempt)


def _list_results(stored: StoredSpec) -> set[int]:
    return {int(position.job) for position in stored.spec.entrypoint.results}
