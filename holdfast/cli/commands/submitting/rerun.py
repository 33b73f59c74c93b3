"""`holdfast rerun`: submit a job again."""

from typing import Annotated

from cyclopts import Parameter

from holdfast.cli.connect import open_client
from holdfast.cli.output.write import remark, write_json, write_line
from holdfast.cli.settings import Json, RebindOutputs, RepeatKey, Server
from holdfast.model.work.ids import parse_job_id


def rerun(
    job_id: Annotated[str, Parameter(name="ID", help="A job's id, such as 4182.")],
    /,
    *,
    only_unsuccessful: Annotated[
        bool, Parameter(negative="", help="Only the inputs of tasks that did not succeed.")
    ] = False,
    dry_run: Annotated[bool, Parameter(negative="", help="Only say how many tasks.")] = False,
    key: RepeatKey = None,
    rebind_outputs: RebindOutputs = False,
    server: Server = None,
    as_json: Json = False,
) -> int:
    """Submit a job again, as a new job that links to the old one; writes its id."""
    parse_job_id(job_id, "id")
    with open_client(server) as client:
        made = client.jobs.rerun(
            job_id,
            only_unsuccessful=only_unsuccessful,
            dry_run=dry_run,
            rebind_outputs=rebind_outputs,
            idempotency_key=key,
        )
    if as_json:
        write_json(made)
    elif made.job_id is None:
        remark(f"would run {made.num_tasks} tasks again")
    else:
        write_line(made.job_id)
    return 0
