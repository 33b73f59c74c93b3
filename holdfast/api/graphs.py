"""The route that reads how jobs depend on each other."""

from typing import cast

from holdfast.api import convert
from holdfast.api.endpoint import Call, Endpoint
from holdfast.model.ids import parse_job_id
from holdfast.model.order import Condition
from holdfast.store.reads.graph import EdgeRow, NodeRow, read_graph
from holdfast.wire.graphs import GraphEdge, GraphNode, JobGraph
from holdfast.wire.requests import Nothing

JOBS_MAX = 1000
EDGES_MAX = 10_000


async def show_graph(call: Call[None, Nothing]) -> JobGraph:
    """Read the jobs that a job depends on and that depend on it, directly or not."""
    job_id = parse_job_id(call.path["job_id"])
    async with call.runtime.reads.transaction() as tx:
        found = await read_graph(tx, job_id, jobs_max=JOBS_MAX, edges_max=EDGES_MAX)
    return JobGraph(
        job_id=str(job_id),
        nodes=[_node(row) for row in found.nodes],
        edges=[_edge(row) for row in found.edges],
        truncated=found.is_truncated,
    )


def _node(row: NodeRow) -> GraphNode:
    undone = row.compensates_job_id
    return GraphNode(
        job_id=str(row.job_id),
        name=row.name,
        type=row.type,
        state=convert.job_state(row.state),
        graph_id=None if row.graph_id is None else str(row.graph_id),
        compensates_job_id=None if undone is None else str(undone),
    )


def _edge(row: EdgeRow) -> GraphEdge:
    return GraphEdge(
        before=str(row.depends_on),
        after=str(row.job_id),
        condition=cast(Condition, row.condition),
        holds=row.holds,
    )


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", "/api/jobs/{job_id}/graph", show_graph, JobGraph),
)
