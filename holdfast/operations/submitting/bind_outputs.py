"""Bind new jobs to the versions of datasets that their tasks will fill.

A version that a job is being bound to is held until the job is stored: a cut-over comes before, and
the job is refused, or after, and finds it. Versions that are opened for jobs go with them if they
turn out not to be new.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

import msgspec

from holdfast.errors import Invalid, Refused
from holdfast.model.submitting.order import Output
from holdfast.operations.submitting.admit import Admitted
from holdfast.rules.submitting.outputs import declare, explain_closed_version
from holdfast.store.database import Transaction
from holdfast.store.tables.datasets.outputs import NewJobOutput, insert_job_outputs
from holdfast.store.tables.datasets.versions import (
    Version,
    VersionState,
    delete_versions_of_submission,
    find_open_versions,
    hold_version,
    let_version_be_replaced,
    lock_datasets,
    lock_version,
    open_version,
)


async def bind_outputs(
    tx: Transaction, jobs: list[Admitted]
) -> tuple[list[Admitted], dict[int, Refused]]:
    """Put the numbers of versions into the specs of jobs; says which are refused, and why."""
    declared = [job for job in jobs if job.spec.outputs]
    if not declared:
        return jobs, {}
    names = {output.dataset for job in declared for output in job.spec.outputs}
    await _lock_datasets_to_open(tx, declared)
    newest = await find_open_versions(tx, names)
    refused: dict[int, Refused] = {}
    chosen: dict[int, list[Output]] = {}
    for job in declared:
        try:
            chosen[job.job_id] = _choose(job.spec.outputs, newest)
        except Refused as error:
            refused[job.job_id] = error
    states = await _hold(tx, [output for outputs in chosen.values() for output in outputs])
    bound: dict[int, list[Output]] = {}
    for job in declared:
        outputs = chosen.get(job.job_id)
        if outputs is None:
            continue
        try:
            _check_open(outputs, states)
        except Refused as error:
            refused[job.job_id] = error
            continue
        bound[job.job_id] = await _open_new(tx, job, outputs)
    return [_with_outputs(job, bound.get(job.job_id)) for job in jobs], refused


async def keep_bindings(tx: Transaction, jobs: Iterable[Admitted], new: Collection[int]) -> None:
    """Store which versions new jobs are bound to; what was opened for others goes again."""
    bound = [job for job in jobs if job.spec.outputs]
    if unwanted := [job.job_id for job in bound if job.job_id not in new]:
        await forget_versions(tx, unwanted)
    outputs = [output for a in bound if a.job_id in new for output in _list_outputs(a)]
    if outputs:
        await insert_job_outputs(tx, outputs)
    replaced = {Version(o.dataset, o.version) for o in outputs if o.mode == "replace"}
    for version in sorted(replaced):
        await let_version_be_replaced(tx, version)


def _list_outputs(job: Admitted) -> Iterator[NewJobOutput]:
    """List what a job is bound to; every version has its number by now."""
    declared = job.submission.declared or {}
    for output in job.spec.outputs:
        assert isinstance(output.version, int), "an output is bound to no version"
        yield NewJobOutput(
            job.job_id,
            output.dataset,
            output.version,
            output.mode,
            declared.get(output.dataset),
        )


async def hold_bindings(tx: Transaction, job: Admitted) -> Refused | None:
    """Hold what a job was bound to when it began to arrive; says if that is not open any more."""
    outputs = job.spec.outputs
    if not outputs:
        return None
    try:
        _check_open(outputs, await _hold(tx, outputs))
    except Refused as error:
        return error
    return None


async def forget_versions(tx: Transaction, job_ids: Collection[int]) -> None:
    """Forget the versions that were opened for jobs which did not become any."""
    await delete_versions_of_submission(tx, job_ids)


async def _lock_datasets_to_open(tx: Transaction, declared: Sequence[Admitted]) -> None:
    names = {o.dataset for job in declared for o in job.spec.outputs if o.version == "new"}
    if names:
        await lock_datasets(tx, names)


def _choose(outputs: Sequence[Output], newest: dict[str, int | None]) -> list[Output]:
    """Choose the newest open version where none is named."""
    chosen = []
    for index, output in enumerate(outputs):
        if output.dataset not in newest:
            problem = f"there is no dataset {output.dataset}; create it first"
            raise Invalid(f"outputs[{index}].dataset", problem)
        version = newest[output.dataset] if output.version is None else output.version
        if version is None:
            problem = f"dataset {output.dataset} has no open version; open one, or give new"
            raise Invalid(f"outputs[{index}].version", problem)
        chosen.append(Output(output.dataset, version, output.mode))
    return chosen


async def _hold(tx: Transaction, outputs: Sequence[Output]) -> dict[Version, VersionState | None]:
    """Hold versions by number, and give their states; one that will be marked is locked."""
    wanted: dict[Version, bool] = {}
    for output in outputs:
        if isinstance(output.version, int):
            version = Version(output.dataset, output.version)
            wanted[version] = wanted.get(version, False) or output.mode == "replace"
    return {
        version: await (lock_version(tx, version) if is_replaced else hold_version(tx, version))
        for version, is_replaced in sorted(wanted.items())
    }


def _check_open(outputs: Sequence[Output], states: dict[Version, VersionState | None]) -> None:
    for index, output in enumerate(outputs):
        if isinstance(output.version, int):
            state = states[Version(output.dataset, output.version)]
            if state != "open":
                problem = explain_closed_version(output.dataset, output.version, state)
                raise Invalid(f"outputs[{index}].version", problem)


async def _open_new(tx: Transaction, job: Admitted, outputs: Sequence[Output]) -> list[Output]:
    """Open what is to be opened with the job."""
    opened = []
    for output in outputs:
        number = output.version
        if not isinstance(number, int):
            number = await open_version(
                tx,
                output.dataset,
                actor=job.actor or job.spec.owner,
                opened_by_job=job.job_id,
            )
        opened.append(Output(output.dataset, number, output.mode))
    return opened


def _with_outputs(job: Admitted, outputs: list[Output] | None) -> Admitted:
    if outputs is None:
        return job
    submission = job.submission
    declared = (
        declare(submission.spec.outputs) if submission.declared is None else submission.declared
    )
    spec = msgspec.structs.replace(submission.spec, outputs=outputs)
    bound = msgspec.structs.replace(submission, spec=spec, declared=declared)
    return replace(job, submission=bound)
