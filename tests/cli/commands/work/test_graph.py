"""`graph`: jobs drawn in their order, `submit --graph`, and `--depends-on`."""

import json
from pathlib import Path

import msgspec

from holdfast.cli.commands.work.graph import INDENT_MAX, draw
from holdfast.wire.graphs import GraphEdge, GraphNode, JobGraph
from tests.cli.conftest import Service


def a_graph(job_id: str, *edges: tuple[str, str, str], undoes: str | None = None) -> JobGraph:
    """Make a graph of jobs that are called after their ids."""
    ids = sorted({job_id, *(each for edge in edges for each in edge[:2])}, key=int)
    nodes = [GraphNode(job_id=i, name=f"n{i}", type="t", state="JOB_STATE_RUNNING") for i in ids]
    if undoes is not None:
        state = "JOB_STATE_SUCCEEDED"
        undo = GraphNode(job_id="99", name="undo", type="t", state=state, compensates_job_id=undoes)
        nodes.append(undo)
    shapes = [{"from": before, "to": after, "condition": c} for before, after, c in edges]
    listed = msgspec.convert(shapes, list[GraphEdge])
    return JobGraph(job_id=job_id, nodes=nodes, edges=listed)


def test_each_job_is_drawn_once_below_the_last_one_that_it_waits_for() -> None:
    graph = a_graph(
        "3",
        ("1", "2", "succeeded"),
        ("1", "3", "succeeded"),
        ("2", "4", "succeeded"),
        ("3", "4", "succeeded"),
        ("2", "10", "failed"),
        undoes="3",
    )
    assert [(label, after) for label, _, after in draw(graph)] == [
        ("1 n1", ""),
        ("├─ 2 n2", ""),
        ("│  └─ 10 n10", "2 failed"),
        ("└─ 3 n3 *", ""),
        ("   ├─ 4 n4", "2, 3"),
        ("   └─ 99 undo", "undoes 3"),
    ]


def test_long_chains_and_many_parents_stay_on_the_screen() -> None:
    chain = a_graph("1", *((str(n), str(n + 1), "succeeded") for n in range(1, 500)))
    lines = [label for label, _, _ in draw(chain)]
    assert len(lines) == 500
    assert lines[-1].endswith("└─ 500 n500")
    assert max(map(len, lines)) < INDENT_MAX + 20
    wide = a_graph("50", *((str(n), "50", "succeeded") for n in range(1, 20)))
    assert list(draw(wide))[-1][2] == "1, 2, 3, 4, 5, 14 more"


def test_a_graph_goes_in_from_a_file_and_is_drawn(service: Service, tmp_path: Path) -> None:
    add = {"function": "tests.cli.tasks:add", "args": [1]}
    path = tmp_path / "graph.json"
    specs = [
        {"local_name": "first", "name": "first", "queue": "default", "entrypoint": add},
        {
            "local_name": "sum",
            "queue": "default",
            "entrypoint": add
            | {"args": [None], "results": [{"path": ["args", 0], "job": "first"}]},
            "depends_on": ["first"],
        },
    ]
    path.write_text(json.dumps({"specs": specs}))
    ended = service.run("submit", "--graph", str(path))
    assert (ended.code, ended.err) == (0, "")
    first, last = ended.out.split()
    otherwise = service.submit("tests.cli.tasks:add", "--arg=1", f"--depends-on={last}:failed")
    assert service.call("wait", first, last).code == 0
    assert service.call("wait", otherwise).code == 1
    drawn = service.run("graph", last)
    assert (drawn.code, drawn.err) == (0, "")
    assert [line.split() for line in drawn.out.splitlines()] == [
        ["job", "state", "after"],
        [first, "first", "succeeded"],
        ["└─", last, "add", "*", "succeeded"],
        ["└─", otherwise, "add", "killed", last, "failed"],
    ]
    assert service.ask("graph", last)["edges"][0] == {
        "from": first,
        "to": last,
        "condition": "succeeded",
        "holds": True,
    }
    assert " succeeded " in service.on_terminal("graph", last)


def test_what_a_job_waits_for_is_told(service: Service) -> None:
    first = service.submit("tests.cli.tasks:add", "--arg=1", "--queue=nobody")
    ended = service.run("run", "--detach", f"--depends-on={first}", "--", "true")
    job_id = ended.out.strip()
    shown = service.call("job", job_id).out
    assert f"waits for    1 of 1 jobs; `holdfast graph {job_id}` shows them" in shown
    assert f"waits for job {first}" in shown
    assert f"It waits: waits for job {first}." in service.call("explain", job_id).out
    service.call("cancel", "--hard", first)
    assert service.call("wait", job_id).code == 1


def test_what_cannot_be_a_graph_is_refused(service: Service, tmp_path: Path) -> None:
    empty = tmp_path / "empty.json"
    empty.write_text("{}")
    for arguments, problem in (
        (["submit", "--graph", str(empty), "--queue", "q"], "no other flag goes with it"),
        (["submit", "--graph", str(empty), "--inputs", "x"], "no other flag goes with it"),
        (["submit", "--graph", str(empty)], "graph: Object missing required field `specs`"),
        (["submit", "m:f", "--depends-on", "7:done"], "there are succeeded, failed, ended"),
        (["submit", "m:f", "--depends-on", "x-"], "depends_on[0]"),
        (["graph", "x"], "id: "),
    ):
        ended = service.call(*arguments)
        assert (ended.code, ended.out) == (2, "")
        assert problem in ended.err
    assert service.call("graph", "999999").code == 1
