"""The routes for types of jobs: what they are, and the policies that operators set for them."""

from typing import Annotated

import msgspec

from holdfast.api.convert import to_ms
from holdfast.api.endpoint import Call, Endpoint
from holdfast.api.pages import Place, Text, check_page_size, read_token, write_token
from holdfast.errors import NotFound
from holdfast.model.policies import PolicyChange, StoredPolicy, TypePolicy
from holdfast.operations import policies
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
)
from holdfast.wire.requests import Nothing
from holdfast.wire.status import Changed


class TypePlace(Place, frozen=True):
    """A type."""

    type: Text


class ChangePlace(Place, frozen=True):
    """A change of a policy."""

    version: Annotated[int, msgspec.Meta(ge=0, le=policies.VERSION_MAX)]


async def list_types(call: Call[None, TypeListQuery]) -> TypePage:
    """List types by name: those that jobs have, and those with a policy."""
    asked = call.query
    page_size, place = check_page_size(asked.page_size), read_token(asked.page_token, TypePlace)
    after = "" if place is None else place.type
    found = await policies.list_types(call.runtime.ledger, after=after, count_max=page_size)
    following = TypePlace(found[-1][0]) if len(found) == page_size else None
    return TypePage([_status(name, policy) for name, policy in found], write_token(following))


async def show_type(call: Call[None, Nothing]) -> TypeStatus:
    """Show the policy of a type; one that has none follows the built-in defaults."""
    name = call.path["type"]
    return _status(name, await policies.find_policy(call.runtime.ledger, name))


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
    page_size, place = check_page_size(asked.page_size), read_token(asked.page_token, ChangePlace)
    below = policies.VERSION_MAX if place is None else place.version
    name = call.path["type"]
    found = await policies.list_changes(call.runtime.ledger, name, below=below, count_max=page_size)
    if not found and place is None:
        raise NotFound("policy of type", name)
    following = ChangePlace(found[-1].version) if len(found) == page_size else None
    return PolicyHistory([_change(change) for change in found], write_token(following))


def _status(name: str, stored: StoredPolicy | None) -> TypeStatus:
    if stored is None:
        return TypeStatus(type=name)
    return TypeStatus(
        type=name,
        defaults=stored.policy.defaults,
        limits=stored.policy.limits,
        version=stored.version,
        updated_at_ms=to_ms(stored.updated_at),
        updated_by=stored.updated_by,
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
ENDPOINTS = (
    Endpoint("GET", LIST_PATH, list_types, TypePage, query=TypeListQuery),
    Endpoint("GET", f"{_TYPE}/history", list_history, PolicyHistory, query=PolicyHistoryQuery),
    Endpoint("GET", _TYPE, show_type, TypeStatus),
    Endpoint("PUT", _TYPE, put_policy, TypeStatus, body=PolicyRequest, also={409: ErrorAnswer}),
    Endpoint("DELETE", _TYPE, remove_policy, Changed),
)
