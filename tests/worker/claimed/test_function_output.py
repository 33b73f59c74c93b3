"""What functions write within their worker: kept with their attempts, and never waited for."""

import asyncio
import base64
import linecache
import sys
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest

from holdfast.client.transport import Transport
from holdfast.model.work.log_limits import HEAD_BYTES, TAIL_BYTES
from holdfast.worker.claimed import function_output as output_module
from holdfast.worker.claimed.attempt import Attempt
from holdfast.worker.claimed.function_output import AttemptOutput, FunctionOutputs
from holdfast.worker.running.function import TaskStopped
from holdfast.worker.running.tail import STRETCH_BYTES_MAX
from tests.client.peer import Peer, Say, listening
from tests.waiting import eventually
from tests.worker.claims import an_attempt
from tests.worker.faulty_proxy import FaultyProxy
from tests.worker.workplace import Workplace, call

ROOM = 1 << 30
BUSY = Say(503, b"{}")
# In the order in which a function writes; each record and stream is one of its lines.
SPOKEN = b"""%(name)b 0
%(name)b to stderr
bytes \xff
WARNING shop: %(name)b is low
INFO task: %(name)b is loaded rows=3
ERROR task: %(name)b failed
"""


def take_all(output: AttemptOutput) -> list[tuple[int, bytes]]:
    taken = []
    while len(output):
        taken.append(output.take())
    return taken


def test_output_is_taken_in_stretches_that_end_with_a_line_or_a_character() -> None:
    output = AttemptOutput()
    assert output.add(b"one\n", ROOM) == 4
    assert take_all(output) == [(0, b"one\n")]
    output.add(b"x" * (STRETCH_BYTES_MAX - 10) + b"\n" + b"y" * 20, ROOM)
    assert [(start, len(piece)) for start, piece in take_all(output)] == [
        (4, STRETCH_BYTES_MAX - 9),
        (STRETCH_BYTES_MAX - 5, 20),
    ]
    output.add(b"x" + "ä".encode() * STRETCH_BYTES_MAX, ROOM)
    assert {piece.decode()[-1] for _, piece in take_all(output)} == {"ä"}


def test_both_ends_of_a_long_log_are_kept_under_their_offsets() -> None:
    output = AttemptOutput()
    lines = [b"%0999d\n" % (1000 * number) for number in range(40_000)]
    grown = 0
    for at in range(0, len(lines), 100):
        grown += output.add(b"".join(lines[at : at + 100]), ROOM)
    assert grown == len(output) <= HEAD_BYTES + TAIL_BYTES * 5 / 4
    pieces = take_all(output)
    assert all(int(piece[:999]) == offset for offset, piece in pieces)
    ends = [offset + len(piece) for offset, piece in pieces]
    gaps = [(end, start) for end, (start, _) in zip(ends, pieces[1:], strict=False) if end < start]
    [(head, tail)] = gaps
    assert HEAD_BYTES - 1000 < head <= HEAD_BYTES
    assert tail <= 40_000_000 - TAIL_BYTES
    assert pieces[-1][1].endswith(lines[-1])


def test_a_single_write_over_the_limit_is_kept_at_both_ends() -> None:
    output = AttemptOutput()
    output.add(b"first" + b"x" * (3 * (HEAD_BYTES + TAIL_BYTES)) + b"last", ROOM)
    pieces = take_all(output)
    assert pieces[0][1].startswith(b"first")
    assert pieces[-1][1].endswith(b"last")
    assert sum(len(piece) for _, piece in pieces) <= HEAD_BYTES + TAIL_BYTES * 5 / 4


def test_what_there_was_no_room_for_is_counted_within_the_output() -> None:
    output = AttemptOutput()
    output.add(b"kept", ROOM)
    assert output.add(b"dropped", 6) == 0
    output.add(b"dropped", 6)
    output.add(b"kept again\n", ROOM)
    note = b"[14 bytes were dropped: the server did not take them in time]\n"
    output.add(b"lost\n", 1)
    output.end()
    last = note.replace(b"14", b"5")
    assert output.take() == (0, b"kept\n" + note + b"kept again\n" + last)
    assert output.add(b"late", ROOM) == 0


class Sent:
    """Outputs on their way to a peer, and what has come of them."""

    def __init__(self, outputs: FunctionOutputs) -> None:
        self.outputs = outputs
        self.attempt: Attempt = an_attempt()
        self.ended = asyncio.Event()
        self.failures: list[BaseException] = []

    def finish(self) -> None:
        """End the attempt; `ended` is set once its output is sent or given up."""
        self.outputs.finish(self.attempt, self.ended.set)

    async def end(self) -> None:
        """End the attempt, and wait for that."""
        self.finish()
        await asyncio.wait_for(self.ended.wait(), 30)


def stored(count: int = 1) -> Say:
    return Say(200, msgspec.json.encode({"results": [{"task_id": "7.0", "size": 1}] * count}))


def heard(peer: Peer) -> list[list[tuple[int, bytes]]]:
    return [
        [(log["offset"], base64.b64decode(log["content"])) for log in request.json["logs"]]
        for request in peer.heard
    ]


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    """Somebody in the server's place, who keeps everything."""
    with listening() as peer:
        peer.script = [stored()]
        yield peer


@pytest.fixture
async def sent(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Sent]:
    """An attempt whose output goes to the peer."""
    monkeypatch.setattr(output_module, "PAUSE_SECONDS", 0.01)
    failures: list[BaseException] = []
    async with Transport(peer.url) as transport:
        outputs = FunctionOutputs(transport, on_failure=failures.append)
        yield Sent(outputs)
        await outputs.close(0)
    assert failures == []


async def test_an_attempt_that_writes_nothing_costs_nothing(sent: Sent, peer: Peer) -> None:
    sent.finish()
    assert sent.ended.is_set()
    assert (sent.attempt.output, len(sent.outputs), peer.heard) == (None, 0, [])


async def test_output_is_sent_while_the_function_runs_and_the_rest_before_its_end(
    sent: Sent, peer: Peer
) -> None:
    sent.outputs.write(sent.attempt, b"one\n")
    sent.outputs.write(sent.attempt, b"two\n")
    await eventually(lambda: heard(peer) == [[(0, b"one\ntwo\n")]])
    await asyncio.to_thread(sent.outputs.write, sent.attempt, b"three\n")
    await sent.end()
    assert heard(peer)[1:] == [[(8, b"three\n")]]
    sent.outputs.write(sent.attempt, b"late\n")
    assert len(sent.attempt.output or b"") == 0


async def test_attempts_that_write_at_once_share_a_request(sent: Sent, peer: Peer) -> None:
    other = an_attempt()
    peer.script = [stored(2)]
    sent.outputs.write(sent.attempt, b"one\n")
    sent.outputs.write(other, b"other\n")
    await sent.end()
    assert heard(peer) == [[(0, b"one\n"), (0, b"other\n")]]


async def test_who_floods_a_log_pauses_after_each_stretch_but_not_at_the_end(
    sent: Sent, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_module, "HEAD_BYTES", 4)
    monkeypatch.setattr(output_module, "LONG_STRETCH_BYTES_MAX", 4)
    monkeypatch.setattr(output_module, "SEND_EVERY_SECONDS", 0.01)
    peer.script = [stored(), stored(), stored(), stored(2)]
    sent.outputs.write(sent.attempt, b"one\ntwo\nsix\n")
    await eventually(lambda: len(peer.heard) == 3)
    monkeypatch.setattr(output_module, "SEND_EVERY_SECONDS", 3600.0)
    sent.outputs.write(sent.attempt, b"ten\nend\n")
    await sent.end()
    assert heard(peer) == [
        [(0, b"one\n")],
        [(4, b"two\n")],
        [(8, b"six\n")],
        [(12, b"ten\n"), (16, b"end\n")],
    ]


async def test_what_could_not_be_stored_is_sent_again(sent: Sent, peer: Peer) -> None:
    peer.script = [Say(None), BUSY, stored()]
    sent.outputs.write(sent.attempt, b"one\n")
    await sent.end()
    assert heard(peer) == [[(0, b"one\n")]] * 3


async def test_the_end_of_an_attempt_does_not_wait_for_ever(
    sent: Sent, peer: Peer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(output_module, "FLUSH_SECONDS_MAX", 0.05)
    peer.script = [BUSY]
    sent.outputs.write(sent.attempt, b"one\n")
    await sent.end()
    assert "output of task 7.0 attempt 0 is lost: the server has not taken it" in caplog.text
    peer.script = [stored()]
    next_one = an_attempt()
    sent.outputs.write(next_one, b"next\n")
    await eventually(lambda: heard(peer)[-1] == [(0, b"next\n")])


REFUSALS = {
    "lost": Say(
        200,
        b'{"results": [{"task_id": "7.0", "error": {"code": "lease_conflict", "message": "x"}}]}',
    ),
    "unknown": Say(404, b'{"error": {"code": "not_found", "message": "no such route"}}'),
}


@pytest.mark.parametrize("said", REFUSALS.values(), ids=REFUSALS)
async def test_output_that_nobody_will_have_is_let_go(sent: Sent, peer: Peer, said: Say) -> None:
    peer.script = [said]
    sent.outputs.write(sent.attempt, b"one\n")
    await sent.end()
    sent.outputs.write(sent.attempt, b"two\n")
    assert len(heard(peer)) == 1


async def test_of_a_lost_attempt_nothing_more_is_sent(sent: Sent, peer: Peer) -> None:
    peer.script = [BUSY]
    sent.outputs.write(sent.attempt, b"one\n")
    await eventually(lambda: peer.heard)
    sent.attempt.stop = "lost"
    sent.outputs.discard(sent.attempt)
    sent.outputs.write(sent.attempt, b"two\n")
    await eventually(lambda: (sent.attempt.output or AttemptOutput()).in_flight == 0)


async def test_a_worker_that_ends_gives_up_what_it_cannot_send(sent: Sent, peer: Peer) -> None:
    peer.script = [BUSY]
    sent.outputs.write(sent.attempt, b"one\n")
    sent.finish()
    assert len(sent.outputs) == 1
    await sent.outputs.close(0.05)
    assert sent.ended.is_set()


@pytest.mark.parametrize("steps", range(6))
async def test_a_worker_that_ends_is_not_held_up_by_what_ends_at_that_moment(
    sent: Sent, peer: Peer, steps: int
) -> None:
    peer.script = [BUSY]
    sent.outputs.write(sent.attempt, b"one\n")
    for _ in range(3):  # until the sender waits for more
        await asyncio.sleep(0)
    closing = asyncio.create_task(sent.outputs.close(0))
    for _ in range(steps):
        await asyncio.sleep(0)
    sent.finish()
    await eventually(closing.done)


async def test_no_more_is_kept_than_there_is_room_for(
    sent: Sent, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_module, "WAITING_BYTES_MAX", 10)
    monkeypatch.setattr(output_module, "SEND_EVERY_SECONDS", 3600.0)
    peer.script = [stored(2)]
    other = an_attempt()
    sent.outputs.write(sent.attempt, b"12345678\n")
    sent.outputs.write(other, b"abc\n")
    sent.outputs.write(other, b"\n")
    await sent.end()
    note = b"[4 bytes were dropped: the server did not take them in time]\n"
    assert heard(peer) == [[(0, b"12345678\n"), (0, note + b"\n")]]


@pytest.mark.parametrize("function", ["speak", "speak_async", "speak_in_process"])
async def test_all_that_a_function_writes_is_kept_before_its_end(
    workplace: Workplace, function: str
) -> None:
    workplace.hire()
    task_id = await workplace.submit(call(function, "ann"))
    await workplace.ended(task_id)
    spoken = SPOKEN % {b"name": b"ann"}
    if function == "speak_async":
        spoken += b"ann from a thread\n"
    assert await workplace.log(task_id) == spoken


async def test_each_of_many_at_once_has_its_own_output_and_a_silent_one_none(
    workplace: Workplace,
) -> None:
    workplace.hire(concurrency=8)
    names = [f"{kind}-{number}" for number in range(10) for kind in ("speak", "speak_async")]
    task_ids = {
        name: await workplace.submit(call(name.partition("-")[0], name, 50)) for name in names
    }
    silent = await workplace.submit(call("add", 1))
    for name, task_id in task_ids.items():
        await workplace.ended(task_id)
        lines = (await workplace.log(task_id)).splitlines()
        assert lines[:50] == [f"{name} {number}".encode() for number in range(50)]
        assert all(name.encode() in line for line in lines if line != b"bytes \xff")
    await workplace.ended(silent)
    assert await workplace.about("logs", silent) == []


async def test_a_function_writes_on_while_the_server_is_away(
    workplace: Workplace, tmp_path: Path
) -> None:
    began, go, done = tmp_path / "began", tmp_path / "go", tmp_path / "done"
    async with FaultyProxy(workplace.url) as proxy:
        workplace.hire(server=proxy.url)
        task_id = await workplace.submit(call("print_and_wait", *map(str, (began, go, done))))
        await eventually(began.exists)
        await proxy.cut()
        go.touch()
        await eventually(done.exists)
        assert await workplace.state(task_id) in ("ASSIGNED", "RUNNING")
        proxy.mend()
        await workplace.reach(task_id, "SUCCEEDED")
    assert await workplace.log(task_id) == b"before\nafter\n"


def interrupt(code: Callable[[], None], at_step: int) -> bool:
    """Run code, and interrupt it where it comes to a line of the module under test."""
    steps = 0

    def look(frame: FrameType, event: str, _: object) -> Any:
        nonlocal steps
        if frame.f_code.co_filename != output_module.__file__:
            return None
        line = linecache.getline(output_module.__file__, frame.f_lineno).strip()
        # Between the end of a block and letting go of its lock, no interrupt ever comes.
        steps += event == "line" and not line.startswith("with ")
        if steps == at_step:
            raise TaskStopped
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        code()
    except TaskStopped:
        return True
    finally:
        sys.settrace(before)
    return False


async def test_a_write_may_be_interrupted_anywhere(sent: Sent, peer: Peer) -> None:
    is_interrupted, step = True, 0
    while is_interrupted:
        step += 1
        attempt, ended = an_attempt(), asyncio.Event()
        is_interrupted = interrupt(partial(sent.outputs.write, attempt, b"one\n"), step)
        heard_before = len(peer.heard)
        sent.outputs.write(attempt, b"two\n")
        sent.outputs.finish(attempt, ended.set)
        await asyncio.wait_for(ended.wait(), 30)
        [[(offset, content)]] = heard(peer)[heard_before:]
        assert (offset, content) in ((0, b"two\n"), (0, b"one\ntwo\n")), step
        assert len(sent.outputs) == 0
    assert step > 10
