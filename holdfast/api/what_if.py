"""What a task would wait for if something were otherwise; asked along with why it waits."""

from typing import NamedTuple

import msgspec

from holdfast.api.explain import describe_nearest, pending_reason
from holdfast.api.task_statuses import Facts, find_no_room
from holdfast.errors import Invalid
from holdfast.model.shapes import read_tolerantly
from holdfast.model.submitting.spec import JobSpec
from holdfast.model.work.states import TaskState
from holdfast.model.workers.resources import Resources
from holdfast.rules.placement.scheduler import Reason, shape_of
from holdfast.rules.placement.too_large import explain_too_large
from holdfast.rules.placement.what_if import WhatIf, describe
from holdfast.services.reasons import Reasons
from holdfast.store.database import Transaction
from holdfast.store.reads.limits import queues
from holdfast.store.reads.work.jobs import JobRow
from holdfast.store.reads.work.tasks import TaskRow
from holdfast.store.reads.workers.serving import Serving, find_need, list_serving
from holdfast.wire.explanations import PendingReason, WhatIfAnswer


class Answered(NamedTuple):
    """What would be, for programs and in sentences."""

    answer: WhatIfAnswer
    lines: list[str]


async def suppose_facts(
    tx: Transaction, job: JobRow, task: TaskRow, *, facts: Facts, supposed: WhatIf
) -> Facts:
    """Read what else would be known of a task; refuse what cannot be asked of it."""
    field = next(iter(supposed.amounts), "without_worker")
    if task.state != TaskState.PENDING:
        state = TaskState(task.state).name
        raise Invalid(field, f"task {task.id} is {state}; ask this of a task that waits")
    if job.queue is None:
        return facts
    if supposed.gpu is not None:
        raise Invalid("gpu", f"goes with placed work, and task {task.id} waits in {job.queue}")
    condition = facts.condition
    if supposed.without_worker is not None:
        is_served = await _is_served_without(tx, job.queue, supposed.without_worker)
        condition = condition._replace(is_served=is_served)
    need = await find_need(tx, job.job_id)
    if need is None and not supposed.amounts:
        return facts._replace(condition=condition)
    need = msgspec.structs.replace(need or Resources(), **supposed.amounts)
    workers = await list_serving(tx, job.queue, without=supposed.without_worker)
    too_large = explain_too_large(need, [each.capacity for each in workers]) if workers else None
    return facts._replace(
        condition=condition._replace(too_large=too_large),
        serving=None if workers is None else Serving(need, workers),
    )


async def _is_served_without(tx: Transaction, queue: str, worker: str) -> bool:
    """Tell whether anybody else serves a queue; refuse a worker that does not."""
    named, others = await queues.count_serving(tx, queue, worker)
    if not named:
        raise Invalid(
            "without_worker",
            f"no worker {worker} serves queue {queue}; `holdfast workers` lists who does",
        )
    return others > 0


async def answer_what_if(
    reasons: Reasons, job: JobRow, task: TaskRow, *, facts: Facts, supposed: WhatIf
) -> Answered:
    """Say what a waiting task would wait for; what holds it back before its turn still does."""
    assert job.spec is not None, "a job is explained with its spec"
    spec = read_tolerantly(job.spec, JobSpec)
    shape = shape_of(spec) if job.queue is None or spec.resources is not None else None
    placing = None
    if job.queue is None:
        avoid = facts.standing.get(task.task_index)
        placing = await reasons.suppose(job.job_id, avoid, supposed)
    reason = pending_reason(
        job,
        task,
        facts.condition,
        ahead=facts.ahead,
        placing=placing,
        no_room=await find_no_room(facts),
        unmet=facts.unmet,
        feeding=facts.feeding,
        gate=facts.gates.get(task.task_index),
    )
    assert reason is not None, "a pending task has a reason"
    text = describe(shape, supposed)
    line = f"{text[0].upper()}{text[1:]}: {reason.message}."
    return Answered(WhatIfAnswer(text, show_reason(reason)), [line, *describe_nearest(reason)])


def show_reason(reason: Reason) -> PendingReason:
    """Write a reason as it is answered."""
    return msgspec.convert(reason, PendingReason, from_attributes=True)
