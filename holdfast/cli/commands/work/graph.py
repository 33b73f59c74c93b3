"""`holdfast graph`: a job among those it depends on and those that depend on it."""

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from holdfast.cli.connect import open_client
from holdfast.cli.output.write import Column, remark, state, write_json, write_table
from holdfast.cli.settings import Json, Server
from holdfast.model.work.ids import parse_job_id

if TYPE_CHECKING:
    from holdfast.wire.graphs import GraphEdge, GraphNode, JobGraph

# A long chain is drawn no further to the right than this.
INDENT_MAX = 36
NAMED_MAX = 5
MARK = " *"
_COLUMNS = (Column("job"), Column("state"), Column("after", flexible=True))
_WORDS = {"succeeded": "", "failed": " failed", "ended": " ended"}


def show_graph(
    job_id: Annotated[str, Parameter(name="ID", help="A job's id, such as 4182.")],
    /,
    *,
    server: Server = None,
    as_json: Json = False,
) -> int:
    """Draw the jobs that a job depends on and that depend on it; it is marked with a star."""
    parse_job_id(job_id, "id")
    with open_client(server) as client:
        graph = client.jobs.graph(job_id)
    if as_json:
        write_json(graph)
        return 0
    write_table(_COLUMNS, draw(graph))
    if graph.truncated:
        remark(f"the graph is larger than this: these are the {len(graph.nodes)} nearest jobs")
    return 0


def draw(graph: "JobGraph") -> Iterator[tuple[str, str, str]]:
    """Draw a graph as a tree: each job once, below the last of those that it waits for."""
    before: dict[str, list[GraphEdge]] = defaultdict(list)
    for edge in graph.edges:
        before[edge.after].append(edge)
    below: dict[str | None, list[GraphNode]] = defaultdict(list)
    known = {node.job_id for node in graph.nodes}
    for node in graph.nodes:
        undone = node.compensates_job_id
        edges = before[node.job_id]
        last = max((edge.before for edge in edges), key=int, default=undone)
        below[last if last in known else None].append(node)
    # From the top to the bottom: with each job, how the lines before it go.
    ways = [(node, "", "") for node in reversed(below[None])]
    while ways:
        node, way, following = ways.pop()
        indent = way if len(way) <= INDENT_MAX else f"… {way[-INDENT_MAX:]}"
        mark = MARK if node.job_id == graph.job_id else ""
        label = f"{indent}{node.job_id} {node.name}{mark}"
        yield label, state(node.state), _tell_order(node, before[node.job_id])
        children = below[node.job_id]
        for index in range(len(children) - 1, -1, -1):
            is_last = index == len(children) - 1
            branch, line = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
            ways.append((children[index], following + branch, following + line))


def _tell_order(node: "GraphNode", edges: "list[GraphEdge]") -> str:
    """Say what a job waits for, where the drawing alone does not."""
    if node.compensates_job_id is not None:
        return f"undoes {node.compensates_job_id}"
    if len(edges) == 1 and edges[0].condition == "succeeded":
        return ""
    words = [f"{edge.before}{_WORDS[edge.condition]}" for edge in edges[:NAMED_MAX]]
    if len(edges) > NAMED_MAX:
        words.append(f"{len(edges) - NAMED_MAX} more")
    return ", ".join(words)
