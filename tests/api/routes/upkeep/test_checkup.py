"""The routes of servers and of the checkup: who is there, and what is wrong."""

from typing import Any

from holdfast.model.programs import own_version
from tests.api.face import Face
from tests.waiting import eventually


async def test_servers_are_listed_and_the_system_is_looked_at(face: Face) -> None:
    async def list_servers() -> list[Any]:
        return (await face.get("/api/servers")).json["servers"]  # type: ignore[no-any-return]

    assert [each["version"] for each in await eventually(list_servers)] == [own_version()]
    said = await face.get("/api/doctor")
    assert said.status == 200
    findings = said.json["findings"]
    severities = [each["severity"] for each in findings]
    assert severities == sorted(severities, key=["error", "warning", "ok"].index)
    checks = {each["check"]: each for each in findings}
    # As of all tests: what is written is not yet on disk.
    assert checks["setting fsync"]["severity"] == "error"
    assert checks["schema"] == {
        "severity": "ok",
        "check": "schema",
        "found": "is this program's",
        "remedy": "",
    }


async def test_a_worker_is_known_by_the_version_that_it_has_told(face: Face) -> None:
    body = {"worker_id": "w1", "name": "a", "host": "h", "queues": ["q"]}
    headers = {"user_agent": "holdfast/7.8", "date": "Tue, 03 Feb 2026 02:05:06 GMT"}
    said = await face.post("/internal/worker-register", body, **headers)
    assert said.status == 200, said
    worker = (await face.get("/api/workers/w1")).json
    assert worker["version"] == "7.8"
    assert worker["clock_skew_seconds"] < -3600
    body["worker_id"] = "w2"
    assert (await face.post("/internal/worker-register", body)).status == 200
    worker = (await face.get("/api/workers/w2")).json
    assert (worker["version"], worker["clock_skew_seconds"]) == (None, None)
