"""Why claimed tasks that name resources wait: what each worker of their queue lacks."""

from collections.abc import Sequence

from holdfast.model.workers.resources import Resources
from holdfast.rules.placement.scheduler import Demand, Reason, explain
from holdfast.rules.placement.snapshot import WorkerView, shape_of_need


def explain_no_room(workers: Sequence[WorkerView], need: Resources) -> Reason | None:
    """Say what the workers of a queue lack for one more task; None if one of them has room.

    Whether those ahead would leave that room is not asked: a queue is in order by itself.
    """
    if not workers:
        return None
    demand = Demand(0, 0, 0.0, 1, shape_of_need(need), None, 0, None)
    reason = explain(workers, [], demand, now=0.0)
    return None if reason.code == "fits" else reason
