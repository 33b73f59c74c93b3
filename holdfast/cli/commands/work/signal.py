"""`holdfast signal`: tell a task what its function waits for."""

from typing import Annotated

from cyclopts import Parameter

from holdfast.cli.connect import open_client
from holdfast.cli.ids import check_id
from holdfast.cli.output.write import write_json, write_line
from holdfast.cli.settings import Json, Server
from holdfast.cli.spec import parse_json


def send_signal(
    an_id: Annotated[
        str, Parameter(name="ID", help="A task's id, such as 4182.3, or that of a job of one task.")
    ],
    name: Annotated[str, Parameter(name="NAME", help="What the function waits for.")],
    /,
    *,
    payload: Annotated[
        str, Parameter(help="What to tell it, as JSON.", allow_leading_hyphen=True)
    ] = "null",
    key: Annotated[
        str | None, Parameter(help="An idempotency key: a signal sent again under it is kept once.")
    ] = None,
    server: Server = None,
    as_json: Json = False,
) -> int:
    """Send a signal to a task. Exit code 1: there is none, or it has ended."""
    job_id, _, index = check_id(an_id).partition(".")
    value = parse_json("payload", payload)
    with open_client(server) as client:
        sent = client.signal(
            job_id, name, value, task=int(index) if index else None, idempotency_key=key
        )
    if as_json:
        write_json(sent)
    else:
        write_line(sent.task_id, "had that signal before" if sent.is_repeat else "has the signal")
    return 0
