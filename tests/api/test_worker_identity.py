"""Nobody speaks for a worker but the worker: what others try who have a token and know its id."""

from typing import Any

import pytest

from holdfast.operations.tokens import revoke_token
from tests.api.face import Face, Said, fence
from tests.api.guarded import Guarded
from tests.stand_in import secret_of


@pytest.fixture
async def hosts(guarded: Guarded) -> Guarded:
    """A server with a worker `w1` on the queue `q`, which joined with the token `hosts`."""
    for name in ("hosts", "stranger"):
        await guarded.make(name, "worker")
    await guarded.make("root", "admin")
    await guarded.join("hosts", "w1", queues=["q"])
    return guarded


MINE = f"w1 {secret_of('w1')}"


async def claim(guarded: Guarded) -> Any:
    """Have w1 claim a task."""
    spec = {"entrypoint": {"function": "a:b"}, "queue": "q"}
    assert (await guarded.say("root", "POST", "/api/jobs", spec)).status == 201
    body = {"worker_id": "w1", "queues": ["q"]}
    said = await guarded.say("hosts", "POST", "/internal/task-claim", body, worker=MINE)
    [claimed] = said.json["claims"]
    return claimed


def is_refused(said: Said, worker_id: str = "w1") -> bool:
    """Tell whether a call was refused because it is not the worker's."""
    assert said.status == 403, said
    assert "secret-of" not in str(said.json), "nothing that could be one is repeated"
    return said.error["details"]["lacks"] in (
        f"the credential of worker {worker_id}",
        f"the secret of worker {worker_id}",
    )


async def test_who_knows_id_and_host_does_not_replace_a_worker(hosts: Guarded) -> None:
    claimed = await claim(hosts)
    heir = {"worker_id": "w2", "name": "w1", "host": "h", "secret": "t" * 32, "replaces": "w1"}
    path = "/internal/worker-register"
    for proof in ({}, {"replaces_secret": "t" * 32}):
        for token in ("stranger", "hosts", "root"):
            assert is_refused(await hosts.say(token, "POST", path, heir | proof)), (token, proof)
    placed = {"address": "http://127.0.0.1:9", "adopts": [fence(claimed)]}
    assert is_refused(await hosts.say("stranger", "POST", path, heir | placed))
    task = (await hosts.say("root", "GET", f"/api/tasks/{claimed['task_id']}")).json
    assert (task["state"], task["worker_id"]) == ("TASK_STATE_ASSIGNED", "w1")
    proven = heir | {"replaces_secret": MINE.split()[1]}
    said = await hosts.say("hosts", "POST", path, proven)
    assert (said.status, said.json["taken_over"]) == (200, 1)
    again = await hosts.say("hosts", "POST", path, proven)
    assert (again.status, again.json["taken_over"]) == (200, 0), "its answer may have been lost"


async def test_no_call_is_made_in_the_name_of_another_worker(hosts: Guarded) -> None:
    claimed = await claim(hosts)
    other = await hosts.join("stranger", "w2")
    function = {"path": "a:b", "options": {"queue": "q", "environment": {"A": "b"}}}
    calls: list[tuple[str, Any]] = [
        ("/internal/task-claim", {"worker_id": "w1", "queues": ["q"]}),
        ("/internal/heartbeat", {"worker_id": "w1", "leases": []}),
        ("/internal/heartbeat", {"worker_id": "w1", "leases": [], "wait_ms": 1}),
        ("/internal/heartbeat", {**fence(claimed), "wait_ms": 1}),
        ("/internal/task-complete", {"worker_id": "w1", "completions": []}),
        ("/internal/worker-news", {"worker_id": "w1"}),
        ("/internal/functions", {"worker_id": "w1", "functions": [function]}),
        ("/internal/worker-drain", {"worker_id": "w1"}),
    ]
    stolen = f"w1 {other.split()[1]}"
    for path, body in calls:
        for shown in ("", other, stolen, "w1", "w1 ", f"{MINE} x"):
            said = await hosts.say("stranger", "POST", path, body, worker=shown)
            assert is_refused(said), (path, shown)
    said = await hosts.say(
        "stranger", "POST", "/internal/worker-leave", {"worker_id": "w1", "secret": "t" * 32}
    )
    assert said.status == 404, "it is not called"
    for path, body in calls:
        said = await hosts.say("hosts", "POST", path, body, worker=MINE)
        assert said.status == 200, (path, said)


async def test_a_lease_is_renewed_and_completed_by_its_token_alone(hosts: Guarded) -> None:
    claimed = await claim(hosts)
    said = await hosts.say("stranger", "POST", "/internal/heartbeat", fence(claimed))
    assert said.status == 200
    body = {**fence(claimed), "status": "succeeded"}
    assert (await hosts.say("stranger", "POST", "/internal/task-complete", body)).status == 200


async def test_with_tokens_a_worker_registers_before_it_claims_and_with_a_secret(
    hosts: Guarded,
) -> None:
    body = {"worker_id": "bare", "queues": ["q"]}
    for shown in ("", f"bare {'s' * 32}"):
        said = await hosts.say("hosts", "POST", "/internal/task-claim", body, worker=shown)
        assert is_refused(said, "bare")
        assert "register with a secret" in said.error["message"]
    known = {"worker_id": "bare", "name": "n", "host": "h"}
    said = await hosts.say("hosts", "POST", "/internal/worker-register", known)
    assert (said.status, said.error["field"]) == (400, "secret")


async def test_on_loopback_only_a_worker_with_a_secret_has_to_show_it(face: Face) -> None:
    async def beat(worker_id: str, **headers: str) -> Said:
        return await face.post(
            "/internal/heartbeat", {"worker_id": worker_id, "leases": []}, **headers
        )

    assert await face.claim(worker="bare") == []
    known = {"worker_id": "bare", "name": "n", "host": "h"}
    assert (await face.post("/internal/worker-register", known)).status == 200
    assert (await beat("bare")).status == 200
    assert (await beat("later")).status == 200, "it has not registered yet"
    known |= {"worker_id": "later", "secret": "s" * 32}
    assert (await face.post("/internal/worker-register", known)).status == 200
    assert is_refused(await beat("later"), "later")
    assert (await beat("later", holdfast_worker=f"later {'s' * 32}")).status == 200
    heir = {"worker_id": "heir", "name": "n", "host": "h", "replaces": "later"}
    assert is_refused(await face.post("/internal/worker-register", heir), "later")
    heir |= {"replaces": "bare"}
    assert (await face.post("/internal/worker-register", heir)).status == 200


async def test_the_end_of_its_token_is_the_end_of_a_workers_credential(hosts: Guarded) -> None:
    body = {"worker_id": "w1", "leases": []}
    said = await hosts.say("stranger", "POST", "/internal/heartbeat", body, worker=MINE)
    assert said.status == 200, "known, and so taken without another look"
    await revoke_token(hosts.database, "hosts", actor="root")
    await hosts.face.runtime.credentials.read()
    said = await hosts.say("stranger", "POST", "/internal/heartbeat", body, worker=MINE)
    assert is_refused(said)
    heir = {"worker_id": "w2", "name": "w1", "host": "h", "secret": "t" * 32, "replaces": "w1"}
    heir["replaces_secret"] = MINE.split()[1]
    assert is_refused(await hosts.say("stranger", "POST", "/internal/worker-register", heir))
    shown = (await hosts.say("root", "GET", "/api/workers/w1")).json
    assert shown["health"] == "lost", "so that nobody calls it, or places anything there"
    assert "the token hosts, with which it joined, has ended" in str(shown)


async def test_who_drains_a_worker_is_recorded_unless_it_is_the_worker(hosts: Guarded) -> None:
    await hosts.join("hosts", "w2")
    own = {"worker_id": "w1"}
    said = await hosts.say("hosts", "POST", "/internal/worker-drain", own, worker=MINE)
    assert said.status == 200, said
    for token, status in (("stranger", 403), ("root", 200)):
        said = await hosts.say(token, "POST", "/api/workers/w2:drain", {})
        assert said.status == status, said
    said = await hosts.say("root", "GET", "/api/actions?action=drain_worker")
    assert [(each["actor"], each["subject"]) for each in said.json["actions"]] == [("root", "w2")]


async def test_a_token_of_queues_declares_schedules_in_these_alone(guarded: Guarded) -> None:
    shown = {}
    for token, queues in (("hosts", ()), ("ann", ("anns",))):
        await guarded.make(token, "worker", queues=queues)
        shown[token] = await guarded.join(token, token)

    async def declare(token: str, *paths: str, queue: str | None = None, **call: Any) -> Any:
        job = {} if queue is None else {"queue": queue}
        schedules = [
            {
                "function": path,
                "terms": {"cron": "@daily"},
                "spec": {"entrypoint": {"function": path} | call} | job,
            }
            for path in paths
        ]
        body = {"worker_id": token, "modules": ["a"], "schedules": schedules}
        said = await guarded.say(token, "POST", "/internal/schedules", body, worker=shown[token])
        assert said.status == 200, said
        return said.json

    assert (await declare("hosts", "a:theirs", queue="bobs"))["changed"] == ["a:theirs"]
    for path, queue in (("a:mine", "bobs"), ("a:mine", None), ("a:theirs", "anns")):
        said = await declare("ann", path, queue=queue)
        assert (said["changed"], said["retired"], list(said["refused"])) == ([], [], [path])
    assert (await declare("ann", "a:mine", queue="anns"))["changed"] == ["a:mine"]
    assert (await declare("ann"))["retired"] == ["a:mine"]
    # Whatever its token is for, a worker says no arguments.
    said = await declare("hosts", "a:theirs", queue="bobs", args=["rm"])
    assert "spec.entrypoint.args" in said["refused"]["a:theirs"]


async def test_a_token_of_queues_announces_functions_of_these_alone(guarded: Guarded) -> None:
    await guarded.make("root", "admin")
    await guarded.make("hosts", "worker")
    await guarded.make("ann", "worker", queues=("anns",))
    shown = {"hosts": await guarded.join("hosts", "h1"), "ann": await guarded.join("ann", "a1")}

    async def announce(token: str, path: str, **options: Any) -> Any:
        body = {
            "worker_id": shown[token].split()[0],
            "functions": [{"path": path, "options": {"environment": {"BY": token}} | options}],
        }
        said = await guarded.say(token, "POST", "/internal/functions", body, worker=shown[token])
        assert said.status == 200, said
        return said.json

    async def environment(**spec: Any) -> Any:
        body = {"entrypoint": {"function": "a:mine"}} | spec
        job_id = (await guarded.say("root", "POST", "/api/jobs", body)).json["job_id"]
        shown = (await guarded.say("root", "GET", f"/api/jobs/{job_id}")).json
        return shown["spec"].get("environment", {}), shown["spec"].get("queue")

    assert (await announce("hosts", "a:theirs", queue="bobs"))["changed"] == ["a:theirs"]
    assert (await announce("hosts", "a:placed"))["changed"] == ["a:placed"]
    for path, options in (
        ("a:mine", {"queue": "bobs"}),
        ("a:mine", {}),
        ("a:theirs", {"queue": "anns"}),
        ("a:placed", {"queue": "anns"}),
    ):
        said = await announce("ann", path, **options)
        assert (said["changed"], list(said["refused"])) == ([], [path]), (path, options)
    assert (await announce("ann", "a:mine", queue="anns"))["changed"] == ["a:mine"]
    assert (await announce("ann", "a:mine", queue="anns"))["changed"] == []
    assert await environment(queue="anns") == ({"BY": "ann"}, "anns")
    assert await environment(queue="bobs") == ({}, "bobs")
    assert await environment() == ({}, None), "it draws no jobs into its queue either"
    assert (await announce("hosts", "a:mine", queue="anns"))["changed"] == ["a:mine"]
    assert await environment() == ({"BY": "hosts"}, "anns")


async def test_the_environment_of_functions_is_for_those_who_may_see_it(guarded: Guarded) -> None:
    await guarded.make("hosts", "worker")
    await guarded.make("watch", "read")
    for queue in ("anns", "bobs"):
        await guarded.make(queue, "data", queues=(queue,))
    mine = await guarded.join("hosts", "h1")
    said = [{"path": f"a:{queue}", "options": {"queue": queue}} for queue in ("anns", "bobs")]
    body = {"worker_id": "h1", "functions": said}
    await guarded.say("hosts", "POST", "/internal/functions", body, worker=mine)
    for path in ("/api/functions", "/api/functions/a:anns"):
        assert (await guarded.say("watch", "GET", path)).status == 403
    found = (await guarded.say("anns", "GET", "/api/functions")).json["functions"]
    assert [each["path"] for each in found] == ["a:anns"]
    assert (await guarded.say("anns", "GET", "/api/functions/a:anns")).status == 200
    assert (await guarded.say("bobs", "GET", "/api/functions/a:anns")).status == 404
