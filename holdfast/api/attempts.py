"""An attempt that calls in its own name: by its lease, for what the routes declare, and no more."""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Protocol
from uuid import UUID

from holdfast.errors import Invalid, NotAllowed
from holdfast.model.access.callers import Caller
from holdfast.model.access.roles import Role
from holdfast.model.work.fence import Fence, check_fence
from holdfast.model.work.ids import parse_job_id, parse_task_id
from holdfast.operations.own_attempt import (
    check_children,
    check_lease,
    list_given,
    load_own,
    name_attempt,
)
from holdfast.services.runtime import Runtime
from holdfast.wire import attempt_calls

LEASE_HEADER = attempt_calls.LEASE_HEADER.lower().encode()
# It sees its children as whoever has submitted them.
_ROLES = frozenset({Role.READ, Role.CONTENT})


class AttemptMay(Enum):
    """Whether an attempt may call a route by its lease; a job in the path is a child of its own."""

    NO = "no"
    LIVE = "while it runs"
    ENDING_TOO = "until its lease is released"


class NamesLease(Protocol):
    """A body, or a part of one, that names the lease it is about."""

    @property
    def task_id(self) -> str:
        """The task."""

    @property
    def attempt(self) -> int:
        """The attempt."""

    @property
    def lease_token(self) -> UUID:
        """What proves it."""


def read_lease(headers: Mapping[bytes, bytes]) -> Fence | None:
    """Read which lease a request shows, if it shows one."""
    shown = headers.get(LEASE_HEADER)
    if shown is None:
        return None
    try:
        task_id, attempt, token = shown.decode().split()
        fence = Fence(parse_task_id(task_id), int(attempt), UUID(token))
        check_fence(fence)
    except (ValueError, Invalid) as error:
        raise Invalid("Holdfast-Lease", "is not `TASK_ID ATTEMPT LEASE_TOKEN`") from error
    return fence


async def admit_attempt(
    runtime: Runtime, fence: Fence, may: AttemptMay, *, path: Mapping[str, str], what: str
) -> Caller:
    """Take an attempt for the caller of a route; raises NotAllowed or LeaseConflict."""
    name = f"attempt {name_attempt(fence)}"
    if may is AttemptMay.NO:
        raise NotAllowed(
            f"{what} is not for the lease of {name}, which may act for itself and for its children "
            "alone; use a token: a job may have one of its own in its environment",
            lacks="a token",
        )
    async with runtime.lease_looks, runtime.reads.transaction() as tx:
        await check_lease(tx, fence, also_ending=may is AttemptMay.ENDING_TOO)
        own = await load_own(tx, runtime.ledger.specs, fence)
        await check_children(tx, fence, _list_jobs(path))
    owners = frozenset(filter(None, [own.spec.owner]))
    return Caller(name, _ROLES, owners, attempt=fence)


def check_named(caller: Caller, named: NamesLease) -> Fence:
    """Take the lease that a body names; an attempt that calls can name no other than its own."""
    fence = Fence(parse_task_id(named.task_id), named.attempt, named.lease_token)
    if caller.attempt not in (None, fence):
        raise NotAllowed(
            f"the body names another lease than that of {caller.name}, which calls; an attempt "
            "speaks for itself alone",
            lacks=f"the lease of task {fence.task_id}",
        )
    return fence


async def check_given(runtime: Runtime, fence: Fence, job_ids: Iterable[int]) -> None:
    """Refuse jobs to wait for, and to have results of, that an attempt has nothing to do with."""
    async with runtime.reads.transaction() as tx:
        given = await list_given(tx, runtime.ledger.specs, fence)
        await check_children(tx, fence, job_ids, besides=given)


def _list_jobs(path: Mapping[str, str]) -> list[int]:
    if "job_id" in path:
        return [parse_job_id(path["job_id"])]
    return [parse_task_id(path["task_id"]).job_id] if "task_id" in path else []
