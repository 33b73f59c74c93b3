"""What a caller may reach who is kept to some owners or queues: jobs, by what their specs say."""

from collections.abc import Iterable, Mapping

from holdfast.errors import NotFound
from holdfast.model.access.callers import Caller
from holdfast.model.work.ids import parse_job_id, parse_task_id
from holdfast.services.runtime import Runtime


async def check_jobs(runtime: Runtime, caller: Caller, job_ids: Iterable[int]) -> None:
    """Refuse jobs that are not the caller's; specs at hand are not read again.

    They are refused as those that do not exist: whose they are, and that there are any, is nothing
    that he may know.
    """
    if not caller.is_narrow:
        return
    wanted = set(job_ids)
    specs = runtime.ledger.specs
    found = {job_id: stored for job_id in wanted if (stored := specs.find(job_id)) is not None}
    if found.keys() != wanted:
        async with runtime.reads.transaction() as tx:
            found = await specs.load(tx, wanted)
    for job_id in sorted(wanted):
        spec = found[job_id].spec if job_id in found else None
        if spec is None or not caller.may_reach(spec.owner, spec.queue):
            raise NotFound("job", job_id)


async def check_path(
    runtime: Runtime, caller: Caller, path: Mapping[str, str], *, what: str
) -> None:
    """Refuse the job or the task that a path names; without one, a caller who is kept to some."""
    if "job_id" in path:
        await check_jobs(runtime, caller, [parse_job_id(path["job_id"])])
    elif "task_id" in path:
        await check_jobs(runtime, caller, [parse_task_id(path["task_id"]).job_id])
    else:
        caller.refuse_narrow(what)
