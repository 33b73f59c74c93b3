"""What is to be run, as the command line says it: flags, files, and the request made of them."""

import getpass
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, get_args

import msgspec
from cyclopts import Parameter

from holdfast.cli.files import read_text
from holdfast.cli.moments import parse_span, parse_time
from holdfast.cli.placing import NO_PLACING, PlacedFlags
from holdfast.client.token import find_token
from holdfast.errors import Invalid
from holdfast.model.submitting.order import Condition, Dependency
from holdfast.model.submitting.spec import YEAR_SECONDS, Entrypoint, OnExhausted, OnFailure
from holdfast.model.submitting.unique import OnConflict, Unique
from holdfast.wire.raw import encode_json
from holdfast.wire.requests import JobBatchRequest, JobRequest

QUEUE = "default"
FUNCTION = re.compile(r"[\w.]+:[\w.]+")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class JobFlags:
    """How a job is run; what is left out is the server's default."""

    name: Annotated[str | None, Parameter(help="What the job is called.")] = None
    queue: Annotated[
        str | None, Parameter(help=f"Which queue. Default: {QUEUE}, unless it is placed.")
    ] = None
    replicas: Annotated[int | None, Parameter(help="How many tasks like this one.")] = None
    retries: Annotated[int | None, Parameter(help="How often a failure is tried again.")] = None
    timeout: Annotated[float | None, Parameter(help="Seconds that an attempt may take.")] = None
    scheduling_timeout: Annotated[
        float | None, Parameter(help="Seconds to wait for a worker at most.")
    ] = None
    expires: Annotated[
        str | None, Parameter(help="Do not start it any more so long after its submission.")
    ] = None
    delay: Annotated[
        str | None, Parameter(help="Start so long after its submission, such as 90s, 5m, 1h30m.")
    ] = None
    at: Annotated[
        str | None,
        Parameter(help="Start at a time, such as 2026-11-18T09:00: of here, if no zone."),
    ] = None
    priority: Annotated[int | None, Parameter(help="Higher runs first.")] = None
    concurrency_key: Annotated[
        str | None, Parameter(help="By which key limits per key count it.")
    ] = None
    slots: Annotated[
        int | None, Parameter(help="How many slots of each limit it takes. Default: 1.")
    ] = None
    owner: Annotated[str | None, Parameter(help="Whose it is. Default: your user name.")] = None
    compensation: Annotated[
        str | None,
        Parameter(help="Undoes it if it fails: package.module:name, or a line for the shell."),
    ] = None
    env: Annotated[
        tuple[str, ...], Parameter(help="A variable for it, as K=V; repeat it.", negative="")
    ] = ()
    label: Annotated[
        tuple[str, ...], Parameter(help="A label, as K=V; repeat it.", negative="")
    ] = ()
    depends_on: Annotated[
        tuple[str, ...],
        Parameter(help="A job to wait for, as ID, ID:failed or ID:ended; repeat it.", negative=""),
    ] = ()
    unique: Annotated[
        bool, Parameter(help="One like it at a time: with the same arguments.", negative="")
    ] = False
    unique_by: Annotated[
        tuple[str, ...],
        Parameter(help="What has to be the same, as args[0] or kwargs.id; repeat it.", negative=""),
    ] = ()
    unique_for: Annotated[
        str | None, Parameter(help="One in each period, such as 10m, 1h, 1d.")
    ] = None
    on_conflict: Annotated[
        OnConflict | None,
        Parameter(help="If one like it is there: take that, replace it if it waits, or refuse."),
    ] = None
    chain: Annotated[
        str | None, Parameter(help="After all earlier jobs of this chain, one at a time.")
    ] = None
    on_failure: Annotated[
        OnFailure | None, Parameter(help="Of a chain: pass a job that has failed, or block.")
    ] = None
    key: Annotated[
        str | None, Parameter(help="An idempotency key: the same again is the same job.")
    ] = None

    def fields(self, placing: PlacedFlags = NO_PLACING) -> dict[str, Any]:
        """Write them as fields of a job's spec; placed work has no queue."""
        flag = placing.find_given(has_queue=bool(self.queue))
        if flag is not None and self.queue:
            raise Invalid(
                flag, f"is for placed work, and queue {self.queue} for claimed; give one of the two"
            )
        if self.delay is not None and self.at is not None:
            raise Invalid("--delay", "goes without --at; give one of the two")
        given = {
            "name": self.name,
            "owner": _find_owner() if self.owner is None else self.owner,
            "queue": (self.queue or QUEUE) if flag is None else None,
            "replicas": self.replicas,
            "max_retries_failure": self.retries,
            "timeout": self.timeout,
            "scheduling_timeout": self.scheduling_timeout,
            "expires": _parse_delay(self.expires, "--expires"),
            "start_delay": _parse_delay(self.delay, "--delay"),
            "not_before": parse_time(self.at, "--at"),
            "priority": self.priority,
            "concurrency_key": self.concurrency_key,
            "slots": self.slots,
            "unique": self._describe_unique(),
            "idempotency_key": self.key,
            "chain": self.chain,
            "on_failure": self.on_failure,
            "compensation": _describe_compensation(self.compensation),
            "environment": parse_pairs("env", self.env) or None,
            "labels": parse_pairs("label", self.label) or None,
            "depends_on": [_parse_dependency(text) for text in self.depends_on] or None,
        }
        known = {name: value for name, value in given.items() if value is not None}
        return known | placing.fields()

    def _describe_unique(self) -> Unique | None:
        """Say what makes it unique; any of these flags does."""
        if not (self.unique or self.unique_by or self.unique_for or self.on_conflict):
            return None
        return Unique(
            arguments=list(self.unique_by) or None,
            period=parse_span(self.unique_for, "--unique-for"),
            on_conflict=self.on_conflict or "first",
        )


NO_FLAGS = JobFlags()


def _parse_delay(text: str | None, flag: str) -> float | None:
    seconds = parse_span(text, flag)
    if seconds is not None and seconds > YEAR_SECONDS:
        raise Invalid(flag, f"{text} is too long; give a year at most")
    return seconds


def _find_owner() -> str | None:
    """Choose an owner; whoever has a token is known to the server by that."""
    return find_user() if find_token() is None else None


def find_user() -> str | None:
    """Find the name of the user who types; None where there is none, as in some containers."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return None


def describe_command(
    command: Sequence[str],
    flags: JobFlags,
    placing: PlacedFlags = NO_PLACING,
    *,
    on_exhausted: OnExhausted | None = None,
) -> JobRequest:
    """Describe a job of one command."""
    entrypoint = Entrypoint(command=list(command))
    return JobRequest(entrypoint=entrypoint, on_exhausted=on_exhausted, **flags.fields(placing))


def describe_call(
    function: str,
    flags: JobFlags,
    placing: PlacedFlags = NO_PLACING,
    *,
    args: Sequence[str],
    kwargs: Sequence[str],
) -> JobRequest:
    """Describe a job of one function; its arguments are JSON texts."""
    values = [parse_json("arg", text) for text in args]
    named = {
        name: parse_json(f"kwarg {name}", text)
        for name, text in parse_pairs("kwarg", kwargs).items()
    }
    entrypoint = Entrypoint(function=function, args=values, kwargs=named)
    return JobRequest(entrypoint=entrypoint, **flags.fields(placing))


def read_spec(path: str) -> JobRequest:
    """Read a whole job from a file of JSON or TOML, with its inputs."""
    text = read_text("spec", path)
    # A JSON object begins with a brace, and nothing in TOML does.
    if text.lstrip().startswith("{"):
        return _convert_json(text)
    try:
        fields = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Invalid("spec", f"{path} is neither JSON nor TOML: {error}") from error
    inputs = fields.pop("inputs", None)
    if inputs is not None and not isinstance(inputs, list):
        raise Invalid("inputs", "is no list; give one input per task")
    try:
        request = msgspec.convert(fields, JobRequest)
        listed = None if inputs is None else [msgspec.Raw(encode_json(value)) for value in inputs]
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise Invalid("spec", str(error)) from error
    return msgspec.structs.replace(request, inputs=listed)


def read_graph(path: str) -> JobBatchRequest:
    """Read jobs that are submitted in one call from a file of JSON: {"specs": [...]}."""
    try:
        return msgspec.json.decode(read_text("graph", path), type=JobBatchRequest)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise Invalid("graph", str(error)) from error


def _parse_dependency(text: str) -> str | Dependency:
    job_id, colon, condition = text.partition(":")
    if not colon:
        return job_id
    try:
        return msgspec.convert({"job": job_id, "condition": condition}, Dependency)
    except msgspec.ValidationError as error:
        known = ", ".join(get_args(Condition))
        raise Invalid(
            "depends-on", f"{text!r} has no known condition; there are {known}"
        ) from error


def read_inputs(path: str) -> list[msgspec.Raw]:
    """Read inputs from a file, one JSON value a line."""
    inputs = []
    for number, line in enumerate(read_text("inputs", path).splitlines(), 1):
        if line.strip():
            parse_json(f"inputs, line {number}", line)
            inputs.append(msgspec.Raw(line.strip().encode()))
    if not inputs:
        raise Invalid("inputs", f"{path} is empty; write one JSON value a line")
    return inputs


def _describe_compensation(given: str | None) -> Entrypoint | None:
    if given is None:
        return None
    return Entrypoint(function=given) if FUNCTION.fullmatch(given) else Entrypoint(shell=given)


def parse_pairs(field: str, pairs: Sequence[str]) -> dict[str, str]:
    """Read K=V pairs; the same name twice is an error."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise Invalid(field, f"{pair!r} is no pair; write it like name=value")
        if name in found:
            raise Invalid(field, f"{name} is given twice; give it once")
        found[name] = value
    return found


def parse_json(field: str, text: str) -> Any:
    """Read a JSON value; a bare word is the mistake that people make."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        remedy = f"""; a string needs its quotes: '"{text}"'""" if text.isalnum() else ""
        raise Invalid(field, f"{text[:80]!r} is not JSON: {error}{remedy}") from error


def _convert_json(text: str) -> JobRequest:
    try:
        return msgspec.json.decode(text, type=JobRequest)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise Invalid("spec", str(error)) from error
