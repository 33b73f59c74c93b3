"""Graphs: collected within a block, sent in one call at its end, or not at all."""

import asyncio

import pytest

import holdfast as hf
from holdfast.client.client import Client
from holdfast.errors import Invalid
from tests.client import app
from tests.client.hand import Hand
from tests.client.peer import Peer, Say

TAKEN = Say(
    201,
    b'{"jobs": [{"job_id": "7", "is_new": true, "num_tasks": 1},'
    b' {"job_id": "8", "is_new": true, "num_tasks": 2}]}',
)


def test_a_graph_is_stored_whole_with_its_order(client: Client) -> None:
    before = app.double.submit(1)
    with hf.graph() as graph:
        first = app.double.submit(2)
        second = app.double.map([1, 2])
        last = app.greet.with_options(depends_on=[before]).submit(first, greeting=second)
        client.run_command(["true"], queue="q", depends_on=[hf.Dependency(last, "ended")])
        assert repr(last) == "Job(not submitted, 1 tasks)"
        assert second.num_tasks == 2
    ended = graph.jobs[3]
    assert [job.id for job in graph.jobs] == [first.id, second.id, last.id, ended.id]
    assert len({job.status().graph_id for job in graph.jobs}) == 1
    spec = last.status().spec or {}
    assert spec["entrypoint"]["args"] == [None]
    assert spec["entrypoint"]["results"] == [
        {"path": ["args", 0], "job": first.id},
        {"path": ["kwargs", "greeting"], "job": second.id},
    ]
    assert spec["depends_on"] == [first.id, second.id, before.id]
    assert last.status().unmet_dependencies == 3
    assert (ended.status().spec or {})["depends_on"] == [{"job": last.id, "condition": "ended"}]


async def test_a_graph_is_sent_by_the_awaited_face(client: Client, hand: Hand) -> None:
    async with client.graph():
        first = await app.double.submit.aio(1)
        others = await asyncio.gather(*(app.double.submit.aio(first) for _ in range(3)))
    assert int(first.id) < min(int(job.id) for job in others)
    claim = await asyncio.to_thread(hand.claim)
    assert claim.task_id == f"{first.id}.0"


async def test_what_is_submitted_after_the_end_of_the_block_is_sent_at_once(
    client: Client,
) -> None:
    is_over = asyncio.Event()

    async def submit_later() -> hf.Job[int]:
        await is_over.wait()
        return await app.double.submit.aio(1)

    async with client.graph() as graph:
        later = asyncio.create_task(submit_later())  # knows of the graph, as all that begins here
    is_over.set()
    assert (await later).id
    assert graph.jobs == []


def test_a_graph_whose_answer_is_lost_is_one_graph(stranger: Peer) -> None:
    stranger.script = [Say(None), TAKEN]
    with Client(stranger.url), hf.graph():
        first = app.double.submit(1)
        app.greet.map(["Ada", "Grace"], greeting=first)
    assert first.id == "7"
    lost, heard = (heard.json["specs"] for heard in stranger.heard)
    assert lost == heard
    assert [spec["local_name"] for spec in heard] == ["job-1", "job-2"]
    assert heard[1]["depends_on"] == ["job-1"]
    keys = {spec["idempotency_key"] for spec in heard}
    assert len(keys) == 2
    assert all(key.startswith("auto-") for key in keys)


def fail_within(graph: hf.Graph) -> None:
    """Submit something within a block that ends badly."""
    with graph:
        app.double.submit(1)
        raise ZeroDivisionError


def test_a_block_that_fails_submits_nothing(stranger: Peer) -> None:
    graph = hf.graph()
    with Client(stranger.url):
        with pytest.raises(ZeroDivisionError):
            fail_within(graph)
        with hf.graph():
            pass  # an empty one is nothing to send, either
        [lost] = graph.jobs
        with pytest.raises(Invalid, match="has no id"):
            lost.status()
        with pytest.raises(Invalid, match="has no id"):
            app.double.submit(lost)
        with pytest.raises(Invalid, match="has no id"), hf.graph():
            app.double.submit(lost)
        with pytest.raises(Invalid, match="make another one"), graph:
            pass
    assert stranger.heard == []


def test_a_block_within_a_block_is_refused(client: Client) -> None:
    with hf.graph() as graph:
        job = app.double.submit(1)
        with pytest.raises(Invalid, match="has no id: its graph is submitted at the end"):
            job.id  # noqa: B018
        with pytest.raises(Invalid, match="is open already"), client.graph():
            pass
    assert graph.jobs[0].id == job.id


def test_a_job_of_another_server_cannot_be_waited_for(stranger: Peer) -> None:
    elsewhere: hf.Job[int] = hf.Job(Client("http://elsewhere"), "7", 1)
    with Client(stranger.url), pytest.raises(Invalid, match="is of http://elsewhere, and not of"):
        app.double.submit(elsewhere)


def test_what_goes_to_another_server_goes_at_once(stranger: Peer, client: Client) -> None:
    stranger.script = [Say(201, b'{"job_id": "9", "is_new": true, "num_tasks": 1}')]
    with client.graph(), Client(stranger.url) as other:
        assert other.submit(app.double, 1).id == "9"


def test_a_refused_graph_is_refused_as_a_whole(client: Client) -> None:
    graph = hf.graph().__enter__()
    app.double.submit(1)
    app.double.with_options(depends_on=[99999]).submit(2)
    with pytest.raises(Invalid, match="there is no job 99999"):
        graph.__exit__(None)
    assert [repr(job) for job in graph.jobs] == ["Job(not submitted, 1 tasks)"] * 2
    assert app.double.submit(1).id  # out of the block, what is submitted is sent again
