"""Take the word of workers on which functions they have, and how the jobs of those are to run."""

from collections.abc import Set
from typing import NamedTuple

import msgspec

from holdfast.errors import Invalid, TooLarge
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Entrypoint, JobSpec, Submission
from holdfast.model.work.ids import check_worker_id
from holdfast.model.workers.functions import AnnouncedFunction
from holdfast.rules.submitting.announced import add_announced
from holdfast.rules.submitting.submission import check_json, check_text, complete_submission
from holdfast.store.database import Transaction
from holdfast.store.tables.submitting.policies import load_policies
from holdfast.store.tables.workers.functions import (
    StoredFunction,
    advance_functions,
    announce_functions,
    drop_old_functions,
    find_function,
    list_functions,
    list_functions_beyond,
)

PATH_LENGTH_MAX = 512
ANNOUNCED_MAX = 1000
ANNOUNCED_BYTES_MAX = 4 << 20
# Every server keeps the options of them all in memory.
FUNCTIONS_MAX = 10_000


class Announcement(NamedTuple):
    """The functions whose options have changed, and what is wrong with those not taken."""

    changed: list[str]
    refused: dict[str, str]


async def announce(
    ledger: Ledger,
    worker_id: str,
    functions: list[AnnouncedFunction],
    *,
    queues: Set[str] = frozenset(),
) -> Announcement:
    """Keep what a worker says of its functions; of all workers, the latest word counts.

    One whose jobs would all be refused does not keep the others out. A worker that is kept to
    `queues` speaks for jobs that name one of them, and of no function that is announced for others.
    """
    check_worker_id(worker_id)
    if len(functions) > ANNOUNCED_MAX:
        raise TooLarge("functions", len(functions), ANNOUNCED_MAX, unit="functions")
    size = len(msgspec.json.encode(functions))
    if size > ANNOUNCED_BYTES_MAX:
        raise TooLarge("functions", size, ANNOUNCED_BYTES_MAX)
    taken: dict[str, AnnouncedFunction] = {}
    refused: dict[str, str] = {}
    for function in functions:
        try:
            _check(function, ledger)
            taken[function.path] = _narrowed(function, queues)
        except Invalid as error:
            refused[function.path[:PATH_LENGTH_MAX]] = str(error)
    changed: list[str] = []
    if taken:
        changed, beyond = await ledger.write(
            _announce, list(taken.values()), worker_id=worker_id, queues=queues
        )
        refused |= {path: _of_others(queue) for path, queue in beyond.items()}
    if changed:
        # Not needed, but then the next job does not have to be completed twice, which costs an id.
        ledger.policies = await load_policies(ledger.database)
    return Announcement(changed, refused)


async def _announce(
    _: Ledger,
    tx: Transaction,
    functions: list[AnnouncedFunction],
    *,
    worker_id: str,
    queues: Set[str],
) -> tuple[list[str], dict[str, str | None]]:
    changed = await announce_functions(tx, functions, announced_by=worker_id, queues=queues)
    if changed:
        await drop_old_functions(tx, functions_max=FUNCTIONS_MAX)
        await advance_functions(tx)
    if not queues:
        return changed, {}
    paths = [function.path for function in functions]
    return changed, await list_functions_beyond(tx, paths, queues=queues)


async def list_announced(ledger: Ledger, *, after: str, count_max: int) -> list[StoredFunction]:
    """List the functions that workers have announced, by path."""
    async with ledger.database.transaction() as tx:
        return await list_functions(tx, after=after, batch_max=count_max)


async def find_announced(ledger: Ledger, path: str) -> StoredFunction | None:
    """Find a function that workers have announced."""
    check_text("function", path, PATH_LENGTH_MAX)
    async with ledger.database.transaction() as tx:
        return await find_function(tx, path)


def _narrowed(function: AnnouncedFunction, queues: Set[str]) -> AnnouncedFunction:
    """Keep a function to its queue, if whoever announces it is kept to queues."""
    if not queues:
        return function
    if function.options.queue not in queues:
        named = ", ".join(sorted(queues))
        problem = f"is none of those that this token is for; it announces functions of {named}"
        raise Invalid("options.queue", problem)
    options = msgspec.structs.replace(function.options, only_in_queue=True)
    return msgspec.structs.replace(function, options=options)


def _of_others(queue: str | None) -> str:
    announced = "placed work" if queue is None else f"the queue {queue}"
    return (
        f"it is announced for {announced}, which this token is not for; a worker whose token "
        "names no queues may change that"
    )


def _check(function: AnnouncedFunction, ledger: Ledger) -> None:
    """Refuse options with which no job of the function would be taken."""
    check_text("path", function.path, PATH_LENGTH_MAX)
    if function.doc is not None:
        check_text("doc", function.doc, ledger.limits.error_length_max)
    if function.options.only_in_queue and function.options.queue is None:
        raise Invalid("options.only_in_queue", "goes with a queue; name it")
    parameters = msgspec.json.encode(function.parameters).decode()
    check_json("parameters", parameters, ANNOUNCED_BYTES_MAX)
    job = Submission(JobSpec(entrypoint=Entrypoint(function=function.path)))
    spec = add_announced(job, {function.path: function.options})
    complete_submission(msgspec.structs.replace(job, spec=spec), ledger.limits)
