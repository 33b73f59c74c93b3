"""The HTTP face of a server: every route, and what is said where there is none."""

from collections.abc import Callable, Sequence
from typing import Any

from starlette import routing

from holdfast.api.bodies import Receive
from holdfast.api.dashboard import Dashboard, open_dashboard
from holdfast.api.hosts import Hosts
from holdfast.api.openapi import describe
from holdfast.api.route import Route, Scope, Send, send_error
from holdfast.api.routes import datasets
from holdfast.api.routes.access import actions, session, tokens
from holdfast.api.routes.limits import limits, queues, shares
from holdfast.api.routes.output import changes, endpoints, events, logs, results
from holdfast.api.routes.submitting import bundles, schedules, submissions, types
from holdfast.api.routes.upkeep import checkup, health, overview
from holdfast.api.routes.work import attempts, dead_letters, jobs, signals, tasks
from holdfast.api.routes.workers import (
    attempt_calls,
    functions,
    worker_protocol,
    worker_reports,
    workers,
)
from holdfast.services.runtime import Runtime
from holdfast.wire.answers import ErrorBody

# Routes with a suffix such as :cancel stand before those whose last part takes anything.
ROUTES: tuple[Route, ...] = (
    *worker_protocol.ROUTES,
    *worker_reports.ROUTES,
    *attempt_calls.ROUTES,
    *endpoints.ROUTES,
    *submissions.ROUTES,
    *dead_letters.ROUTES,
    *signals.ROUTES,
    *jobs.ROUTES,
    *tasks.ROUTES,
    *attempts.ROUTES,
    *results.ROUTES,
    *logs.ROUTES,
    *events.ROUTES,
    *changes.ROUTES,
    *queues.ROUTES,
    *schedules.ROUTES,
    *limits.ROUTES,
    *shares.ROUTES,
    *workers.ROUTES,
    *datasets.ROUTES,
    *functions.ROUTES,
    *types.ROUTES,
    *tokens.ROUTES,
    *session.ROUTES,
    *overview.ROUTES,
    *checkup.ROUTES,
    *actions.ROUTES,
    *bundles.ROUTES,
    *health.ROUTES,
)

PAGE_METHODS = ("GET", "HEAD")


def build_app(
    runtime: Runtime,
    allowed_hosts: Sequence[str] = (),
    certified: Callable[[], tuple[str, ...]] = tuple,
) -> Any:
    """Build the ASGI application of a server."""
    hosts = Hosts(allowed_hosts, certified)
    bound = [route.bind(runtime, hosts) for route in (*ROUTES, describe(ROUTES))]
    return App(bound, open_dashboard())


class App:
    """Finds the route of a request; its refusals have the shape of all others."""

    def __init__(self, routes: list[routing.Route], dashboard: Dashboard) -> None:
        self._routes = routes
        self._dashboard = dashboard
        # Most requests go to a few paths without parameters: those need no search.
        self._plain = {
            (method, route.path): route.app
            for route in routes
            if "{" not in route.path
            for method in route.methods or ()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; other kinds of connections are not served."""
        assert scope["type"] == "http", "only HTTP is served here"
        app = self._plain.get((scope["method"], scope["path"]))
        if app is not None:
            await app({**scope, "path_params": {}}, receive, send)  # type: ignore[arg-type]
            return
        allowed: set[str] = set()
        for route in self._routes:
            match, child = route.matches(dict(scope))
            if match == routing.Match.FULL:
                await route.app({**scope, **child}, receive, send)  # type: ignore[arg-type]
                return
            if match == routing.Match.PARTIAL:
                allowed |= route.methods or set()
                if route.path.rpartition("}")[2].startswith(":") or ":path}/" in route.path:
                    # An action such as :cancel, or /history, and not part of the name before it.
                    break
        if self._dashboard.has(scope["path"]):
            if scope["method"] in PAGE_METHODS:
                await self._dashboard.answer(scope, send)
                return
            allowed.update(PAGE_METHODS)
        await _refuse(scope, send, sorted(allowed))


async def _refuse(scope: Scope, send: Send, allowed: list[str]) -> None:
    """Say that there is no such route, or not with this method."""
    if allowed:
        text = f"{scope['path']} takes {', '.join(allowed)}, not {scope['method']}"
        problem = ErrorBody("method_not_allowed", text)
        await send_error(send, 405, problem, allow=", ".join(allowed))
    else:
        text = f"there is nothing at {scope['path']}; /openapi.json lists what there is"
        parts = {"kind": "route", "name": scope["path"]}
        await send_error(send, 404, ErrorBody("not_found", text, details=parts))
