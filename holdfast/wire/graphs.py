"""Jobs that wait for each other, as they are read, and as they go on after a failure."""

import msgspec

from holdfast.model.submitting.order import Condition
from holdfast.wire.requests import Request, TaskIdText


class GraphNode(msgspec.Struct, frozen=True, kw_only=True):
    """A job of a graph."""

    job_id: str
    name: str
    type: str
    state: str
    graph_id: str | None = None
    # The job that this one undoes.
    compensates_job_id: str | None = None


class GraphEdge(
    msgspec.Struct, frozen=True, kw_only=True, rename={"before": "from", "after": "to"}
):
    """Job `to` waits for job `from`; `holds` is null until it is known whether that ended so."""

    before: str
    after: str
    condition: Condition
    holds: bool | None = None


class JobGraph(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs that a job depends on and that depend on it, directly or not, by id.

    An id is above those of the jobs it depends on. Of a graph that is too large, the nearest.
    """

    job_id: str
    nodes: list[GraphNode]
    edges: list[GraphEdge]
    truncated: bool = False


class ResumeRequest(Request, frozen=True):
    """Run again what failed around a job, and what was killed because of that.

    `inputs` has corrected ones by task id, for tasks that are run again. With `rebind_outputs` as
    in a replay of dead letters.
    """

    inputs: dict[TaskIdText, msgspec.Raw] = msgspec.field(default_factory=dict)
    dry_run: bool = False
    idempotency_key: str | None = None
    rebind_outputs: bool = False


class ResumedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that is run again by another; in a dry run, without its id."""

    replay_of: str
    job_id: str | None
    name: str
    num_tasks: int


class ResumeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What is run again, in the order of the graph."""

    jobs: list[ResumedJob]
    dry_run: bool = False
