"""What operators ask of a server about types of jobs; each function blocks."""

from typing import Any, TypeVar

from holdfast.client.client import Client
from holdfast.wire.policies import (
    LIST_PATH,
    PolicyChangeStatus,
    PolicyHistory,
    PolicyHistoryQuery,
    PolicyRequest,
    TypeListQuery,
    TypePage,
    TypeStatus,
    type_path,
)
from holdfast.wire.status import Changed

Answer = TypeVar("Answer")
PAGE_MAX = 1000


def list_types(client: Client, count_max: int) -> list[TypeStatus]:
    """List types by name: those that jobs have, and those with a policy."""
    found: list[TypeStatus] = []
    token: str | None = None
    while len(found) < count_max:
        query = TypeListQuery(min(count_max - len(found), PAGE_MAX), token)
        page = client.loop_thread.run(client.read(LIST_PATH, TypePage, query=query))
        found += page.types
        token = page.next_page_token
        if token is None:
            break
    return found


def get_type(client: Client, type_name: str) -> TypeStatus:
    """Read the policy of a type; its version is 0 if it has none."""
    return client.loop_thread.run(client.read(type_path(type_name), TypeStatus))


def set_policy(client: Client, type_name: str, request: PolicyRequest) -> TypeStatus:
    """Set the whole policy of a type."""
    return _call(client, "PUT", type_path(type_name), returns=TypeStatus, body=request)


def unset_policy(client: Client, type_name: str) -> bool:
    """Take the policy of a type back; False if it had none."""
    return _call(client, "DELETE", type_path(type_name), returns=Changed).changed


def list_changes(client: Client, type_name: str, count_max: int) -> list[PolicyChangeStatus]:
    """List the changes of a type's policy, the newest first."""
    found: list[PolicyChangeStatus] = []
    token: str | None = None
    while len(found) < count_max:
        query = PolicyHistoryQuery(min(count_max - len(found), PAGE_MAX), token)
        path = f"{type_path(type_name)}/history"
        page = client.loop_thread.run(client.read(path, PolicyHistory, query=query))
        found += page.changes
        token = page.next_page_token
        if token is None:
            break
    return found


def _call(
    client: Client, method: str, path: str, *, returns: type[Answer], body: Any = None
) -> Answer:
    calling = client._transport.insist(
        method, path, returns, body=body, seconds_max=client._patience
    )
    return client.loop_thread.run(calling)
