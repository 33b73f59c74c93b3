"""Policies per type of job: set, taken back and read by operators; every change is kept."""

from typing import Any

import msgspec

from holdfast.errors import Invalid, Refused, TooLarge
from holdfast.ledger.ledger import Ledger
from holdfast.model.policies import PolicyChange, StoredPolicy, TypePolicy
from holdfast.model.shapes import read_tolerantly
from holdfast.rules.policy_check import check_policy, check_type
from holdfast.rules.submission import check_text
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_POLICIES = load_statements("policies")
# Every server keeps them all in memory.
POLICIES_MAX = 10_000
PAGE_MAX = 1000
VERSION_MAX = 2**63 - 1


async def set_policy(
    ledger: Ledger,
    type_name: str,
    policy: TypePolicy,
    *,
    actor: str,
    if_version: int | None = None,
) -> StoredPolicy:
    """Decide for all jobs of a type that are submitted from now on; a repeat changes nothing.

    With `if_version` only if that is still the version of its policy, 0 if there was none.
    """
    check_policy(type_name, policy, ledger.limits)
    check_text("actor", actor, 256)
    return await ledger.write(
        _set_policy, type_name, policy=policy, actor=actor, if_version=if_version
    )


async def _set_policy(
    _: Ledger,
    tx: Transaction,
    type_name: str,
    *,
    policy: TypePolicy,
    actor: str,
    if_version: int | None,
) -> StoredPolicy:
    await tx.fetch(_POLICIES["lock_policies"])
    before = await _find(tx, type_name)
    if before is not None and before.policy == policy:
        return before
    version = 0 if before is None else before.version
    if if_version is not None and version != if_version:
        raise Refused(
            f"the policy of type {type_name} is at version {version}, not {if_version}; "
            "read it and decide again"
        )
    if before is None:
        counted = await tx.fetch_one(_POLICIES["count_policies"])
        if counted is not None and counted[0] >= POLICIES_MAX:
            raise TooLarge("type", counted[0] + 1, POLICIES_MAX, unit="policies")
    version = await _record(tx, type_name, before=before, after=policy, actor=actor)
    stored = await tx.fetch_one(
        _POLICIES["store_policy"],
        type=type_name,
        policy=_write(policy),
        version=version,
        actor=actor,
    )
    return _read(stored)


async def unset_policy(ledger: Ledger, type_name: str, *, actor: str) -> bool:
    """Take a policy back, so that what is built in holds again; False if there was none."""
    check_type(type_name, ledger.limits)
    check_text("actor", actor, 256)
    return await ledger.write(_unset_policy, type_name, actor=actor)


async def _unset_policy(_: Ledger, tx: Transaction, type_name: str, *, actor: str) -> bool:
    await tx.fetch(_POLICIES["lock_policies"])
    before = await _find(tx, type_name)
    if before is None:
        return False
    await _record(tx, type_name, before=before, after=None, actor=actor)
    await tx.fetch(_POLICIES["delete_policy"], type=type_name)
    return True


async def find_policy(ledger: Ledger, type_name: str) -> StoredPolicy | None:
    """Find the policy of a type."""
    check_type(type_name, ledger.limits)
    async with ledger.database.transaction() as tx:
        return await _find(tx, type_name)


async def list_types(
    ledger: Ledger, *, after: str = "", count_max: int = 100
) -> list[tuple[str, StoredPolicy | None]]:
    """List types by name, a page at a time: those with a policy, and those that jobs have."""
    check_text("after", after, ledger.limits.text_length_max)
    _check_count(count_max)
    async with ledger.database.transaction() as tx:
        rows = await tx.fetch(_POLICIES["list_policies"], after=after, batch_max=count_max)
        used = await tx.fetch(_POLICIES["list_job_types"], after=after, batch_max=count_max)
    known: dict[str, StoredPolicy | None] = {row[0]: None for row in used}
    known |= {row[0]: _read(row) for row in rows}
    # By bytes, as the database orders them.
    return sorted(known.items(), key=lambda pair: pair[0].encode())[:count_max]


async def list_changes(
    ledger: Ledger, type_name: str, *, below: int = VERSION_MAX, count_max: int = 100
) -> list[PolicyChange]:
    """List what was changed about a type, the newest first, a page at a time."""
    check_type(type_name, ledger.limits)
    _check_count(count_max)
    async with ledger.database.transaction() as tx:
        rows = await tx.fetch(
            _POLICIES["list_policy_changes"], type=type_name, below=below, batch_max=count_max
        )
    return [
        PolicyChange(version, kind, _parse(before), _parse(after), actor, changed_at)
        for version, kind, before, after, actor, changed_at in rows
    ]


async def _find(tx: Transaction, type_name: str) -> StoredPolicy | None:
    row = await tx.fetch_one(_POLICIES["find_policy"], type=type_name)
    return None if row is None else _read(row)


async def _record(
    tx: Transaction,
    type_name: str,
    *,
    before: StoredPolicy | None,
    after: TypePolicy | None,
    actor: str,
) -> int:
    """Number a change and keep it; every submission from here on notices."""
    row = await tx.fetch_one(_POLICIES["advance_policies"])
    assert row is not None, "the clock of policies is gone"
    version: int = row[0]
    await tx.fetch(
        _POLICIES["record_policy_change"],
        version=version,
        type=type_name,
        before=None if before is None else _write(before.policy),
        after=None if after is None else _write(after),
        actor=actor,
    )
    return version


def _read(row: Any) -> StoredPolicy:
    type_name, text, version, updated_at, updated_by = row
    return StoredPolicy(
        type_name, read_tolerantly(text, TypePolicy), version, updated_at, updated_by
    )


def _parse(text: str | None) -> TypePolicy | None:
    return None if text is None else read_tolerantly(text, TypePolicy)


def _write(policy: TypePolicy) -> str:
    return msgspec.json.encode(policy).decode()


def _check_count(count_max: int) -> None:
    if type(count_max) is not int or not 1 <= count_max <= PAGE_MAX:
        raise Invalid("count_max", f"{count_max!r} is not a whole number from 1 to {PAGE_MAX}")
