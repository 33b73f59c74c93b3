"""`holdfast submit`: hand in a function, a command, a whole spec or a graph of them, and leave."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import Parameter

from holdfast.cli.connect import open_client
from holdfast.cli.output.write import remark, write_json, write_line
from holdfast.cli.placing import NO_PLACING, PlacedFlags, with_workspace
from holdfast.cli.settings import Json, Server
from holdfast.cli.spec import (
    FUNCTION,
    NO_FLAGS,
    JobFlags,
    describe_call,
    describe_command,
    read_graph,
    read_inputs,
    read_spec,
)
from holdfast.errors import Invalid, NotFound
from holdfast.wire.requests import JobRequest

if TYPE_CHECKING:
    from holdfast.client.client import Client

_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")
# A million inputs take their time.
PATIENCE_SECONDS = 120.0


Spec = Annotated[
    str | None,
    Parameter(help="A file with a whole job, JSON or TOML; - is stdin.", allow_leading_hyphen=True),
]
Graph = Annotated[
    str | None,
    Parameter(
        help='A file with jobs that go in together or not at all, as {"specs": [...]}; - is stdin.',
        allow_leading_hyphen=True,
    ),
]


def submit(
    *what: Annotated[
        str,
        Parameter(
            name="WHAT",
            help="A function, as package.module:name; or after -- a program and its words.",
        ),
    ],
    arg: Annotated[
        tuple[str, ...],
        Parameter(help="An argument, as JSON; repeat it.", negative="", allow_leading_hyphen=True),
    ] = (),
    kwarg: Annotated[
        tuple[str, ...], Parameter(help="A named argument, as k=JSON; repeat it.", negative="")
    ] = (),
    inputs: Annotated[
        str | None,
        Parameter(
            help="A file with one JSON value a line, one task each; - is stdin.",
            allow_leading_hyphen=True,
        ),
    ] = None,
    spec: Spec = None,
    graph: Graph = None,
    flags: JobFlags = NO_FLAGS,
    placing: PlacedFlags = NO_PLACING,
    server: Server = None,
    as_json: Json = False,
) -> int:
    """Submit a function, a command, a whole spec or a graph of them; writes the jobs' ids."""
    if [bool(what), spec is not None, graph is not None].count(True) != 1:
        raise Invalid("WHAT", "give a function, a command, --spec or --graph, one of them")
    is_flagged = bool(arg or kwarg) or (flags, placing) != (NO_FLAGS, NO_PLACING)
    if graph is not None:
        if is_flagged or inputs is not None:
            raise Invalid("graph", "says everything; no other flag goes with it")
        return _submit_graph(graph, server, as_json=as_json)
    if spec is not None:
        if is_flagged:
            raise Invalid("spec", "says everything; no other flag than --inputs goes with it")
        request = read_spec(spec)
    elif _is_function(what):
        request = describe_call(what[0], flags, placing, args=arg, kwargs=kwarg)
    elif arg or kwarg:
        raise Invalid("arg", "goes with a function; a command's words stand behind it")
    else:
        request = describe_command(what, flags, placing)
    if inputs is not None:
        request = _with_inputs(request, inputs)
    # Of a spec, what it says counts; on the command line, what was left out was not chosen.
    may_be_announced = spec is None and request.entrypoint.function is not None
    chosen = flags if may_be_announced else None
    return _submit_job(request, placing, server, chosen=chosen, as_json=as_json)


def _follow_announced(client: "Client", request: JobRequest, chosen: JobFlags) -> JobRequest:
    """Take queue and owner from what the function was announced with, if it was."""
    try:
        announced = client.functions.get(request.entrypoint.function or "")
    except NotFound:
        return request
    if announced.options.only_in_queue and request.queue != announced.options.queue:
        return request
    queue = request.queue if chosen.queue is not None else None
    owner = request.owner
    # A key counts among the jobs of its owner, whoever has announced what in between.
    if chosen.owner is None and chosen.key is None:
        owner = announced.options.owner or owner
    return msgspec.structs.replace(request, queue=queue, owner=owner)


def _submit_job(
    request: JobRequest,
    placing: PlacedFlags,
    server: str | None,
    *,
    chosen: JobFlags | None,
    as_json: bool,
) -> int:
    with open_client(server, patience=PATIENCE_SECONDS) as client:
        if chosen is not None:
            request = _follow_announced(client, request, chosen)
        answer = client.jobs.submit(with_workspace(client, request, placing))
    if as_json:
        write_json(answer)
        return 0
    write_line(answer.job_id)
    if not answer.is_new:
        remark("its key was seen before: this is the job that was submitted then")
    return 0


def _submit_graph(path: str, server: str | None, *, as_json: bool) -> int:
    """Submit the jobs of a file in one call; writes their ids, in the order of the file."""
    batch = read_graph(path)
    with open_client(server, patience=PATIENCE_SECONDS) as client:
        answer = client.jobs.submit_all(batch.specs)
    if as_json:
        write_json(answer)
        return 0
    for job in answer.jobs:
        write_line(job.job_id)
    return 0


def _is_function(what: Sequence[str]) -> bool:
    """Tell a function from a command, and from what is neither but looks like a function."""
    first, *words = what
    if FUNCTION.fullmatch(first):
        if words:
            raise Invalid("WHAT", "a function's arguments are given with --arg, as JSON")
        return True
    if not words and _DOTTED.fullmatch(first):
        raise Invalid(
            "WHAT",
            f"{first!r} has no colon; a function is written like package.module:name, "
            f"a program of that name like ./{first}",
        )
    return False


def _with_inputs(request: JobRequest, path: str) -> JobRequest:
    if request.inputs is not None:
        raise Invalid("inputs", "are in the spec already; give them in one place")
    return msgspec.structs.replace(request, inputs=read_inputs(path))
