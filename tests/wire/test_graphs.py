"""Graphs as they are written."""

import msgspec

from holdfast.wire.graphs import GraphEdge, JobGraph


def test_an_edge_has_the_names_that_people_expect() -> None:
    edge = GraphEdge(before="7", after="8", condition="ended")
    written = msgspec.json.encode(JobGraph(job_id="7", nodes=[], edges=[edge]))
    assert msgspec.json.decode(written) == {
        "job_id": "7",
        "nodes": [],
        "edges": [{"from": "7", "to": "8", "condition": "ended", "holds": None}],
        "truncated": False,
    }
    assert msgspec.json.decode(written, type=JobGraph).edges == [edge]
