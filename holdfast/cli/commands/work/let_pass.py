"""`holdfast pass`: let a chain go on after a job of it that has failed."""

from typing import Annotated

from cyclopts import Parameter

from holdfast.cli.connect import open_client
from holdfast.cli.output.write import write_line
from holdfast.cli.settings import Server
from holdfast.model.work.ids import parse_job_id


def let_pass(
    job_id: Annotated[str, Parameter(name="ID", help="The job that has failed, such as 4182.")],
    /,
    *,
    reason: Annotated[str, Parameter(help="Why; it is kept with the action.")] = "let pass",
    server: Server = None,
) -> int:
    """Let a chain go on that stands still after this job."""
    parse_job_id(job_id, "id")
    with open_client(server) as client:
        changed = client.jobs.let_pass(job_id, reason)
    write_line(job_id, "its chain goes on" if changed else "no chain stands still after it")
    return 0
