"""Jobs that a cut-over starts: once per trigger and version, whoever dies on the way.

The cut-over leaves a row for each trigger, in its transaction. A chore submits the job under a key
made of dataset, trigger and version, and then notes its id in the row: a crash in between makes it
submit again, and find the job.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import msgspec

from holdfast.errors import Invalid, KeyReused, LimitReached, Refused, TooLarge
from holdfast.ledger.ledger import Ledger
from holdfast.model.access.actions import ActionKind
from holdfast.model.shapes import read_tolerantly
from holdfast.model.submitting.spec import JobSpec, Submission
from holdfast.operations.datasets.versions import lock_dataset
from holdfast.operations.submitting.store import Submitted
from holdfast.rules.submitting.keys import check_key
from holdfast.rules.submitting.order import refuse_local_names
from holdfast.rules.submitting.outputs import check_name
from holdfast.rules.submitting.submission import check_text, complete_submission
from holdfast.rules.undo import KEY_PREFIX
from holdfast.store.database import Transaction
from holdfast.store.reads.datasets import TRIGGERS_MAX
from holdfast.store.tables.access.actions import NewAction, record_actions
from holdfast.store.tables.datasets import triggers
from holdfast.store.tables.datasets.triggers import NewTrigger, TriggerRun

RUNS_MAX = 100
PROBLEM_LENGTH_MAX = 1000
TRY_AGAIN = timedelta(seconds=30)
Submit = Callable[[Submission], Awaitable[Submitted]]


async def put_trigger(
    ledger: Ledger, dataset: str, name: str, *, submission: Submission, actor: str
) -> bool:
    """Have every new version that is cut over to start a job; says whether the trigger is new."""
    check_name("dataset", dataset)
    check_name("name", name)
    check_text("actor", actor, 256)
    spec = submission.spec
    if spec.idempotency_key is not None:
        raise Invalid("spec.idempotency_key", "is given by the trigger; leave it out")
    refuse_local_names(spec)
    sample = _prepare(submission, TriggerRun(dataset, name, 1))
    check_key(complete_submission(sample, ledger.limits, announced=ledger.policies.functions))
    if submission.num_tasks > ledger.limits.batch_tasks_max:
        raise TooLarge(
            "spec.inputs", submission.num_tasks, ledger.limits.batch_tasks_max, unit="tasks"
        )
    async with ledger.database.transaction() as tx:
        # Held against a cut-over: it comes before, or finds the trigger.
        await lock_dataset(tx, dataset)
        count = await triggers.count_triggers(tx, dataset, besides=name)
        if count >= TRIGGERS_MAX:
            raise TooLarge("name", count + 1, TRIGGERS_MAX, unit="triggers")
        text = msgspec.json.encode(spec).decode()
        inputs = None if submission.inputs is None else f"[{','.join(submission.inputs)}]"
        trigger = NewTrigger(dataset, name, text, inputs, actor)
        await _record(tx, actor, "put_trigger", trigger=(dataset, name))
        return await triggers.put_trigger(tx, trigger)


async def delete_trigger(ledger: Ledger, dataset: str, name: str, *, actor: str) -> bool:
    """Remove a trigger; what it has started goes on. False if there was none."""
    check_name("dataset", dataset)
    check_name("name", name)
    check_text("actor", actor, 256)
    async with ledger.database.transaction() as tx:
        await lock_dataset(tx, dataset)
        if not await triggers.delete_trigger(tx, dataset, name):
            return False
        await _record(tx, actor, "delete_trigger", trigger=(dataset, name))
        return True


async def _record(
    tx: Transaction, actor: str, action: ActionKind, *, trigger: tuple[str, str]
) -> None:
    dataset, name = trigger
    did = NewAction(actor, action, "dataset", dataset, facts={"trigger": name})
    await record_actions(tx, [did])


async def start_triggered(ledger: Ledger, submit: Submit) -> int:
    """Submit the jobs that cut-overs have asked for; returns how many runs were looked at."""
    async with ledger.database.transaction() as tx:
        due = await triggers.list_due_runs(tx, RUNS_MAX)
    for run, spec, inputs in due:
        template = Submission(read_tolerantly(spec, JobSpec), _parse_inputs(inputs))
        try:
            submitted = await submit(_prepare(template, run))
            await _note(ledger, run, submitted.job_id)
        except KeyReused as error:  # submitted before, by a trigger that has changed since
            if error.job_id is None:
                raise
            await _note(ledger, run, int(error.job_id))
        except (Refused, LimitReached) as error:
            async with ledger.database.transaction() as tx:
                problem = str(error)[:PROBLEM_LENGTH_MAX]
                await triggers.put_off_run(tx, run, problem=problem, delay=TRY_AGAIN)
    return len(due)


async def _note(ledger: Ledger, run: TriggerRun, job_id: int) -> None:
    async with ledger.database.transaction() as tx:
        await triggers.note_run(tx, run, job_id=job_id)


def _prepare(template: Submission, run: TriggerRun) -> Submission:
    """Make the submission of one run: its key, and what it finds in its environment."""
    dataset, trigger, version = run
    spec = msgspec.structs.replace(
        template.spec,
        idempotency_key=f"{KEY_PREFIX}cut-over:{dataset}:{trigger}:{version}",
        environment={
            **template.spec.environment,
            "HOLDFAST_DATASET": dataset,
            "HOLDFAST_DATASET_VERSION": str(version),
        },
    )
    return msgspec.structs.replace(template, spec=spec, by_cut_over=True)


def _parse_inputs(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    values = msgspec.json.decode(text, type=list[msgspec.Raw])
    return tuple(bytes(value).decode() for value in values)
