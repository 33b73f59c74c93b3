"""Jobs that wait for each other, as they are read."""

import msgspec

from holdfast.model.order import Condition


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
