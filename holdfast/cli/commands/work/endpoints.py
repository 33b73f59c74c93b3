"""`holdfast endpoint` and `holdfast endpoints`: addresses that running tasks have published."""

from typing import Annotated

from cyclopts import App, Parameter

from holdfast.cli.connect import open_client, own_lease
from holdfast.cli.output.text import age
from holdfast.cli.output.write import Column, remark, write_json, write_line, write_table
from holdfast.cli.settings import Json, Server, check_limit

ENDPOINTS_SHOWN = 100
app = App(name="endpoint", help="Look up an address; within a task, publish one.")
Name = Annotated[str, Parameter(name="NAME", help="The endpoint's name.")]
_COLUMNS = (
    Column("endpoint"),
    Column("address", flexible=True),
    Column("attempt"),
    Column("since"),
)


def list_endpoints(
    prefix: Annotated[str, Parameter(name="PREFIX", help="How their names begin.")] = "",
    /,
    *,
    limit: Annotated[int, Parameter(name=["--limit", "-n"], help="How many.")] = ENDPOINTS_SHOWN,
    server: Server = None,
    as_json: Json = False,
) -> int:
    """List the addresses that running tasks have published, by name."""
    from holdfast.client.endpoints import list_some_endpoints

    check_limit(limit)
    with open_client(server) as client:
        found = client.loop_thread.run(list_some_endpoints(client, prefix, count_max=limit))
    if as_json:
        write_json(found)
        return 0
    if not found.endpoints:
        remark("no endpoints: no task that runs has published one")
        return 0
    write_table(
        _COLUMNS,
        [
            (each.name, each.address, f"{each.task_id}.{each.attempt}", age(each.registered_at_ms))
            for each in found.endpoints
        ],
    )
    if found.next_page_token is not None:
        remark("there are more; --limit shows more of them")
    return 0


@app.command
def get(
    name: Name,
    /,
    *,
    timeout: Annotated[float, Parameter(help="Seconds to wait for it.")] = 0.0,
    server: Server = None,
    as_json: Json = False,
) -> int:
    """Write an address; exit code 1 if no task that runs has published it."""
    from holdfast.client.endpoints import get_endpoint

    with open_client(server) as client:
        found = client.loop_thread.run(get_endpoint(client, name, timeout=timeout))
    if as_json:
        write_json(found)
    else:
        write_line(found.address)
    return 0


@app.command
def register(
    name: Name,
    address: Annotated[str, Parameter(name="ADDRESS", help="Such as host:port, or a URL.")],
    /,
    *,
    server: Server = None,
) -> int:
    """Publish an address, within a task, until its attempt ends."""
    from holdfast.client.endpoints import register_endpoint

    with open_client(server) as client:
        publishing = register_endpoint(client, own_lease(client), name, address=address)
        client.loop_thread.run(publishing)
    return 0


@app.command
def remove(name: Name, /, *, server: Server = None) -> int:
    """Take back, within a task, what its attempt has published."""
    from holdfast.client.endpoints import remove_endpoint

    with open_client(server) as client:
        if not client.loop_thread.run(remove_endpoint(client, own_lease(client), name)):
            remark(f"this attempt has published no endpoint {name}")
    return 0
