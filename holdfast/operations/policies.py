"""Policies per type of job: set, taken back and read by operators; every change is kept."""

from holdfast.errors import Invalid, Refused, TooLarge
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.policies import PolicyChange, StoredPolicy, TypePolicy
from holdfast.rules.policies.check import check_policy, check_type, count_retries
from holdfast.rules.submitting.submission import check_text
from holdfast.store.database import Transaction
from holdfast.store.tables.access.actions import NewAction, record_actions
from holdfast.store.tables.submitting import policies
from holdfast.store.tables.submitting.policies import NewPolicyChange

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
    policy = count_retries(policy)
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
    await policies.lock_policies(tx)
    before = await policies.find_policy(tx, type_name)
    if before is not None and before.policy == policy:
        return before
    version = 0 if before is None else before.version
    if if_version is not None and version != if_version:
        raise Refused(
            f"the policy of type {type_name} is at version {version}, not {if_version}; "
            "read it and decide again"
        )
    if before is None:
        count = await policies.count_policies(tx)
        if count >= POLICIES_MAX:
            raise TooLarge("type", count + 1, POLICIES_MAX, unit="policies")
    change = NewPolicyChange(type_name, None if before is None else before.policy, policy, actor)
    version = await policies.record_policy_change(tx, change)
    did = NewAction(actor, "set_policy", "type", type_name, facts={"version": version})
    await record_actions(tx, [did])
    return await policies.store_policy(tx, type_name, policy, version=version, actor=actor)


async def unset_policy(ledger: Ledger, type_name: str, *, actor: str) -> bool:
    """Take a policy back, so that what is built in holds again; False if there was none."""
    check_type(type_name, ledger.limits)
    check_text("actor", actor, 256)
    return await ledger.write(_unset_policy, type_name, actor=actor)


async def _unset_policy(_: Ledger, tx: Transaction, type_name: str, *, actor: str) -> bool:
    await policies.lock_policies(tx)
    before = await policies.find_policy(tx, type_name)
    if before is None:
        return False
    change = NewPolicyChange(type_name, before.policy, None, actor)
    version = await policies.record_policy_change(tx, change)
    did = NewAction(actor, "unset_policy", "type", type_name, facts={"version": version})
    await record_actions(tx, [did])
    await policies.delete_policy(tx, type_name)
    return True


async def find_policy(ledger: Ledger, type_name: str) -> StoredPolicy | None:
    """Find the policy of a type."""
    check_type(type_name, ledger.limits)
    async with ledger.database.transaction() as tx:
        return await policies.find_policy(tx, type_name)


async def list_types(
    ledger: Ledger, *, after: str = "", count_max: int = 100
) -> list[tuple[str, StoredPolicy | None]]:
    """List types by name, a page at a time: those with a policy, and those that jobs have."""
    check_text("after", after, ledger.limits.text_length_max)
    _check_count(count_max)
    async with ledger.database.transaction() as tx:
        stored = await policies.list_policies(tx, after=after, batch_max=count_max)
        used = await policies.list_job_types(tx, after=after, batch_max=count_max)
    known: dict[str, StoredPolicy | None] = dict.fromkeys(used)
    known |= {policy.type: policy for policy in stored}
    # By bytes, as the database orders them.
    return sorted(known.items(), key=lambda pair: pair[0].encode())[:count_max]


async def list_changes(
    ledger: Ledger, type_name: str, *, below: int = VERSION_MAX, count_max: int = 100
) -> list[PolicyChange]:
    """List what was changed about a type, the newest first, a page at a time."""
    check_type(type_name, ledger.limits)
    _check_count(count_max)
    async with ledger.database.transaction() as tx:
        return await policies.list_policy_changes(tx, type_name, below=below, batch_max=count_max)


def _check_count(count_max: int) -> None:
    if type(count_max) is not int or not 1 <= count_max <= PAGE_MAX:
        raise Invalid("count_max", f"{count_max!r} is not a whole number from 1 to {PAGE_MAX}")
