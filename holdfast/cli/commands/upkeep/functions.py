"""`holdfast functions`: what workers have announced that they can run."""

from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import Parameter

from holdfast.cli.connect import open_client
from holdfast.cli.output.text import moment
from holdfast.cli.output.write import Column, remark, write_json, write_table
from holdfast.cli.settings import Json, Server, check_limit

if TYPE_CHECKING:
    from holdfast.wire.functions import FunctionStatus

FUNCTIONS_SHOWN = 200
Limit = Annotated[int, Parameter(name=["--limit", "-n"], help="How many.")]
_COLUMNS = (
    Column("function"),
    Column("parameters", flexible=True),
    Column("queue"),
    Column("options", flexible=True),
    Column("seen", spare=True),
)


def list_functions(
    *, limit: Limit = FUNCTIONS_SHOWN, server: Server = None, as_json: Json = False
) -> int:
    """List the functions that workers have announced, and the options that their jobs have."""
    check_limit(limit)
    with open_client(server) as client:
        found = client.functions.list(count_max=limit)
    if as_json:
        write_json(found)
        return 0
    if not found.functions:
        remark(
            "no functions: workers announce what their modules decorate, `worker --import MODULE`"
        )
        return 0
    write_table(_COLUMNS, [_row(each) for each in found.functions])
    if found.next_page_token is not None:
        remark(f"there may be more; --limit {limit * 2} shows more of them")
    return 0


def _row(function: "FunctionStatus") -> tuple[str, ...]:
    parameters = ", ".join(
        each.name
        + ("" if each.annotation is None else f": {each.annotation}")
        + ("" if each.required else "?")
        for each in function.parameters
    )
    options = msgspec.to_builtins(function.options)
    queue = options.pop("queue", "(placed)")
    said = ", ".join(
        f"{name}={msgspec.json.encode(value).decode()}" for name, value in options.items()
    )
    return function.path, parameters, queue, said, moment(function.last_seen_at_ms)
