"""Commit what tasks have written, in the transaction of their success and fenced by their lease.

The tasks are locked, so a lease that is live here lives until the success is recorded below. The
versions are held until the commit: a cut-over sees all that a completion has written, or none.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast.errors import Invalid, Refused
from holdfast.model.datasets import OutputEntry
from holdfast.model.work.fence import Fence
from holdfast.rules.commits import (
    EntryKey,
    NewEntry,
    keep_new,
    plan_entries,
    split_rounds,
)
from holdfast.rules.submitting.outputs import explain_closed_version
from holdfast.store.database import JobChanged, Transaction
from holdfast.store.tables.datasets.entries import (
    Writer,
    delete_partitions,
    find_entries,
    insert_commits,
    insert_entries,
)
from holdfast.store.tables.datasets.outputs import find_job_outputs
from holdfast.store.tables.datasets.versions import (
    Version,
    VersionState,
    hold_version,
    lock_version,
)
from holdfast.store.tables.work.leases import lock_leases

Planned = dict[Fence, dict[EntryKey, NewEntry]]


class OutputsChanged(JobChanged):
    """Somebody has committed one of the same keys meanwhile: the transaction has to run again."""


class Commit(NamedTuple):
    """What an attempt says it has written."""

    fence: Fence
    entries: Sequence[OutputEntry]


async def commit_outputs(tx: Transaction, commits: Sequence[Commit]) -> dict[Fence, Refused]:
    """Write the entries of attempts that hold a live lease; says which are refused, and why.

    Raises OutputsChanged. Those without a live lease are left to be answered as everybody else.
    """
    live = await _find_live(tx, commits)
    if not live:
        return {}
    refused: dict[Fence, Refused] = {}
    planned: Planned = {}
    targets = await find_job_outputs(tx, {commit.fence.task_id.job_id for commit in live})
    for fence, entries in live:
        try:
            planned[fence] = plan_entries(entries, targets.get(fence.task_id.job_id, {}))
        except Refused as error:
            refused[fence] = error
    refused |= await _hold_versions(tx, planned)
    for turn in split_rounds({f: plan for f, plan in planned.items() if f not in refused}):
        refused |= await _write(tx, turn)
    return refused


async def _find_live(tx: Transaction, commits: Sequence[Commit]) -> list[Commit]:
    leases = await lock_leases(tx, [commit.fence.task_id for commit in commits])
    return [
        commit
        for commit in commits
        if (lease := leases.get(commit.fence.task_id)) is not None
        and lease.fence == commit.fence
        and not lease.ending
    ]


async def _hold_versions(tx: Transaction, planned: Planned) -> dict[Fence, Refused]:
    """Hold every version that is written to, in order; one that is not open refuses its writers.

    Whoever replaces has it alone: two who replace one partition must not leave a mix of both.
    """
    wanted: dict[Version, bool] = {}
    for plan in planned.values():
        for new in plan.values():
            version = _version_of(new)
            wanted[version] = wanted.get(version, False) or new.mode == "replace"
    closed: dict[Version, VersionState | None] = {}
    for version, is_replaced in sorted(wanted.items()):
        state = await (lock_version(tx, version) if is_replaced else hold_version(tx, version))
        if state != "open":
            closed[version] = state
    refused: dict[Fence, Refused] = {}
    for fence, plan in planned.items():
        for new in plan.values():
            version = _version_of(new)
            if version in closed:
                problem = explain_closed_version(*version, closed[version])
                refused[fence] = Invalid(f"outputs[{new.number}].dataset", problem)
                break
    return refused


async def _write(
    tx: Transaction, turn: Mapping[Fence, Mapping[EntryKey, NewEntry]]
) -> dict[Fence, Refused]:
    """Write what completions bring that have nothing to do with each other."""
    standing = await find_entries(tx, [key for plan in turn.values() for key in plan])
    refused: dict[Fence, Refused] = {}
    kept: dict[Fence, list[NewEntry]] = {}
    for fence, plan in turn.items():
        try:
            kept[fence] = keep_new(plan, standing)
        except Refused as error:
            refused[fence] = error
    if kept:
        await _replace(tx, kept)
        commits = [(_writer_of(fence), len(entries)) for fence, entries in kept.items()]
        await insert_commits(tx, commits)
        await _insert(tx, kept)
    return refused


async def _replace(tx: Transaction, kept: Mapping[Fence, Sequence[NewEntry]]) -> None:
    """Remove what stands in partitions that are written anew."""
    partitions = {new.partition for f in kept for new in kept[f] if new.mode == "replace"}
    if partitions:
        await delete_partitions(tx, sorted(partitions))


async def _insert(tx: Transaction, kept: Mapping[Fence, Sequence[NewEntry]]) -> None:
    new = [(_writer_of(fence), entry) for fence, entries in kept.items() for entry in entries]
    if new and await insert_entries(tx, new) < len(new):
        raise OutputsChanged("a key was committed by somebody else")


def _writer_of(fence: Fence) -> Writer:
    return Writer(fence.task_id, fence.attempt)


def _version_of(entry: NewEntry) -> Version:
    return Version(entry.entry_key.dataset, entry.entry_key.version)
