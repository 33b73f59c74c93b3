"""The client: which server, which client, safe repetition, children, closing and forking."""

import asyncio
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

import holdfast as hf
from holdfast.client.client import Client, close_shared, find_client
from holdfast.client.context import Context, current
from holdfast.client.transport import DEFAULT_SERVER
from holdfast.errors import Invalid, KeyReused, NotFound, TooLarge, Unavailable
from tests.client import app
from tests.client.contexts import TOKEN, build_context
from tests.client.forks import in_a_fork
from tests.client.hand import Hand
from tests.client.peer import Peer, Say

TAKEN = Say(201, b'{"job_id": "7", "is_new": true, "num_tasks": 1}')
LEASE = "Holdfast-Lease"


@contextmanager
def within(context: Context) -> Iterator[None]:
    """Be the task that a context belongs to, for a block."""
    token = current.set(context)
    try:
        yield
    finally:
        current.reset(token)


@pytest.fixture
def shared(stranger: Peer) -> Iterator[str]:
    """The stranger's address; what this process shares of it is closed at the end."""
    stranger.script = [TAKEN]
    yield stranger.url
    close_shared(stranger.url)


def test_a_job_is_found_again(client: Client) -> None:
    job = app.double.map([1, 2])
    found = client.job(job.id)
    assert (found.id, found.num_tasks) == (job.id, 2)
    assert client.job(int(job.id)).id == job.id


@pytest.mark.parametrize("job_id", ["x", "1/tasks", "1?tasks=true", "", "-1", "1.0", 0])
def test_what_is_no_job_id_is_refused_here(client: Client, job_id: str | int) -> None:
    with pytest.raises(Invalid):
        client.job(job_id)


def test_a_job_that_is_not_there_is_not_found(client: Client) -> None:
    with pytest.raises(NotFound):
        client.job(4182)
    with pytest.raises(NotFound):
        list(client.logs("4182.0"))
    with pytest.raises(Invalid):
        list(client.logs("4182"))


def test_a_command_is_submitted(client: Client) -> None:
    job = client.run_command(["echo", "hello"], queue="q", replicas=2, labels={"a": "b"})
    status = job.status()
    assert (status.num_tasks, status.queue, status.labels) == (2, "q", {"a": "b"})


def test_the_same_key_is_the_same_job(client: Client) -> None:
    function = app.double.with_options(idempotency_key="invoice 7")
    first = function.submit(1)
    assert function.submit(1).id == first.id
    with pytest.raises(KeyReused) as caught:
        function.submit(2)
    assert (caught.value.key, str(caught.value.job_id)) == ("invoice 7", first.id)


def test_a_submission_whose_answer_is_lost_is_one_job(stranger: Peer) -> None:
    stranger.script = [Say(None), Say(None), TAKEN]
    with Client(stranger.url):
        job = app.double.submit(1)
    assert job.id == "7"
    keys = [heard.json["idempotency_key"] for heard in stranger.heard]
    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert keys[0].startswith("auto-")


def test_each_submission_has_a_key_of_its_own(client: Client) -> None:
    assert app.double.submit(1).id != app.double.submit(1).id


def test_an_input_that_is_too_large_is_refused_with_the_limit(client: Client) -> None:
    with pytest.raises(TooLarge) as caught:
        app.greet.map(["x" * (2 << 20)])
    assert caught.value.field == "inputs[0]"
    assert caught.value.limit == 1 << 20


def test_a_body_that_is_too_large_is_refused_at_once(client: Client) -> None:
    with pytest.raises(TooLarge):
        app.greet.map(["x" * 1_000_000] * 70)


def test_a_server_that_is_not_there_is_given_up_after_the_patience() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with Client(url, patience=0.2), pytest.raises(Unavailable, match=f"no answer from {url}"):
            app.double.submit(1)


@pytest.mark.parametrize("is_listening", [False, True], ids=["refuses", "hangs"])
async def test_reads_have_the_same_patience(is_listening: bool) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        if is_listening:
            taken.listen()
        async with Client(f"http://127.0.0.1:{taken.getsockname()[1]}", patience=0.2) as client:
            async with asyncio.timeout(9):  # such reads had 10 s more than that
                with pytest.raises(Unavailable):
                    await client.jobs.get.aio(1)


def test_a_login_in_the_address_is_shown_nowhere() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{taken.getsockname()[1]}"
        with (
            Client(f"http://token:secret@{host}", patience=0.2) as client,
            pytest.raises(Unavailable, match=f"no answer from http://{host}: ") as caught,
        ):
            client.jobs.get(1)
    assert "secret" not in str(caught.value)
    assert "token" not in str(caught.value)


def test_events_are_followed(client: Client) -> None:
    job = app.double.submit(1)
    for event in client.follow_events(job_id=job.id, after="0-0"):
        assert (event.job_id, event.type) == (job.id, "submitted")
        break


async def test_events_are_followed_by_the_awaited_face(client: Client) -> None:
    job = await app.double.submit.aio(1)
    async for event in client.follow_events.aio(type="submitted", after="0-0"):
        assert event.job_id == job.id
        break


def test_inputs_may_come_from_calls_of_the_same_client(hand: Hand) -> None:
    first = app.double.map([1, 2])
    hand.work(2, 4)
    second = app.double.map(first.result(30, task_index=index) for index in range(2))
    assert second.num_tasks == 2


@pytest.mark.parametrize(
    ("name", "told"), [("ada", "ada"), ("J\xfcrgen", "J\\xfcrgen"), ("a\nb", "client")]
)
def test_who_asks_is_told_in_plain_letters(
    stranger: Peer, monkeypatch: pytest.MonkeyPatch, name: str, told: str
) -> None:
    monkeypatch.setenv("LOGNAME", name)
    stranger.script = [TAKEN]
    with Client(stranger.url):
        app.double.submit(1)
    assert stranger.heard[0].headers["Holdfast-Actor"] == told


def test_the_innermost_block_is_in_use(stranger: Peer) -> None:
    with Client("http://outer") as outer:
        with Client("http://inner") as inner:
            assert find_client() is inner
        assert find_client() is outer


def test_a_block_of_one_thread_is_not_in_use_by_another() -> None:
    both_are_open = threading.Barrier(2)

    def find_within(server: str) -> bool:
        with Client(server) as mine:
            both_are_open.wait(30)
            is_mine = find_client() is mine
            both_are_open.wait(30)
        return is_mine

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(find_within, ["http://first", "http://second"])) == [True, True]


async def test_a_block_of_one_coroutine_is_not_in_use_by_another() -> None:
    both_are_open = asyncio.Barrier(2)

    async def find_within(server: str) -> bool:
        async with Client(server) as mine:
            await both_are_open.wait()
            is_mine = find_client() is mine
            await both_are_open.wait()
        return is_mine

    found = await asyncio.gather(*(find_within(f"http://{name}") for name in ("first", "second")))
    assert found == [True, True]


def test_a_thread_without_a_block_uses_the_one_that_is_open() -> None:
    with ThreadPoolExecutor(1) as pool, Client("http://outer"), Client("http://inner") as inner:
        assert pool.submit(find_client).result(30) is inner


def test_a_thread_without_a_block_does_not_guess_among_those_of_others() -> None:
    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
        clients = [Client("http://first"), Client("http://second")]
        for pool, client in zip((first, second), clients, strict=True):
            pool.submit(client.__enter__).result(30)
        with pytest.raises(Invalid, match="for http://first and http://second; open one"):
            find_client()
        clients[1].close()
        assert find_client() is clients[0]
        clients[0].close()


async def test_a_client_is_opened_and_closed_by_async_with(stranger: Peer) -> None:
    stranger.script = [TAKEN]
    async with hf.Client(stranger.url) as client:
        assert find_client() is client
        jobs = await asyncio.gather(*(app.double.submit.aio(n) for n in range(5)))
    assert [job.id for job in jobs] == ["7"] * 5
    with pytest.raises(Invalid, match="is not open"):
        client.submit(app.double, 1)


def test_without_a_block_one_client_is_shared(shared: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_SERVER", shared)
    assert app.double.submit(1).id == "7"
    assert find_client() is find_client()
    assert find_client().server == shared


def test_a_client_that_is_not_open_says_so() -> None:
    client = Client()
    assert client.server == DEFAULT_SERVER
    with pytest.raises(Invalid, match="is not open; use it in a `with` block"):
        client.job(1)
    client.close()


def test_a_client_may_be_opened_again(stranger: Peer) -> None:
    stranger.script = [TAKEN]
    client = Client(stranger.url)
    for _ in range(2):
        with client:
            assert client.submit(app.double, 1).id == "7"


def test_whoever_waits_learns_that_the_client_was_closed(hand: Hand, client: Client) -> None:
    job = app.double.submit(1)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(job.result)
        hand.claim()
        client.close()
        with pytest.raises(Invalid, match="client: "):
            waiting.result(30)


def test_no_thread_is_left_behind(stranger: Peer) -> None:
    before = set(threading.enumerate())
    with Client(stranger.url):
        pass
    assert set(threading.enumerate()) == before


def test_a_task_submits_to_its_own_server(shared: str) -> None:
    with Client("http://of-the-worker"), within(build_context(shared)):
        assert find_client().server == shared
        assert Client().server == shared
        app.double.submit(1)


def test_what_a_task_submits_is_a_child_of_its_job(shared: str, stranger: Peer) -> None:
    with within(build_context(shared)):
        app.double.submit(1)
    app.double.with_options()
    [heard] = stranger.heard
    assert heard.headers[LEASE] == f"4182.7 3 {TOKEN}"


async def test_what_a_task_awaits_to_submit_is_a_child_too(shared: str, stranger: Peer) -> None:
    with within(build_context(shared)):
        await app.double.submit.aio(1)
    assert stranger.heard[0].headers[LEASE] == f"4182.7 3 {TOKEN}"


def test_a_task_shows_its_lease_to_no_other_server(stranger: Peer) -> None:
    stranger.script = [TAKEN]
    with within(build_context("http://of-the-task")), Client(stranger.url) as client:
        assert find_client() is client
        app.double.submit(1)
    assert LEASE not in stranger.heard[0].headers


def test_a_block_of_one_task_is_not_in_use_by_another(shared: str) -> None:
    first, second = build_context("http://of-the-first"), build_context(shared)
    with within(first), Client("http://elsewhere"), within(second):
        assert find_client().server == shared


def test_outside_of_a_task_there_is_no_parent(client: Client) -> None:
    assert app.double.submit(1).status().parent_job_id is None


def test_a_real_server_knows_the_parent(hand: Hand, client: Client) -> None:
    parent = app.double.submit(1)
    claim = hand.claim()
    context = build_context(
        client.server,
        task_id=claim.task_id,
        attempt=claim.attempt,
        lease_token=claim.lease_token,
    )
    with within(context):
        child = app.double.submit(2)
        close_shared(client.server)
    assert client.job(child.id).status().parent_job_id == parent.id
    hand.finish(claim)
    with within(context), pytest.raises(hf.LeaseConflictError):
        app.double.submit(3)
    close_shared(client.server)


def test_what_the_command_of_a_task_submits_is_a_child_of_its_job(
    hand: Hand, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = app.double.submit(1)
    claim = hand.claim()
    monkeypatch.setenv("HOLDFAST_SERVER", client.server)
    monkeypatch.setenv("HOLDFAST_TASK_ID", claim.task_id)
    monkeypatch.setenv("HOLDFAST_ATTEMPT", str(claim.attempt))
    monkeypatch.setenv("HOLDFAST_LEASE_TOKEN", str(claim.lease_token))
    for child in (app.double.submit(2), client.run_command(["true"], queue="other")):
        assert child.status().parent_job_id == parent.id
    hand.finish(claim)
    with pytest.raises(hf.LeaseConflictError):
        app.double.submit(3)


def test_a_client_is_not_used_in_a_fork(stranger: Peer) -> None:
    stranger.script = [TAKEN]
    with Client(stranger.url) as client:
        said = in_a_fork(lambda: client.submit(app.double, 1))
        assert said.startswith("Invalid: holdfast-client: was opened before this process was fork")
        assert client.submit(app.double, 1).id == "7"


def test_a_function_is_submitted_from_a_fork_by_a_client_of_its_own(stranger: Peer) -> None:
    stranger.script = [TAKEN]
    with Client(stranger.url):
        assert in_a_fork(lambda: app.double.submit(1).id) == "7"
        assert app.double.submit(1).id == "7"


def test_a_block_may_end_in_a_fork(stranger: Peer) -> None:
    client = Client(stranger.url)
    with client:
        assert in_a_fork(client.close) == "None"


PROGRAM = """
import sys
import holdfast as hf
from tests.client import app
print(app.double.submit(1).id)
"""


def test_a_program_without_a_block_ends_quietly(stranger: Peer) -> None:
    stranger.script = [TAKEN]
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", "-c", PROGRAM],
        env=os.environ | {"HOLDFAST_SERVER": stranger.url},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "7\n", "")
