"""What attempts may do by their leases, made from the list of routes: exactly what is declared."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import msgspec
import pytest

from holdfast.api.app import ROUTES
from holdfast.api.attempts import AttemptMay
from holdfast.api.bodies import Octets
from holdfast.api.route import Route
from holdfast.model.access.roles import EVERYBODY, Role
from holdfast.services.runtime import LEASE_LOOKS_MAX, READ_CONNECTIONS
from tests.api.face import Said, fence
from tests.api.guarded import Guarded, bearer
from tests.stand_in import secret_of

# What the bodies of routes have beside a lease, so that they can be read.
FIELDS: dict[str, Any] = {
    "checkpoint": 1,
    "offset": 0,
    "content": "",
    "kind": "loaded",
    "name": "n",
    "address": "127.0.0.1:1",
    "fraction": 0.5,
    "entrypoint": {"function": "a:b"},
    "queue": "children",
    "specs": [{"entrypoint": {"function": "a:b"}, "queue": "children"}],
}
W1 = f"w1 {secret_of('w1')}"
SPEC = {"entrypoint": {"function": "a:b"}, "queue": "q"}


@dataclass
class Family:
    """Two jobs that run, each with a child; one that waits for nobody, and one that is given."""

    guarded: Guarded
    mine: Any
    others: Any
    given: str
    child: str
    others_child: str

    async def call(
        self, route: Route, lease: str, *, job: str, named: Any = None, **headers: str
    ) -> Said:
        """Call a route by a lease, about a job, with a body that names a lease."""
        path = route.path.replace(":path}", "}").replace("{job_id}", job)
        path = path.replace("{task_id}", f"{job}.0").replace("{given}", self.given)
        path = path.replace("{bundle}", "0" * 64)
        for name in ("queue", "worker_id", "name", "dataset", "trigger", "version", "type"):
            path = path.replace(f"{{{name}}}", "1")
        path = path.replace("{function}", "m:f").replace("{token}", "t")
        body = (
            None if route.body is None else b"" if route.body is Octets else self.body(route, named)
        )
        headers = {"holdfast-lease": lease, **headers}
        return await self.guarded.face.change(route.method, path, body, **headers)

    def body(self, route: Route, named: Any) -> Any:
        """Write a body that can be read, and names a lease where it can."""
        known = FIELDS | {"logs": [{"offset": 0, "content": "", **fence(named or self.mine)}]}
        known |= fence(named or self.mine)
        assert route.body is not None
        names = [field.encode_name for field in msgspec.structs.fields(route.body)]
        return {name: known[name] for name in names if name in known}


def text_of(claim: Any, **changed: Any) -> str:
    """Write the header of an attempt."""
    shown = claim | changed
    return f"{shown['task_id']} {shown['attempt']} {shown['lease_token']}"


def job_of(claim: Any) -> str:
    return str(claim["task_id"].partition(".")[0])


@pytest.fixture
async def family(guarded: Guarded) -> Family:
    """See Family."""
    await guarded.make("root", "admin")
    await guarded.make("hosts", "worker", queues=("q",))
    await guarded.join("hosts", "w1", queues=["q"])
    given = await submit(guarded, queue="q")
    await finish(guarded, await claim(guarded))
    mine_id = await submit(guarded, owner="ann", depends_on=[given])
    mine = await claim(guarded)
    assert job_of(mine) == mine_id
    await submit(guarded, owner="bob")
    others = await claim(guarded)
    children = []
    for parent in (mine, others):
        spec = SPEC | {"queue": "children"}
        said = await guarded.face.post("/api/jobs", spec, **{"holdfast-lease": text_of(parent)})
        assert said.status == 201, said
        assert said.json["parent_job_id"] == job_of(parent)
        children.append(said.json["job_id"])
    return Family(guarded, mine, others, given, *children)


async def submit(guarded: Guarded, **fields: Any) -> str:
    said = await guarded.say("root", "POST", "/api/jobs", SPEC | fields)
    assert said.status == 201, said
    return str(said.json["job_id"])


async def claim(guarded: Guarded) -> Any:
    body = {"worker_id": "w1", "queues": ["q"], "max_tasks": 1}
    said = await guarded.say("hosts", "POST", "/internal/task-claim", body, worker=W1)
    [found] = said.json["claims"]
    return found


async def finish(guarded: Guarded, claimed: Any, status: str = "succeeded") -> None:
    body = {"worker_id": "w1", **fence(claimed), "status": status}
    said = await guarded.say("hosts", "POST", "/internal/task-complete", body, worker=W1)
    assert said.status == 200, said


def closed() -> list[Route]:
    return [route for route in ROUTES if route.role is not EVERYBODY]


def opened() -> list[Route]:
    return [route for route in closed() if route.attempt is not AttemptMay.NO]


def about(route: Route, said: Said) -> str:
    return f"{route.method} {route.path}: {said}"


def is_refused(said: Said, lacks: str) -> bool:
    error = said.json.get("error", {})
    is_so = (said.status, error.get("code")) == (403, "not_allowed")
    return is_so and error["details"]["lacks"] == lacks


def is_lost(said: Said) -> bool:
    return said.status == 409 and bool(said.error["code"] == "lease_conflict")


def is_admitted(said: Said) -> bool:
    """Tell whether a lease was good for a route, whatever became of the request there."""
    if said.status == 403:
        # Of its own job it is known that it has no such thing.
        return said.error["details"]["lacks"] in ("a compensation", f"bundle {'0' * 64}")
    is_done = said.status in (200, 201)
    unknown = (
        "there is no endpoint 1",
        "there is no announced function m:f",
        "there is no limit n",
    )
    return is_done or (said.status == 404 and said.error["message"] in unknown)


def names_job(route: Route) -> bool:
    return "{job_id}" in route.path or "{task_id}" in route.path


async def test_a_running_attempt_may_call_what_is_declared_and_nothing_else(
    family: Family,
) -> None:
    lease = text_of(family.mine)
    for route in closed():
        if route.method == "POST" and route.path.endswith(":cancel"):
            continue  # or the rest has no child any more
        said = await family.call(route, lease, job=family.child)
        if route.attempt is AttemptMay.NO:
            assert is_refused(said, "a token"), about(route, said)
        else:
            assert is_admitted(said), about(route, said)
    assert len(opened()) > 20


async def test_it_reaches_its_own_children_and_no_other_job(family: Family) -> None:
    lease = text_of(family.mine)
    own, others = job_of(family.mine), job_of(family.others)
    routes = [route for route in opened() if names_job(route)]
    for route in routes:
        for job in (family.others_child, others, own, family.given, "999999"):
            said = await family.call(route, lease, job=job)
            assert is_refused(said, f"job {job}"), about(route, said)
    for route in routes:
        said = await family.call(route, lease, job=family.child)
        assert is_admitted(said), about(route, said)
    assert any(route.path.endswith(":cancel") for route in routes)


async def test_it_names_no_lease_but_its_own(family: Family) -> None:
    lease, other = text_of(family.mine), family.others
    named = [
        r for r in opened() if fence(other).keys() & set(family.body(r, other) if r.body else ())
    ]
    named += [r for r in opened() if r.path == "/internal/task-logs"]
    assert len(named) == 10, [route.path for route in named]
    for route in named:
        said = await family.call(route, lease, job=family.child, named=other)
        assert is_refused(said, f"the lease of task {other['task_id']}"), about(route, said)
        forged = family.mine | {"lease_token": str(UUID(int=1))}
        said = await family.call(route, lease, job=family.child, named=forged)
        assert said.status == 403, about(route, said)


async def test_an_ending_attempt_may_only_say_goodbye(family: Family) -> None:
    lease, own = text_of(family.mine), family.mine["task_id"]
    cancel = {"mode": "hard", "reason": "enough"}
    said = await family.guarded.say("root", "POST", f"/api/tasks/{own}:cancel", cancel)
    assert said.status == 200, said
    allowed = set()
    for route in opened():
        said = await family.call(route, lease, job=family.child)
        if route.attempt is AttemptMay.ENDING_TOO:
            assert is_admitted(said), about(route, said)
            allowed.add(route.path.removeprefix("/internal/"))
        else:
            assert is_lost(said), about(route, said)
    assert allowed == {"task-log", "task-logs", "checkpoint-save"}


async def test_a_lease_that_is_released_or_was_never_granted_is_good_for_nothing(
    family: Family,
) -> None:
    mine = family.mine
    strangers = [
        text_of(mine, lease_token=UUID(int=1)),
        text_of(mine, attempt=mine["attempt"] + 1),
        text_of(mine, task_id=family.others["task_id"]),
        text_of(mine, task_id="999999.0"),
    ]
    done = await family.call(_route("/internal/task-event"), text_of(mine), job=family.child)
    assert done.status == 200
    await finish(family.guarded, mine)
    for route in opened():
        for lease in (text_of(mine), *strangers):  # the first is a replay of what was good
            said = await family.call(route, lease, job=family.child)
            assert is_lost(said), about(route, said)
            assert str(mine["lease_token"]) not in str(said)
        said = await family.call(route, "1.0 token", job=family.child)
        assert (said.status, said.error["field"]) == (400, "Holdfast-Lease"), about(route, said)


async def test_leases_are_looked_up_few_at_once_and_reads_go_on(family: Family) -> None:
    face = family.guarded.face
    forged = {"holdfast-lease": text_of(family.mine, lease_token=UUID(int=1))}
    looks = face.runtime.lease_looks
    async with AsyncExitStack() as held:
        for _ in range(LEASE_LOOKS_MAX):
            await held.enter_async_context(looks)
        waiting = [
            asyncio.create_task(face.get(f"/api/jobs/{family.child}", **forged)) for _ in range(8)
        ]
        said = await family.guarded.say("root", "GET", f"/api/jobs/{family.child}")
        assert said.status == 200
        assert not any(call.done() for call in waiting)
    assert all(is_lost(said) for said in await asyncio.gather(*waiting))
    assert LEASE_LOOKS_MAX < READ_CONNECTIONS
    assert not looks.locked()


async def test_a_lease_goes_before_a_token_where_that_would_be_a_workers(family: Family) -> None:
    lease, root = text_of(family.mine), bearer(family.guarded.tokens["root"])
    for route in closed():
        if route.content_type == "text/event-stream" or route.role is Role.ADMIN:
            continue
        said = await family.call(route, lease, job=family.child, named=family.others, **root)
        about_lease = f"the lease of task {family.others['task_id']}"
        if route.role is Role.WORKER and route.attempt is AttemptMay.NO:
            assert is_refused(said, "a token"), about(route, said)
        elif route.role is Role.WORKER:
            assert is_refused(said, about_lease) or is_admitted(said), about(route, said)
        else:
            assert said.status != 403, about(route, said)


async def test_what_it_submits_is_a_child_of_the_same_owner(family: Family) -> None:
    face, lease = family.guarded.face, {"holdfast-lease": text_of(family.mine)}
    spec = SPEC | {"idempotency_key": "k", "depends_on": [family.given, family.child]}
    first = await face.post("/api/jobs", spec, **lease)
    again = await face.post("/api/jobs", spec, **lease)
    assert (first.status, again.status) == (201, 200)
    assert first.json["job_id"] == again.json["job_id"]
    assert (first.json["owner"], first.json["parent_job_id"]) == ("ann", job_of(family.mine))
    made = await face.post("/api/jobs:batch", {"specs": [SPEC, SPEC]}, **lease)
    for job in made.json["jobs"]:
        shown = (await face.get(f"/api/jobs/{job['job_id']}", **lease)).json
        assert (shown["owner"], shown["parent_job_id"]) == ("ann", job_of(family.mine))
        assert shown["spec"]
    said = await face.post("/api/jobs", SPEC | {"owner": "bob"}, **lease)
    assert (said.status, said.json["owner"]) == (201, "ann")
    for foreign in (job_of(family.others), family.others_child, job_of(family.mine), "999999"):
        asked = SPEC | {"depends_on": [foreign]}
        said = await face.post("/api/jobs", asked, **lease)
        assert is_refused(said, f"job {foreign}"), said
        said = await face.post("/api/jobs:batch", {"specs": [SPEC, asked]}, **lease)
        assert is_refused(said, f"job {foreign}"), said


async def test_who_cancels_a_child_is_the_attempt(family: Family) -> None:
    lease = {"holdfast-lease": text_of(family.mine), "holdfast-actor": "somebody"}
    face = family.guarded.face
    said = await face.post(f"/api/jobs/{family.child}:cancel", {}, **lease)
    assert said.json == {"changed": True}
    shown = (await family.guarded.say("root", "GET", f"/api/jobs/{family.child}")).json
    assert shown["cancelled_by"] == f"attempt {family.mine['task_id']}.0"


def _route(path: str) -> Route:
    [found] = [route for route in ROUTES if route.path == path]
    return found


async def test_it_reads_a_function_without_the_environment_of_its_jobs(family: Family) -> None:
    guarded = family.guarded
    options = {"queue": "q", "environment": {"KEY": "hush"}}
    body = {"worker_id": "w1", "functions": [{"path": "m:f", "options": options}]}
    said = await guarded.say("hosts", "POST", "/internal/functions", body, worker=W1)
    assert said.json["changed"] == ["m:f"]
    shown = (await guarded.say("root", "GET", "/api/functions/m:f")).json
    assert shown["options"]["environment"] == options["environment"]
    lease = {"holdfast-lease": text_of(family.mine)}
    shown = (await guarded.face.get("/api/functions/m:f", **lease)).json
    assert (shown["options"]["queue"], "hush" in repr(shown)) == ("q", False)


async def test_it_submits_no_child_with_outputs_and_is_told_what_to_do(family: Family) -> None:
    spec = SPEC | {"outputs": [{"dataset": "orders"}]}
    lease = {"holdfast-lease": text_of(family.mine)}
    said = await family.guarded.face.post("/api/jobs", spec, **lease)
    assert is_refused(said, "a token without owners and queues")
    assert f"which attempt {family.mine['task_id']}" in said.error["message"]
    assert "the token 'attempt" not in said.error["message"]
    assert "a job may have one of its own in its environment" in said.error["message"]
