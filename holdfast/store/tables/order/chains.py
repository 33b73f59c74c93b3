"""The table of chains: the last job of each, which the next one waits for."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from holdfast.model.submitting.spec import ChainKey
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_CHAINS = load_statements("order/chains")


class ChainEnd(NamedTuple):
    """The last job of a chain, and the latest one that had not ended when it was looked for.

    `stop_job_id` is the latest that has failed, after that, and that nobody has let pass.
    """

    job_id: int
    live_job_id: int | None
    live_ended: bool | None
    stop_job_id: int | None


async def lock_chains(tx: Transaction, keys: Iterable[ChainKey]) -> dict[ChainKey, int | None]:
    """Lock chains, in order, until this transaction ends; returns the last job of each."""
    ordered = sorted(set(keys))
    rows = await tx.fetch(
        _CHAINS["lock_chains"],
        owners=[chain.owner for chain in ordered],
        keys=[chain.key for chain in ordered],
    )
    return {ChainKey(owner, key): last_job_id for owner, key, last_job_id in rows}


async def set_last_jobs(tx: Transaction, last: Mapping[ChainKey, int]) -> None:
    """Note the last jobs of locked chains."""
    await tx.fetch(
        _CHAINS["set_last_jobs"],
        owners=[chain.owner for chain in last],
        keys=[chain.key for chain in last],
        job_ids=list(last.values()),
    )


async def find_ends(tx: Transaction, job_ids: Iterable[int]) -> dict[int, ChainEnd]:
    """Hold jobs and who is waited for, so that none ends meanwhile, and say how they stand."""
    rows = await tx.fetch(_CHAINS["find_ends"], job_ids=sorted(job_ids))
    return {row[0]: ChainEnd._make(row) for row in rows}


async def allocate_more_ids(tx: Transaction, count: int) -> list[int]:
    """Give out ids that are above all that have been given out."""
    return sorted(row[0] for row in await tx.fetch(_CHAINS["allocate_more_ids"], count=count))


class LetPass(NamedTuple):
    """Who has waited for a job that has failed, and whether it does so no longer."""

    job_id: int
    is_closed: bool


async def let_pass(tx: Transaction, job_id: int) -> list[LetPass]:
    """Close what waits in a chain for a job that has failed, or have it wait no longer than that.

    Who need not wait for that one, but for the one before it, is handed on before.
    """
    return list(map(LetPass._make, await tx.fetch(_CHAINS["let_pass"], job_id=job_id)))


async def forget_last_job(tx: Transaction, job_id: int) -> bool:
    """Have the next job of the chain wait for none after this one, if this one is its last."""
    return bool(await tx.fetch(_CHAINS["forget_last_job"], job_id=job_id))


async def forget_chains(tx: Transaction, first_job_id: int, end_job_id: int) -> None:
    """Delete chains whose last job is in a range that goes, unless one before it has not ended."""
    await tx.fetch(_CHAINS["keep_chains"], first_job_id=first_job_id, end_job_id=end_job_id)
    await tx.fetch(_CHAINS["forget_chains"], first_job_id=first_job_id, end_job_id=end_job_id)
