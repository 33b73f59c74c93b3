"""Submit jobs again that have been there before: described anew, with the inputs they had."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from holdfast.errors import TooLarge
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.order import Declared, Dependency, Output
from holdfast.model.submitting.spec import JobSpec, Submission
from holdfast.model.work.ids import TaskId
from holdfast.rules.submitting.order import dependencies_of
from holdfast.rules.submitting.outputs import choose_again
from holdfast.store.database import Transaction
from holdfast.store.specs import StoredSpec
from holdfast.store.tables.access.actions import NewAction, record_actions
from holdfast.store.tables.datasets.outputs import find_declared_outputs
from holdfast.store.tables.order.continuations import insert_continuations
from holdfast.store.tables.order.dependencies import find_unmet_dependencies
from holdfast.store.tables.work.jobs import record_job_events
from holdfast.store.tables.work.tasks import TaskInput, read_inputs

# As much as a submission may have: the inputs are in memory while they are stored again.
INPUTS_BYTES_MAX = 64 << 20
PAGE_TASKS_MAX = 1000


class Resubmission(NamedTuple):
    """A job as it is submitted again, but for its inputs."""

    job_id: int
    spec: JobSpec
    compensates_job_id: int | None
    declared: dict[str, Declared]

    @property
    def has_inputs(self) -> bool:
        """Tell a job with a task per input from one with replicas, which run as a whole."""
        return self.spec.replicas is None

    def submission(self, inputs: tuple[str, ...]) -> Submission:
        """Describe the new job, with these inputs if it has any."""
        return Submission(
            self.spec,
            inputs if self.has_inputs else None,
            replay_of=self.job_id,
            compensates_job_id=self.compensates_job_id,
            declared=self.declared,
        )


def check_inputs_size(size: int) -> None:
    """Refuse more inputs than can be in memory at once."""
    if size > INPUTS_BYTES_MAX:
        raise TooLarge("inputs", size, INPUTS_BYTES_MAX)


async def describe_again(
    ledger: Ledger, tx: Transaction, job_ids: Collection[int], *, rebind: bool
) -> dict[int, Resubmission]:
    """Describe what these jobs ask for a second time.

    Each waits for what it still needs, and writes the version of the first time while that is open.
    """
    specs = await ledger.specs.load(tx, job_ids)
    unmet = await find_unmet(tx, job_ids)
    outputs, declared = await _choose_outputs(tx, specs, rebind=rebind)
    return {
        job_id: Resubmission(
            job_id,
            msgspec.structs.replace(
                stored.spec,
                idempotency_key=None,
                not_before=None,
                start_delay=None,
                start_rate=None,
                expires_at=None,
                # Somebody has decided that it runs again, whatever else is there.
                unique=None,
                depends_on=_needed(stored.spec, unmet[job_id]),
                outputs=outputs[job_id],
                correlation_id=stored.correlation_id,
            ),
            stored.compensates_job_id,
            declared[job_id],
        )
        for job_id, stored in specs.items()
    }


async def note_replays(
    tx: Transaction,
    replays: Mapping[int, Sequence[int]],
    *,
    actor: str,
    action: Literal["replay", "rerun", "resume"],
    edited: Collection[TaskId] = (),
) -> None:
    """Write down with each job which others run it again, and whose input was edited for that.

    A replay that runs exactly what did not succeed continues the job.
    """
    payloads = {}
    for replay_of, job_ids in replays.items():
        first, *rest = map(str, job_ids)
        payload: dict[str, object] = {"job_id": first}
        if rest:
            payload["rest_job_ids"] = rest
        ours = sorted(task_id for task_id in edited if task_id.job_id == replay_of)
        if ours:
            payload["input_edited"] = ", ".join(map(str, ours))
        payloads[replay_of] = msgspec.json.encode(payload).decode()
    await record_job_events(tx, "replayed", payloads, actor=actor)
    await record_actions(
        tx,
        [
            NewAction(actor, action, "job", str(replay_of), facts={"job_ids": list(map(str, new))})
            for replay_of, new in replays.items()
        ],
    )
    await insert_continuations(tx, [job_id for job_ids in replays.values() for job_id in job_ids])


async def read_all_inputs(
    ledger: Ledger, job_id: int, *, only_unsuccessful: bool
) -> list[TaskInput]:
    """Read the inputs of a job, or of those of its tasks that did not succeed, in order."""
    inputs: list[TaskInput] = []
    while True:
        async with ledger.database.transaction() as tx:
            page = await read_inputs(
                tx,
                job_id,
                only_unsuccessful=only_unsuccessful,
                after_index=inputs[-1].task_index if inputs else -1,
                batch_max=PAGE_TASKS_MAX,
            )
        inputs += page
        if len(page) < PAGE_TASKS_MAX:
            return inputs


def _needed(spec: JobSpec, unmet: set[int]) -> list[str | Dependency]:
    """Leave out of what a job waited for only what was met and has no result for it."""
    used = {result.job for result in spec.entrypoint.results}
    return [
        given
        for given, dependency in zip(spec.depends_on, dependencies_of(spec), strict=True)
        if dependency.job in used or int(dependency.job) in unmet
    ]


async def find_unmet(tx: Transaction, job_ids: Collection[int]) -> dict[int, set[int]]:
    """Find what jobs still wait for, or have waited for in vain."""
    unmet: dict[int, set[int]] = defaultdict(set)
    for job_id, depends_on in await find_unmet_dependencies(tx, job_ids):
        unmet[job_id].add(depends_on)
    return unmet


async def _choose_outputs(
    tx: Transaction, specs: Mapping[int, StoredSpec], *, rebind: bool
) -> tuple[dict[int, list[Output]], dict[int, dict[str, Declared]]]:
    """Choose what replays of jobs write, and say again how the first time was chosen."""
    writers = sorted(job_id for job_id, stored in specs.items() if stored.spec.outputs)
    states: dict[tuple[int, str], str | None] = {}
    declared: dict[int, dict[str, Declared]] = defaultdict(dict)
    for row in await find_declared_outputs(tx, writers) if writers else ():
        states[row.job_id, row.dataset] = row.state
        if row.declared is not None:
            declared[row.job_id][row.dataset] = row.declared
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
