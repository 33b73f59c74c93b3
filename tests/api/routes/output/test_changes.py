"""The stream of changed jobs: resumable, and ended by the stop of its server."""

import re

import msgspec
import pytest

from holdfast.api.routes.output.changes import pour
from holdfast.services import changes
from holdfast.services.runtime import Runtime
from tests.api.asgi import Exchange
from tests.api.face import Face
from tests.world import World

_MESSAGE = re.compile(rb"id: (\d+)\ndata: (.*)\n\n")


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look each time somebody asks."""
    monkeypatch.setattr(changes, "TICK_SECONDS", 0.0)


class Watch:
    """A stream that is being read."""

    def __init__(self, face: Face, query: str = "", **headers: str) -> None:
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        self.exchange = Exchange(face.app, "GET", f"/api/changes/stream?{query}", headers=named)

    async def read(self, count: int) -> list[tuple[str, list[str], bool]]:
        """Wait for so many messages; returns all so far."""
        await self.exchange.until(lambda text: len(_MESSAGE.findall(text)) >= count)
        found = [
            (end, msgspec.json.decode(text))
            for end, text in _MESSAGE.findall(self.exchange.content)
        ]
        return [(end.decode(), told["job_ids"], told["all"]) for end, told in found]


async def test_a_watch_begins_with_all_and_goes_on_with_what_changes(
    quiet_face: Face, world: World
) -> None:
    watch = Watch(quiet_face)
    [(_, jobs, is_all)] = await watch.read(1)
    assert (jobs, is_all) == ([], True)
    job_id = await world.submit()
    assert (await watch.read(2))[1][1:] == ([str(job_id)], False)
    await watch.exchange.leave()


@pytest.mark.parametrize("way", ["header", "query"])
async def test_who_comes_back_goes_on_where_it_was(
    quiet_face: Face, world: World, way: str
) -> None:
    watch = Watch(quiet_face)
    [(end, _, _)] = await watch.read(1)
    await watch.exchange.leave()
    job_id = await world.submit()
    again = (
        Watch(quiet_face, last_event_id=end)
        if way == "header"
        else Watch(quiet_face, query=f"after={end}")
    )
    assert [told[1:] for told in await again.read(1)] == [([str(job_id)], False)]
    await again.exchange.leave()


@pytest.mark.parametrize("text", ["x", "-1", "12-3", "9" * 30])
async def test_a_place_that_is_none_is_refused(quiet_face: Face, text: str) -> None:
    said = await quiet_face.get(f"/api/changes/stream?after={text}")
    assert (said.status, said.error["field"]) == (400, "after")


async def test_a_quiet_stream_says_so_and_ends_with_its_server(quiet: Runtime) -> None:
    said = []
    async for chunk in pour(quiet, None, keep_alive_seconds=0.0):
        said.append(chunk)
        if chunk == b": nothing new\n\n":
            await quiet.stop()
    assert said[0] == b": changes follow\n\n"
    assert said[-1] == b": nothing new\n\n"
