"""The routes for types of jobs: what they are, and the policies that operators set for them."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated

import msgspec

from holdfast.api.convert import to_ms
from holdfast.api.page_tokens import PageToken, Text, check_page_size, read_token, write_token
from holdfast.api.route import Call, Route
from holdfast.errors import NotFound
from holdfast.model.access.roles import Role
from holdfast.model.submitting.policies import PolicyChange, StoredPolicy, TypePolicy
from holdfast.operations import policies
from holdfast.rules.quantiles import quantile_ms
from holdfast.services.runtime import Runtime
from holdfast.store.reads.upkeep.samples import read_type_times
from holdfast.wire.answers import ErrorAnswer
from holdfast.wire.policies import (
    LIST_PATH,
    PolicyChangeStatus,
    PolicyContent,
    PolicyHistory,
    PolicyHistoryQuery,
    PolicyRequest,
    TypeListQuery,
    TypePage,
    TypeStatus,
    TypeTimes,
)
from holdfast.wire.requests import Nothing
from holdfast.wire.status import Changed

MEASURED = timedelta(hours=1)


class TypeToken(PageToken, frozen=True):
    """A type."""

    type: Text


class ChangeToken(PageToken, frozen=True):
    """A change of a policy."""

    version: Annotated[int, msgspec.Meta(ge=0, le=policies.VERSION_MAX)]


async def list_types(call: Call[None, TypeListQuery]) -> TypePage:
    """List types by name: those that jobs have, and those with a policy."""
    asked = call.query
    page_size, token = check_page_size(asked.page_size), read_token(asked.page_token, TypeToken)
    after = "" if token is None else token.type
    found = await policies.list_types(call.runtime.ledger, after=after, count_max=page_size)
    times = await _read_times(call.runtime, [name for name, _ in found])
    following = TypeToken(found[-1][0]) if len(found) == page_size else None
    types = [_status(name, policy, times.get(name)) for name, policy in found]
    return TypePage(types, write_token(following))


async def show_type(call: Call[None, Nothing]) -> TypeStatus:
    """Show the policy of a type, and how long its attempts wait and run."""
    name = call.path["type"]
    stored = await policies.find_policy(call.runtime.ledger, name)
    times = await _read_times(call.runtime, [name])
    return _status(name, stored, times.get(name))


async def _read_times(runtime: Runtime, names: Sequence[str]) -> dict[str, TypeTimes]:
    async with runtime.reads.transaction() as tx:
        found = await read_type_times(tx, await tx.now() - MEASURED, names)
    return {
        name: TypeTimes(
            attempts=times.attempts,
            failures=times.failures,
            wait_p50_ms=quantile_ms(times.waits, 0.5),
            wait_p95_ms=quantile_ms(times.waits, 0.95),
            run_p50_ms=quantile_ms(times.runs, 0.5),
            run_p95_ms=quantile_ms(times.runs, 0.95),
        )
        for name, times in found.items()
    }


async def put_policy(call: Call[PolicyRequest, Nothing]) -> TypeStatus:
    """Set the whole policy of a type, for jobs that are submitted from now on."""
    asked = call.body
    name = call.path["type"]
    stored = await policies.set_policy(
        call.runtime.ledger,
        name,
        TypePolicy(asked.defaults, asked.limits),
        actor=call.actor,
        if_version=asked.if_version,
    )
    return _status(name, stored)


async def remove_policy(call: Call[None, Nothing]) -> Changed:
    """Take the policy of a type back; doing it twice is harmless."""
    ledger, name = call.runtime.ledger, call.path["type"]
    return Changed(await policies.unset_policy(ledger, name, actor=call.actor))


async def list_history(call: Call[None, PolicyHistoryQuery]) -> PolicyHistory:
    """List every change of a type's policy, the newest first."""
    asked = call.query
    page_size, token = check_page_size(asked.page_size), read_token(asked.page_token, ChangeToken)
    below = policies.VERSION_MAX if token is None else token.version
    name = call.path["type"]
    found = await policies.list_changes(call.runtime.ledger, name, below=below, count_max=page_size)
    if not found and token is None:
        raise NotFound("policy of type", name)
    following = ChangeToken(found[-1].version) if len(found) == page_size else None
    return PolicyHistory([_change(change) for change in found], write_token(following))


def _status(name: str, stored: StoredPolicy | None, times: TypeTimes | None = None) -> TypeStatus:
    if stored is None:
        return TypeStatus(type=name, times=times)
    return TypeStatus(
        type=name,
        defaults=stored.policy.defaults,
        limits=stored.policy.limits,
        version=stored.version,
        updated_at_ms=to_ms(stored.updated_at),
        updated_by=stored.updated_by,
        times=times,
    )


def _change(change: PolicyChange) -> PolicyChangeStatus:
    return PolicyChangeStatus(
        version=change.version,
        type=change.type,
        before=_content(change.before),
        after=_content(change.after),
        actor=change.actor,
        changed_at_ms=to_ms(change.changed_at),
    )


def _content(policy: TypePolicy | None) -> PolicyContent | None:
    return None if policy is None else PolicyContent(policy.defaults, policy.limits)


_TYPE = f"{LIST_PATH}/{{type:path}}"
# The history first: the name of a type may hold slashes.
ROUTES = (
    Route("GET", LIST_PATH, list_types, TypePage, Role.READ, query=TypeListQuery),
    Route(
        "GET", f"{_TYPE}/history", list_history, PolicyHistory, Role.READ, query=PolicyHistoryQuery
    ),
    Route("GET", _TYPE, show_type, TypeStatus, Role.READ),
    Route(
        "PUT",
        _TYPE,
        put_policy,
        TypeStatus,
        Role.ADMIN,
        body=PolicyRequest,
        also={409: ErrorAnswer},
    ),
    Route("DELETE", _TYPE, remove_policy, Changed, Role.ADMIN),
)
