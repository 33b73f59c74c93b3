"""`holdfast resume`: let a broken graph go on."""

from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.cli.connect import open_client
from holdfast.cli.output.write import Column, remark, write_json, write_table
from holdfast.cli.settings import Json, RebindOutputs, RepeatKey, Server
from holdfast.errors import Invalid
from holdfast.model.work.ids import parse_job_id, parse_task_id

_COLUMNS = (
    Column("job"),
    Column("name", flexible=True),
    Column("tasks", right=True),
    Column("runs again"),
)


def resume(
    job_id: Annotated[str, Parameter(name="ID", help="Any broken job of the graph, such as 4182.")],
    /,
    *,
    input: Annotated[
        tuple[str, ...],
        Parameter(
            help="A corrected input, JSON, for a task that failed, as 4182.7=JSON; repeat it.",
            negative="",
        ),
    ] = (),
    dry_run: Annotated[bool, Parameter(negative="", help="Only say what would run again.")] = False,
    key: RepeatKey = None,
    rebind_outputs: RebindOutputs = False,
    server: Server = None,
    as_json: Json = False,
) -> int:
    """Run again what failed around a job, and what was killed because of that; lists the new jobs.

    What has succeeded stays, and its results are used.
    """
    parse_job_id(job_id, "id")
    inputs: dict[str, Any] = {}
    for task_id, value in map(_parse_input, input):
        if task_id in inputs:
            raise Invalid("input", f"task {task_id} is given two; leave one of them out")
        inputs[task_id] = value
    with open_client(server) as client:
        made = client.jobs.resume(
            job_id,
            inputs=inputs,
            dry_run=dry_run,
            rebind_outputs=rebind_outputs,
            idempotency_key=key,
        )
    if as_json:
        write_json(made)
        return 0
    rows = [(job.job_id or "", job.name, str(job.num_tasks), job.replay_of) for job in made.jobs]
    write_table(_COLUMNS, rows)
    if dry_run:
        remark("nothing was submitted; leave out --dry-run to do it")
    return 0


def _parse_input(text: str) -> tuple[str, Any]:
    """Read a task's id and its input, such as 4182.7={"n": 3}."""
    import msgspec

    task_id, sign, value = text.partition("=")
    if not sign:
        raise Invalid("input", f"{text!r} has no task; write it as 4182.7=JSON")
    parse_task_id(task_id, "input")
    try:
        return task_id, msgspec.json.decode(value)
    except msgspec.DecodeError as error:
        raise Invalid("input", f"{value!r} is not JSON ({error}); texts need quotes") from error
