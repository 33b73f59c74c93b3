"""Results of other jobs among the arguments: fetched, opened, and put where they belong."""

import base64
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from uuid import UUID

import cloudpickle
import msgspec
import pytest

from holdfast.client.context import Lease
from holdfast.client.transport import Transport
from holdfast.model.submitting.spec import Entrypoint
from holdfast.wire.status import TaskResult
from holdfast.worker.allowing import CallLimit
from holdfast.worker.running import dependency_results as results_module
from holdfast.worker.running.attempt_outcome import Outcome
from holdfast.worker.running.dependency_results import JobResults, fetch_results, fill_in
from holdfast.worker.running.function import BadCall, find_function
from tests.client import peer
from tests.client.peer import Peer, Say
from tests.worker import sample_tasks
from tests.worker.placed_workplace import PlacedWorkplace
from tests.worker.workplace import SAMPLES, Workplace, call

LEASE = Lease("9.0", 0, UUID(int=7))


def ask_for(*jobs: str, **fields: Any) -> Entrypoint:
    """Describe a call with the results of jobs as its arguments."""
    places = [{"path": ["args", index], "job": job} for index, job in enumerate(jobs)]
    shape = {"function": f"{SAMPLES}:echo", "args": [None] * len(jobs), "results": places} | fields
    return msgspec.convert(shape, Entrypoint)


def a_result(value: Any, state: str = "SUCCEEDED", *, pickled: bool = False) -> TaskResult:
    text = msgspec.Raw(json.dumps(value).encode())
    return TaskResult(task_id="7.0", state=f"TASK_STATE_{state}", result=text, pickled=pickled)


def pack(value: Any) -> str:
    return base64.b64encode(cloudpickle.dumps(value)).decode()


def fill(entrypoint: Entrypoint, **found: JobResults) -> tuple[Any, Any]:
    callee = find_function(entrypoint)
    filled = fill_in(callee, entrypoint, {name.strip("j"): each for name, each in found.items()})
    return filled.args, filled.kwargs


def test_a_call_hands_on_its_result_and_many_tasks_a_list_of_them() -> None:
    one = JobResults([a_result({"n": 1})], is_list=False)
    some = JobResults([a_result(1), a_result(None, "FAILED"), a_result(3)], is_list=True)
    only = JobResults([a_result(pack(Decimal(1)), pickled=True)], is_list=True)
    assert fill(ask_for("7", "8", "9"), j7=one, j8=some, j9=only)[0] == [
        {"n": 1},
        [1, None, 3],
        [Decimal(1)],
    ]


@pytest.mark.parametrize(
    ("packed", "error_class"),
    [("bm8gcGlja2xl", "ParseError"), (base64.b64encode(b"cno.such\nname\n.").decode(), None)],
    ids=["broken", "of a module that is not here"],
)
def test_a_result_that_cannot_be_opened_ends_the_task_unless_another_worker_may(
    packed: str, error_class: str | None
) -> None:
    callee = find_function(Entrypoint(function="builtins:len"))
    found = {"7": JobResults([a_result(packed, pickled=True)], is_list=False)}
    with pytest.raises(BadCall) as raised:
        fill_in(callee, Entrypoint(function="builtins:len"), found)
    outcome = raised.value.outcome
    assert outcome.stage == "input"
    assert outcome.error_class == (error_class or "ModuleNotFoundError")


def test_pickled_results_are_not_opened_for_a_call_within_a_limit() -> None:
    entrypoint = ask_for("7")
    callee = find_function(entrypoint, CallLimit("north"))
    plain, packed = a_result(1), a_result(pack(Trap()), pickled=True)
    assert fill_in(callee, entrypoint, {"7": JobResults([plain], is_list=False)}).args == [1]
    with pytest.raises(BadCall, match="worker north opens no pickles"):
        fill_in(callee, entrypoint, {"7": JobResults([plain, packed], is_list=True)})


class Trap:
    """What runs code when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("it was unpickled",)


def test_the_arguments_of_the_job_stay_as_they_are_for_its_next_attempt() -> None:
    entrypoint = ask_for("7")
    assert fill(entrypoint, j7=JobResults([a_result(1)], is_list=False)) == ([1], {})
    assert entrypoint.args == [None]


def bad_call(entrypoint: Entrypoint, **found: JobResults) -> Outcome:
    with pytest.raises(BadCall) as caught:
        fill(entrypoint, **found)
    outcome = caught.value.outcome
    assert (outcome.status, outcome.stage) == ("failed", "input")
    return outcome


def test_a_result_that_cannot_be_opened_is_a_failure_of_the_input() -> None:
    broken = JobResults([a_result("bm90IGEgcGlja2xl", pickled=True)], is_list=False)
    assert bad_call(ask_for("7"), j7=broken).error_class == "ParseError"


def test_a_place_that_is_not_there_is_a_failure_of_the_input() -> None:
    entrypoint = ask_for("7", function=None, args=[], pickle=pack((sample_tasks.echo, (), {})))
    outcome = bad_call(entrypoint, j7=JobResults([a_result(1)], is_list=False))
    assert outcome.error_class == "ValidationError"


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


def page(*values: Any, is_list: bool = True, token: str | None = None) -> Say:
    results = [{"task_id": "7.0", "state": "TASK_STATE_SUCCEEDED", "result": v} for v in values]
    body = {"results": results, "is_list": is_list, "next_page_token": token}
    return Say(200, json.dumps(body).encode())


async def fetch(url: str, *jobs: str) -> dict[str, JobResults]:
    async with Transport(url) as transport:
        return await fetch_results(transport, ask_for(*jobs), LEASE)


async def test_pages_are_fetched_once_for_each_job_however_often_the_server_is_away(
    stranger: Peer,
) -> None:
    stranger.script = [Say(None), page(1, 2, token="t"), Say(503), page(3)]
    found = await fetch(stranger.url, "7", "7")
    assert [bytes(result.result) for result in found["7"].results] == [b"1", b"2", b"3"]
    assert found["7"].is_list
    paths = [heard.path for heard in stranger.heard]
    first, second = (
        "/internal/given-results/7?page_size=500",
        "/internal/given-results/7?page_size=500&page_token=t",
    )
    assert paths == [first, first, second, second]
    assert {heard.headers["Holdfast-Lease"] for heard in stranger.heard} == {str(LEASE)}


MISSING = Say(404, b'{"error": {"code": "not_found", "message": "there is no job 7"}}')
BROKEN = Say(500, b'{"error": {"code": "internal", "message": "boom"}}')


@pytest.mark.parametrize(
    ("said", "error_class", "problem"),
    [
        (MISSING, "ValidationError", "the result of job 7 is gone: there is no job 7"),
        (BROKEN, "TransientError", "cannot be read: "),
        (page("x" * 100), "ValidationError", "over 50 bytes together"),
    ],
)
async def test_results_that_cannot_be_had_are_a_failure_of_the_input(
    stranger: Peer, monkeypatch: pytest.MonkeyPatch, said: Say, error_class: str, problem: str
) -> None:
    monkeypatch.setattr(results_module, "BYTES_MAX", 50)
    stranger.script = [said]
    with pytest.raises(BadCall) as caught:
        await fetch(stranger.url, "7")
    outcome = caught.value.outcome
    assert (outcome.status, outcome.error_class, outcome.stage) == ("failed", error_class, "input")
    assert problem in (outcome.error or "")


def after(name: str, *tasks: str, **fields: Any) -> dict[str, Any]:
    """Describe a job of a sample function that is given the results of other jobs."""
    jobs = [task_id.partition(".")[0] for task_id in tasks]
    places = [{"path": ["args", index], "job": job} for index, job in enumerate(jobs)]
    entrypoint = call(name, *([None] * len(jobs))) | {"results": places}
    return {"entrypoint": entrypoint, "depends_on": jobs} | fields


async def result_of(workplace: Workplace, task_id: str) -> Any:
    return json.loads((await workplace.reach(task_id, "SUCCEEDED"))["result"])


async def test_results_reach_functions_wherever_they_run(placed: PlacedWorkplace) -> None:
    placed.hire()
    placed.employ()
    first = await placed.submit(call("add", 1, 1))
    some = await placed.submit(call("add", 1), [10, 20])
    only = await placed.submit(call("add", 1), [5])
    of_one = await placed.submit(**after("echo", only))
    on_the_loop = await placed.submit(**after("add", first))
    in_a_thread = await placed.submit(**after("add_in_thread", on_the_loop, first))
    in_a_process = await placed.submit(**after("add_in_process", in_a_thread, on_the_loop))
    elsewhere = await placed.submit(**after("echo", in_a_process, queue=None))
    packed: dict[str, Any] = {
        "pickle": pack((sample_tasks.echo, (), {"value": (Decimal(4), None)}))
    }
    packed["results"] = [{"path": ["kwargs", "value", 1], "job": some.partition(".")[0]}]
    pickled = await placed.submit(packed, depends_on=[some.partition(".")[0]])

    assert await result_of(placed, on_the_loop) == 3
    assert await result_of(placed, of_one) == [6]
    assert await result_of(placed, in_a_thread) == 5
    assert (await result_of(placed, in_a_process))[0] == 8
    assert (await result_of(placed, elsewhere))[0] == 8
    opened = cloudpickle.loads(base64.b64decode(await result_of(placed, pickled)))
    assert opened == (Decimal(4), [11, 21])
    again = await placed.submit(**after("echo", pickled))
    assert await result_of(placed, again) == ["4", [11, 21]]  # opened, and written as JSON
