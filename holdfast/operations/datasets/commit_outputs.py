"""Commit what tasks have written, in the transaction of their success and fenced by their lease.

The tasks are locked, so a lease that is live here lives until the success is recorded below. The
versions are held until the commit: a cut-over sees all that a completion has written, or none.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast.errors import Invalid, Refused
from holdfast.ledger.moves import JobChanged
from holdfast.model.datasets import OutputEntry
from holdfast.operations.ending.endings import lock_leases
from holdfast.operations.report import Fence, fence_columns
from holdfast.rules.commits import (
    EntryKey,
    NewEntry,
    Standing,
    Target,
    keep_new,
    plan_entries,
    split_rounds,
)
from holdfast.rules.outputs import say_why_not_open
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_DATASETS = load_statements("datasets")
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
    targets = await _find_targets(tx, sorted({commit.fence.task_id.job_id for commit in live}))
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
        and (lease.attempt, lease.lease_token) == commit.fence[1:]
        and not lease.ending
    ]


async def _find_targets(tx: Transaction, job_ids: list[int]) -> dict[int, dict[str, Target]]:
    rows = await tx.fetch(_DATASETS["find_job_outputs"], job_ids=job_ids)
    targets: dict[int, dict[str, Target]] = {}
    for job_id, dataset, version, mode in rows:
        targets.setdefault(job_id, {})[dataset] = Target(version, mode)
    return targets


async def _hold_versions(tx: Transaction, planned: Planned) -> dict[Fence, Refused]:
    """Hold every version that is written to, in order; one that is not open refuses its writers.

    Whoever replaces has it alone: two who replace one partition must not leave a mix of both.
    """
    wanted: dict[tuple[str, int], bool] = {}
    for plan in planned.values():
        for new in plan.values():
            version = new.entry_key[:2]
            wanted[version] = wanted.get(version, False) or new.mode == "replace"
    closed: dict[tuple[str, int], str | None] = {}
    for (dataset, number), is_replaced in sorted(wanted.items()):
        hold = _DATASETS["lock_version" if is_replaced else "hold_version"]
        row = await tx.fetch_one(hold, dataset=dataset, version=number)
        if row is None or row[0] != "open":
            closed[dataset, number] = None if row is None else row[0]
    refused: dict[Fence, Refused] = {}
    for fence, plan in planned.items():
        for new in plan.values():
            if new.entry_key[:2] in closed:
                problem = say_why_not_open(*new.entry_key[:2], closed[new.entry_key[:2]])
                refused[fence] = Invalid(f"outputs[{new.number}].dataset", problem)
                break
    return refused


async def _write(
    tx: Transaction, turn: Mapping[Fence, Mapping[EntryKey, NewEntry]]
) -> dict[Fence, Refused]:
    """Write what completions bring that have nothing to do with each other."""
    standing = await _find_standing(tx, [place for plan in turn.values() for place in plan])
    refused: dict[Fence, Refused] = {}
    kept: dict[Fence, list[NewEntry]] = {}
    for fence, plan in turn.items():
        try:
            kept[fence] = keep_new(plan, standing)
        except Refused as error:
            refused[fence] = error
    if kept:
        await _replace(tx, kept)
        await tx.fetch(
            _DATASETS["insert_commits"],
            **_without_tokens(list(kept)),
            entries=[len(entries) for entries in kept.values()],
        )
        await _insert(tx, kept)
    return refused


async def _find_standing(tx: Transaction, places: Sequence[EntryKey]) -> dict[EntryKey, Standing]:
    rows = await tx.fetch(
        _DATASETS["find_entries"],
        datasets=[place.dataset for place in places],
        versions=[place.version for place in places],
        keys=[place.key for place in places],
    )
    return {EntryKey(*row[:3]): Standing(*row[3:]) for row in rows}


async def _replace(tx: Transaction, kept: Mapping[Fence, Sequence[NewEntry]]) -> None:
    """Remove what stands in partitions that are written anew."""
    partitions = {new.partition for f in kept for new in kept[f] if new.mode == "replace"}
    if partitions:
        ordered = sorted(partitions)
        await tx.fetch(
            _DATASETS["delete_partitions"],
            datasets=[partition[0] for partition in ordered],
            versions=[partition[1] for partition in ordered],
            partition_keys=[partition[2] for partition in ordered],
        )


async def _insert(tx: Transaction, kept: Mapping[Fence, Sequence[NewEntry]]) -> None:
    rows = [(fence, new) for fence, entries in kept.items() for new in entries]
    if not rows:
        return
    written = await tx.fetch(
        _DATASETS["insert_entries"],
        **_without_tokens([fence for fence, _ in rows]),
        datasets=[new.entry_key.dataset for _, new in rows],
        versions=[new.entry_key.version for _, new in rows],
        keys=[new.entry_key.key for _, new in rows],
        partition_keys=[new.partition_key for _, new in rows],
        uris=[new.uri for _, new in rows],
        sizes=[new.size_bytes for _, new in rows],
        checksums=[new.checksum for _, new in rows],
        metadata=[new.metadata for _, new in rows],
    )
    if len(written) < len(rows):
        raise OutputsChanged("a key was committed by somebody else")


def _without_tokens(fences: Sequence[Fence]) -> dict[str, list[object]]:
    return {name: values for name, values in fence_columns(fences).items() if name != "tokens"}
