"""Graphs: which jobs wait for which; a job that waits for none never comes here."""

from typing import NamedTuple

from holdfast.errors import NotFound
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_GRAPH = load_statements("reads/work/graph")


class NodeRow(NamedTuple):
    """A job of a graph."""

    job_id: int
    name: str
    type: str
    state: int
    graph_id: int | None
    compensates_job_id: int | None


class EdgeRow(NamedTuple):
    """One job that waits for another; `holds` is None as long as that one has not ended."""

    job_id: int
    depends_on: int
    condition: str
    holds: bool | None


class UnmetRow(NamedTuple):
    """A job that another one waits for; where it has failed, a chain may stand still after it."""

    job_id: int
    stands_still: bool


class GraphRows(NamedTuple):
    """Jobs around one, by id, and who waits for whom among them."""

    nodes: list[NodeRow]
    edges: list[EdgeRow]
    is_truncated: bool


async def list_unmet(tx: Transaction, job_id: int, count_max: int) -> list[UnmetRow]:
    """List the jobs that a job still waits for."""
    rows = await tx.fetch(_GRAPH["list_unmet"], job_id=job_id, count_max=count_max)
    return [UnmetRow._make(row) for row in rows]


async def read_graph(tx: Transaction, job_id: int, *, jobs_max: int, edges_max: int) -> GraphRows:
    """Read the jobs that a job depends on, and those that depend on it, directly or not.

    The nearest come first where there are too many. Raises NotFound.
    """
    above = await _walk(tx, "walk_up", job_id, count_max=jobs_max + 1)
    below = await _walk(tx, "walk_down", job_id, count_max=jobs_max + 1)
    chosen = _choose(above, below, jobs_max)
    rows = await tx.fetch(_GRAPH["read_graph_jobs"], job_ids=sorted(chosen))
    nodes = {row[0]: NodeRow(*row) for row in rows}
    if job_id not in nodes:
        raise NotFound("job", job_id)
    # What undoes them is left out first.
    kept = sorted(nodes, key=lambda id: (id not in chosen, id))[:jobs_max]
    edges = await tx.fetch(
        _GRAPH["list_edges"], job_ids=sorted(kept), jobs_max=jobs_max + 1, count_max=edges_max + 1
    )
    is_truncated = (
        len({*above, *below}) > jobs_max or len(nodes) > jobs_max or len(edges) > edges_max
    )
    return GraphRows(
        [nodes[id] for id in sorted(kept)],
        [EdgeRow(*row) for row in edges[:edges_max]],
        is_truncated,
    )


async def _walk(tx: Transaction, name: str, job_id: int, *, count_max: int) -> list[int]:
    rows = await tx.fetch(_GRAPH[name], job_id=job_id, count_max=count_max)
    return [row[0] for row in rows]


def _choose(above: list[int], below: list[int], count_max: int) -> set[int]:
    """Choose the nearest: both ways in turn, from the job where both begin."""
    chosen: set[int] = set()
    longest = max(len(above), len(below))
    for distance in range(longest):
        for way in (above, below):
            if distance < len(way) and len(chosen) < count_max:
                chosen.add(way[distance])
    return chosen
