"""What a task would wait for if something were otherwise; asked along with why it waits."""

from typing import NamedTuple

import msgspec

from holdfast.api.explain import describe_nearest, pending_reason
from holdfast.api.task_statuses import Facts
from holdfast.errors import Invalid
from holdfast.model.shapes import read_tolerantly
from holdfast.model.spec import JobSpec
from holdfast.model.states import TaskState
from holdfast.rules.placement.scheduler import Reason, shape_of
from holdfast.rules.placement.what_if import WhatIf, describe
from holdfast.services.reasons import Reasons
from holdfast.store.database import Transaction
from holdfast.store.reads import queues
from holdfast.store.reads.jobs import JobRow
from holdfast.store.reads.tasks import TaskRow
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
    if supposed.amounts:
        raise Invalid(
            field,
            f"task {task.id} waits in queue {job.queue}, whose workers say with each claim what "
            "they have free; of work in a queue, ask without_worker",
        )
    worker = supposed.without_worker or ""
    named, others = await queues.count_serving(tx, job.queue, worker)
    if not named:
        raise Invalid(
            "without_worker",
            f"no worker {worker} serves queue {job.queue}; `holdfast workers` lists who does",
        )
    return facts._replace(condition=facts.condition._replace(is_served=others > 0))


async def answer_what_if(
    reasons: Reasons, job: JobRow, task: TaskRow, *, facts: Facts, supposed: WhatIf
) -> Answered:
    """Say what a waiting task would wait for; what holds it back before its turn still does."""
    assert job.spec is not None, "a job is explained with its spec"
    placing, shape = None, None
    if job.queue is None:
        shape = shape_of(read_tolerantly(job.spec, JobSpec))
        avoid = facts.standing.get(task.task_index)
        placing = await reasons.suppose(job.job_id, avoid, supposed)
    reason = pending_reason(
        job,
        task,
        facts.condition,
        ahead=facts.ahead,
        placing=placing,
        unmet=facts.unmet,
        feeding=facts.feeding,
    )
    assert reason is not None, "a pending task has a reason"
    text = describe(shape, supposed)
    line = f"{text[0].upper()}{text[1:]}: {reason.message}."
    return Answered(WhatIfAnswer(text, show_reason(reason)), [line, *describe_nearest(reason)])


def show_reason(reason: Reason) -> PendingReason:
    """Write a reason as it is answered."""
    return msgspec.convert(reason, PendingReason, from_attributes=True)
