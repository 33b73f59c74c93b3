"""Tell the server which functions this process has, and with which options their jobs run."""

import logging
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from holdfast.client.functions.describing import describe_all
from holdfast.client.request import request_call
from holdfast.client.task import TaskFunction
from holdfast.client.transport import Transport
from holdfast.errors import Invalid, Refused, Unavailable
from holdfast.model.workers.functions import AnnouncedFunction
from holdfast.model.workers.worker_credentials import WorkerCredential
from holdfast.wire.functions import ANNOUNCE_PATH, AnnounceAnswer, AnnounceRequest
from holdfast.wire.schedules import (
    DECLARE_PATH,
    DeclareAnswer,
    DeclaredSchedule,
    DeclareRequest,
)

log = logging.getLogger("holdfast.worker")
# A worker waits for its server for as long as it takes.
PATIENCE_SECONDS = 10 * 365 * 86_400.0
# These are less than a server takes.
FUNCTIONS_PER_REQUEST_MAX = 500
BYTES_PER_REQUEST_MAX = 2 << 20
MODULES_PER_REQUEST_MAX = 5000
# The name of a schedule is its function's path, and no longer than that.
MODULE_LENGTH_MAX = 200
_NEVER_DECLARING = {"holdfast", "__main__", *sys.stdlib_module_names}


async def announce_all(
    server: str, worker: WorkerCredential, functions: Collection[TaskFunction[Any, Any]]
) -> None:
    """Announce functions, and declare the schedules that they have."""
    await announce(server, worker, describe_all(functions))
    await declare(server, worker, functions, modules=list_modules())


def list_modules() -> list[str]:
    """List the modules in this process that may have a schedule, or may have had one before."""
    return [
        name
        for name in sorted(sys.modules)
        if name.partition(".")[0] not in _NEVER_DECLARING
        and len(name) <= MODULE_LENGTH_MAX
        and all(part.isidentifier() for part in name.split("."))
    ]


async def announce(
    server: str, worker: WorkerCredential, functions: Sequence[AnnouncedFunction]
) -> None:
    """Announce functions, as soon as the server can be reached; a refusal is logged."""
    for part in _split(functions):
        body = AnnounceRequest(worker.worker_id, part)
        try:
            async with Transport(server) as transport:
                transport.show(worker)
                answer = await transport.insist(
                    "POST", ANNOUNCE_PATH, AnnounceAnswer, body=body, seconds_max=PATIENCE_SECONDS
                )
        except (Refused, Unavailable) as error:
            log.warning(
                "%s functions could not be announced, their options are unknown: %s",
                len(part),
                error,
            )
        else:
            log.info("announced %s functions, %s of them new", len(part), len(answer.changed))
            for path, problem in answer.refused.items():
                log.warning("%s was not taken, its options are unknown: %s", path, problem)


async def declare(
    server: str,
    worker: WorkerCredential,
    functions: Iterable[TaskFunction[Any, Any]],
    *,
    modules: Collection[str],
) -> None:
    """Declare the schedules of functions that a worker can import; a refusal is logged.

    All `modules` are named, since one that has no function left may have had schedules before.
    """
    importable = [function for function in functions if function.is_importable]
    declared = list(_describe_schedules(importable))
    named = sorted({*modules, *(function.function.__module__ for function in importable)})
    for first in range(0, len(named), MODULES_PER_REQUEST_MAX):
        part = named[first : first + MODULES_PER_REQUEST_MAX]
        theirs = set(part)
        mine = [each for each in declared if each.function.partition(":")[0] in theirs]
        await _declare(server, worker, DeclareRequest(worker.worker_id, part, mine))


def _describe_schedules(
    functions: Iterable[TaskFunction[Any, Any]],
) -> Iterator[DeclaredSchedule]:
    """Describe the schedules of functions; one that cannot be called does not stop the others."""
    for function in functions:
        if function.options.schedule is None:
            continue
        try:
            call = request_call(function, (), {})
        except Invalid as error:
            log.warning("the schedule of %s was not taken: %s", function.path, error)
        else:
            yield DeclaredSchedule(function.path, call, function.options.schedule)


async def _declare(server: str, worker: WorkerCredential, body: DeclareRequest) -> None:
    try:
        async with Transport(server) as transport:
            transport.show(worker)
            answer = await transport.insist(
                "POST", DECLARE_PATH, DeclareAnswer, body=body, seconds_max=PATIENCE_SECONDS
            )
    except (Refused, Unavailable) as error:
        # An older server has no schedules; that is worth a word to whoever declares one.
        level = logging.WARNING if body.schedules else logging.DEBUG
        log.log(level, "%s schedules could not be declared: %s", len(body.schedules), error)
    else:
        for name in answer.retired:
            log.info("schedule %s retires: no code declares it any more", name)
        for name, problem in answer.refused.items():
            log.warning("the schedule of %s was not taken: %s", name, problem)


def _split(functions: Sequence[AnnouncedFunction]) -> Iterator[list[AnnouncedFunction]]:
    """Cut functions into parts that a server takes at once."""
    part: list[AnnouncedFunction] = []
    size = 0
    for function in functions:
        length = len(msgspec.json.encode(function))
        if part and (
            len(part) == FUNCTIONS_PER_REQUEST_MAX or size + length > BYTES_PER_REQUEST_MAX
        ):
            yield part
            part, size = [], 0
        part.append(function)
        size += length
    if part:
        yield part
