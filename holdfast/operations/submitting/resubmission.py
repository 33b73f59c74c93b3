"""Describe jobs that have been there before, so that they can be submitted again."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import NamedTuple

import msgspec

from holdfast.ledger.ledger import Ledger
from holdfast.model.order import Declared, Dependency, Output
from holdfast.model.spec import JobSpec, Submission
from holdfast.rules.order import dependencies_of
from holdfast.rules.outputs import choose_again
from holdfast.store.database import Transaction
from holdfast.store.specs import StoredSpec
from holdfast.store.statements import load_statements

_JOBS = load_statements("jobs")
_ORDER = load_statements("order")
_DATASETS = load_statements("datasets")


class Again(NamedTuple):
    """A job as it is submitted again, but for its inputs."""

    job_id: int
    spec: JobSpec
    compensates_job_id: int | None
    declared: dict[str, Declared]

    def submission(self, inputs: tuple[str, ...]) -> Submission:
        """Describe the new job, with these inputs; replicas have none and run as a whole."""
        return Submission(
            self.spec,
            None if self.spec.replicas is not None else inputs,
            replay_of=self.job_id,
            compensates_job_id=self.compensates_job_id,
            declared=self.declared,
        )


async def describe_again(
    ledger: Ledger, tx: Transaction, job_ids: Collection[int], *, rebind: bool
) -> dict[int, Again]:
    """Describe what these jobs ask for a second time.

    Each waits for what it still needs, and writes the version of the first time while that is open.
    """
    specs = await ledger.specs.load(tx, job_ids)
    unmet = await _find_unmet(tx, job_ids)
    outputs, declared = await _choose_outputs(tx, specs, rebind=rebind)
    return {
        job_id: Again(
            job_id,
            msgspec.structs.replace(
                stored.spec,
                idempotency_key=None,
                not_before=None,
                depends_on=_needed(stored.spec, unmet[job_id]),
                outputs=outputs[job_id],
                correlation_id=stored.correlation_id,
            ),
            stored.compensates_job_id,
            declared[job_id],
        )
        for job_id, stored in specs.items()
    }


async def note_replay(tx: Transaction, replay_of: int, job_id: int, *, actor: str) -> None:
    """Write down with a job that another one runs it again."""
    await tx.fetch(
        _JOBS["record_job_event"],
        job_id=replay_of,
        event_type="replayed",
        actor=actor,
        payload=msgspec.json.encode({"job_id": str(job_id)}).decode(),
    )


def _needed(spec: JobSpec, unmet: set[int]) -> list[str | Dependency]:
    """Leave out of what a job waited for only what was met and has no result for it."""
    used = {result.job for result in spec.entrypoint.results}
    return [
        given
        for given, dependency in zip(spec.depends_on, dependencies_of(spec), strict=True)
        if dependency.job in used or int(dependency.job) in unmet
    ]


async def _find_unmet(tx: Transaction, job_ids: Collection[int]) -> dict[int, set[int]]:
    """Find what jobs still wait for, or have waited for in vain."""
    unmet: dict[int, set[int]] = defaultdict(set)
    for job_id, depends_on in await tx.fetch(
        _ORDER["find_unmet_dependencies"], job_ids=sorted(job_ids)
    ):
        unmet[job_id].add(depends_on)
    return unmet


async def _choose_outputs(
    tx: Transaction, specs: Mapping[int, StoredSpec], *, rebind: bool
) -> tuple[dict[int, list[Output]], dict[int, dict[str, Declared]]]:
    """Choose what replays of jobs write, and say again how the first time was chosen."""
    writers = sorted(job_id for job_id, stored in specs.items() if stored.spec.outputs)
    states: dict[tuple[int, str], str | None] = {}
    declared: dict[int, dict[str, Declared]] = defaultdict(dict)
    if writers:
        rows = await tx.fetch(_DATASETS["find_declared_outputs"], job_ids=writers)
        for job_id, dataset, choice, state in rows:
            states[job_id, dataset] = state
            if choice is not None:
                declared[job_id][dataset] = choice
    outputs = {
        job_id: [
            choose_again(
                output,
                declared[job_id].get(output.dataset),
                states.get((job_id, output.dataset)),
                rebind=rebind,
            )
            for output in stored.spec.outputs
        ]
        for job_id, stored in specs.items()
    }
    return outputs, declared
