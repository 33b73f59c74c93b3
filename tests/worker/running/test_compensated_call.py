"""The call that a compensation undoes is fetched, and told to functions and commands alike."""

import base64
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import cloudpickle
import msgspec
import pytest

from holdfast.client.transport import Transport
from holdfast.worker.running import compensated_call
from holdfast.worker.running.compensated_call import CompensatedCalls
from holdfast.worker.running.function import BadCall
from tests.client import peer
from tests.client.peer import Peer, Say
from tests.waiting import eventually
from tests.worker import sample_tasks
from tests.worker.placed_orders import a_job
from tests.worker.placed_workplace import PlacedWorkplace
from tests.worker.workplace import SAMPLES, call

MISSING = Say(404, b'{"error": {"code": "not_found", "message": "it is gone"}}')
BROKEN = Say(500, b'{"error": {"code": "internal", "message": "boom"}}')


@pytest.fixture(scope="module")
def listening() -> Iterator[Peer]:
    """Somebody who answers as he is told."""
    with peer.listening() as stranger:
        yield stranger


@pytest.fixture
def stranger(listening: Peer) -> Peer:
    """The same, for one test."""
    listening.heard.clear()
    return listening


def job(*results: str, **entrypoint: Any) -> Say:
    """Tell of a job with the results of others as its arguments."""
    places = [{"path": ["args", index], "job": job} for index, job in enumerate(results)]
    shape = {"function": "app:f", "args": [None] * len(results), "kwargs": {"k": 1}}
    undone = {"entrypoint": shape | {"results": places} | entrypoint}
    return Say(200, json.dumps(undone).encode())


def page(*values: Any, is_list: bool = False, **result: Any) -> Say:
    """Tell of what a job has returned."""
    known = {"task_id": "8.0", "state": "TASK_STATE_SUCCEEDED"}
    results = [known | {"result": value} | result for value in values]
    return Say(200, json.dumps({"results": results, "is_list": is_list}).encode())


def an_attempt(**fields: Any) -> Any:
    record = {"job_id": "7", "state": "FAILED", "input": 5} | fields
    return SimpleNamespace(
        job=a_job(compensates_job_id="7"),
        input=msgspec.Raw(json.dumps(record).encode()),
        task_id="9.0",
        number=0,
        lease_token=UUID(int=7),
    )


async def complete(stranger: Peer, *script: Say, times: int = 1) -> Any:
    """Complete the record of a task, and of others of the same job."""
    stranger.script = list(script)
    async with Transport(stranger.url) as transport:
        calls = CompensatedCalls(transport)
        told = [json.loads(bytes(await calls.complete(an_attempt()))) for _ in range(times)]
    assert all(each == told[0] for each in told)
    return told[0]


async def test_the_call_is_fetched_once_with_results_in_their_places(stranger: Peer) -> None:
    one, some = page({"n": 1}), page(2, 3, is_list=True)
    record = await complete(stranger, job("8"), one, times=3)
    assert (record["args"], record["kwargs"]) == ([{"n": 1}], {"k": 1})
    assert (record["input"], record["truncated"]) == (5, False)
    paths = [heard.path.partition("?")[0] for heard in stranger.heard]
    assert paths == ["/internal/compensated-call", "/internal/given-results/8"]
    assert {heard.headers["Holdfast-Lease"] for heard in stranger.heard} == {f"9.0 0 {UUID(int=7)}"}
    assert (await complete(stranger, job("8"), some))["args"] == [[2, 3]]


async def test_what_is_no_compensation_is_left_alone() -> None:
    attempt = SimpleNamespace(job=a_job(), input=msgspec.Raw(b"[1.50]"))
    calls = CompensatedCalls(Transport("http://127.0.0.1:1"))
    assert await calls.complete(attempt) is attempt.input


@pytest.mark.parametrize(
    ("script", "args"),
    [
        ([MISSING], []),
        ([job("8"), MISSING], [None]),
        ([job("8"), page("cGlja2xl", pickled=True)], [None]),
        ([job("8"), page("r" * 200)], [None]),
        ([job("8", function=None, args=[], kwargs={}, pickle="cGlja2xl")], []),
    ],
    ids=["no job", "no result", "pickled result", "large result", "pickled call"],
)
async def test_what_cannot_be_told_is_said_to_be_missing(
    stranger: Peer, monkeypatch: pytest.MonkeyPatch, script: list[Say], args: list[Any]
) -> None:
    monkeypatch.setattr(compensated_call, "RESULTS_BYTES_MAX", 100)
    record = await complete(stranger, *script)
    assert (record["args"], record["truncated"]) == (args, True)


@pytest.mark.parametrize("script", [[BROKEN], [job("8"), BROKEN]])
async def test_a_server_that_fails_is_no_reason_to_go_without(
    stranger: Peer, script: list[Say]
) -> None:
    with pytest.raises(BadCall) as caught:
        await complete(stranger, *script)
    outcome = caught.value.outcome
    assert (outcome.status, outcome.error_class, outcome.stage) == (
        "failed",
        "TransientError",
        "input",
    )


async def test_the_call_reaches_compensations_wherever_they_run(placed: PlacedWorkplace) -> None:
    placed.hire()
    placed.employ()
    first = (await placed.submit(call("echo", "two"))).partition(".")[0]
    places = [{"path": ["kwargs", "text"], "job": first}]
    plain = call("fail", "permanent", text=None) | {"results": places}
    packed = cloudpickle.dumps((sample_tasks.fail, ("permanent",), {"text": {1}}))
    pickled = {"pickle": base64.b64encode(packed).decode()}
    shell = {"shell": 'cat "$HOLDFAST_INPUT_FILE"'}
    ways: list[tuple[dict[str, Any], dict[str, Any], str | None]] = [
        (plain, {"function": f"{SAMPLES}:tell_undo"}, "q"),
        (plain, {"function": f"{SAMPLES}:tell_undo_in_process"}, "q"),
        (plain, {"function": f"{SAMPLES}:tell_undo"}, None),
        (pickled, {"function": f"{SAMPLES}:tell_undo"}, "q"),
        (plain, shell, "q"),
        (plain, shell, None),
    ]
    told = []
    for entrypoint, compensation, queue in ways:
        fields: dict[str, Any] = {
            "compensation": compensation,
            "queue": queue,
            "on_exhausted": "fail",
        }
        waits = [first] if "results" in entrypoint else []
        task_id = await placed.submit(entrypoint, depends_on=waits, **fields)
        undo = await undo_of(placed, task_id)
        ended = await placed.reach(undo, "SUCCEEDED")
        told.append(json.loads(ended["result"] or await placed.log(undo)))
    of_functions = [["permanent"], {"text": "two"}, False]
    assert told[:3] == [of_functions] * 3
    assert told[3] == [["permanent"], {"text": [1]}, False]
    for record in told[4:]:
        assert [record["args"], record["kwargs"], record["truncated"]] == of_functions


async def undo_of(placed: PlacedWorkplace, task_id: str) -> str:
    """Wait for the compensation of a job; gives its task."""

    async def find() -> list[Any]:
        return await placed.fetch(
            "select compensation_job_id from holdfast.undos where compensation_job_id > 0 "
            "and job_id = $1",
            int(task_id.partition(".")[0]),
        )

    [row] = await eventually(find)
    return f"{row[0]}.0"
