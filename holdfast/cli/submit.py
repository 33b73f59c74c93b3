"""`holdfast submit`: hand in a function, or a whole spec, and leave."""

from typing import Annotated

import msgspec
from cyclopts import Parameter

from holdfast.cli.connect import open_client
from holdfast.cli.placing import NO_PLACING, PlacedFlags, with_workspace
from holdfast.cli.settings import Json, Server
from holdfast.cli.show import remark, write_json, write_line
from holdfast.cli.spec import NO_FLAGS, JobFlags, describe_call, read_inputs, read_spec
from holdfast.errors import Invalid
from holdfast.wire.requests import JobRequest

# A million inputs take their time.
PATIENCE_SECONDS = 120.0


def submit(
    function: Annotated[
        str | None, Parameter(name="FUNCTION", help="An import path, as package.module:name.")
    ] = None,
    /,
    *,
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
    spec: Annotated[
        str | None,
        Parameter(
            help="A file with a whole job, JSON or TOML; - is stdin.", allow_leading_hyphen=True
        ),
    ] = None,
    flags: JobFlags = NO_FLAGS,
    placing: PlacedFlags = NO_PLACING,
    server: Server = None,
    as_json: Json = False,
) -> int:
    """Submit a function, or a whole spec; writes the job's id."""
    from holdfast.client import admin

    if (function is None) == (spec is None):
        raise Invalid("FUNCTION", "give a function or --spec, one of the two")
    if spec is not None:
        if arg or kwarg or (flags, placing) != (NO_FLAGS, NO_PLACING):
            raise Invalid("spec", "says everything; other flags than --inputs go with a function")
        request = read_spec(spec)
    else:
        assert function is not None
        request = describe_call(function, flags, placing, args=arg, kwargs=kwarg)
    if inputs is not None:
        request = _with_inputs(request, inputs)
    with open_client(server, patience=PATIENCE_SECONDS) as client:
        answer = admin.submit_spec(client, with_workspace(client, request, placing))
    if as_json:
        write_json(answer)
        return 0
    write_line(answer.job_id)
    if not answer.is_new:
        remark("its key was seen before: this is the job that was submitted then")
    return 0


def _with_inputs(request: JobRequest, path: str) -> JobRequest:
    if request.inputs is not None:
        raise Invalid("inputs", "are in the spec already; give them in one place")
    return msgspec.structs.replace(request, inputs=read_inputs(path))
