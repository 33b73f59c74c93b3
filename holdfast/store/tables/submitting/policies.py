"""The tables of policies: one per type of job, and every change that was made."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from holdfast.model.shapes import read_tolerantly
from holdfast.model.submitting.policies import PolicyChange, StoredPolicy, TypePolicy
from holdfast.model.workers.functions import FunctionOptions
from holdfast.store.database import Database, Transaction
from holdfast.store.statements import load_statements
from holdfast.store.tables.workers.functions import read_function_options

_POLICIES = load_statements("submitting/policies")


class PolicyBook(NamedTuple):
    """Every policy as of one moment, and the options of announced functions.

    `version` counts the changes of both up to it.
    """

    version: int
    by_type: Mapping[str, TypePolicy]
    functions: Mapping[str, FunctionOptions] = {}


NO_CHANGES = PolicyBook(0, {})


async def load_policies(database: Database) -> PolicyBook:
    """Read all policies and the version that they make up, in one statement.

    Options of functions are read after it: should they be newer, the version will say so next time.
    """
    rows = await database.fetch(_POLICIES["read_policies"])
    by_type = {row[1]: read_tolerantly(row[2], TypePolicy) for row in rows if row[1] is not None}
    return PolicyBook(rows[0][0], by_type, await read_function_options(database))


async def lock_policies(tx: Transaction) -> None:
    """Let changes come one after another."""
    await tx.fetch(_POLICIES["lock_policies"])


async def find_policy(tx: Transaction, type_name: str) -> StoredPolicy | None:
    """Find the policy of a type."""
    row = await tx.fetch_one(_POLICIES["find_policy"], type=type_name)
    return None if row is None else _read(row)


async def count_policies(tx: Transaction) -> int:
    """Count the types that have a policy."""
    row = await tx.fetch_one(_POLICIES["count_policies"])
    assert row is not None, "a count has a row"
    count: int = row[0]
    return count


async def list_policies(tx: Transaction, *, after: str, batch_max: int) -> list[StoredPolicy]:
    """List policies by the names of their types."""
    rows = await tx.fetch(_POLICIES["list_policies"], after=after, batch_max=batch_max)
    return list(map(_read, rows))


async def list_job_types(tx: Transaction, *, after: str, batch_max: int) -> list[str]:
    """List by name the types that jobs have."""
    rows = await tx.fetch(_POLICIES["list_job_types"], after=after, batch_max=batch_max)
    return [row[0] for row in rows]


async def store_policy(
    tx: Transaction, type_name: str, policy: TypePolicy, *, version: int, actor: str
) -> StoredPolicy:
    """Store the policy of a type in the place of the last one."""
    row = await tx.fetch_one(
        _POLICIES["store_policy"],
        type=type_name,
        policy=_write(policy),
        version=version,
        actor=actor,
    )
    return _read(row)


async def delete_policy(tx: Transaction, type_name: str) -> None:
    """Delete the policy of a type."""
    await tx.fetch(_POLICIES["delete_policy"], type=type_name)


class NewPolicyChange(NamedTuple):
    """What a change makes of a policy; None where there is none."""

    type: str
    before: TypePolicy | None
    after: TypePolicy | None
    actor: str


async def record_policy_change(tx: Transaction, change: NewPolicyChange) -> int:
    """Number a change and keep it; every submission from here on notices."""
    row = await tx.fetch_one(_POLICIES["advance_policies"])
    assert row is not None, "the clock of policies is gone"
    version: int = row[0]
    await tx.fetch(
        _POLICIES["record_policy_change"],
        version=version,
        type=change.type,
        before=None if change.before is None else _write(change.before),
        after=None if change.after is None else _write(change.after),
        actor=change.actor,
    )
    return version


async def list_policy_changes(
    tx: Transaction, type_name: str, *, below: int, batch_max: int
) -> list[PolicyChange]:
    """List what was changed about a type, the newest first."""
    rows = await tx.fetch(
        _POLICIES["list_policy_changes"], type=type_name, below=below, batch_max=batch_max
    )
    return [
        PolicyChange(version, kind, _parse(before), _parse(after), actor, changed_at)
        for version, kind, before, after, actor, changed_at in rows
    ]


def _read(row: Any) -> StoredPolicy:
    type_name, text, version, updated_at, updated_by = row
    return StoredPolicy(
        type_name, read_tolerantly(text, TypePolicy), version, updated_at, updated_by
    )


def _parse(text: str | None) -> TypePolicy | None:
    return None if text is None else read_tolerantly(text, TypePolicy)


def _write(policy: TypePolicy) -> str:
    return msgspec.json.encode(policy).decode()
