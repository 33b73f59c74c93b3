"""The page of who may call which route, made from the routes; run as a module, it writes it."""

from collections.abc import Iterable
from pathlib import Path

from holdfast.api.app import ROUTES
from holdfast.api.attempts import AttemptMay
from holdfast.api.openapi import describe
from holdfast.api.route import Narrowing, Route
from holdfast.model.access.roles import EVERYBODY, roles_with

PAGE = Path(__file__).resolve().parents[2] / "docs" / "who-may-what.md"
_HEAD = """\
# Who may what, route by route

Written by `./run roles` from the routes themselves; a test compares. What the roles mean, and when
a token is asked for: [security.md](security.md). "Any" needs none. The fourth column is for tokens
that name owners or queues: with *own jobs*, the job or task in the path must be theirs; with
*narrowed*, what the request asks for must be; *no* refuses them. The last one is for running
attempts, which call by their leases: *running* until they end, *ending* until their leases are
released; a job or task in the path is one of their children.

| route | asks for | which these roles have | with owners or queues | an attempt |
|---|---|---|---|---|
"""


_ATTEMPTS = {
    AttemptMay.NO: "no",
    AttemptMay.LIVE: "running",
    AttemptMay.ENDING_TOO: "running, ending",
}


def write_page(routes: Iterable[Route]) -> str:
    """Write the whole page."""
    lines = sorted((route.path, route.method, _line(route)) for route in routes)
    return _HEAD + "".join(line for *_, line in lines)


def _line(route: Route) -> str:
    path = route.path.replace(":path}", "}")
    if route.role is EVERYBODY:
        return f"| `{route.method} {path}` | any | | | |\n"
    enough = ", ".join(roles_with(route.role))
    start = f"| `{route.method} {path}` | {route.role} | {enough} | {_narrowed(route)}"
    return f"{start} | {_ATTEMPTS[route.attempt]} |\n"


def _narrowed(route: Route) -> str:
    if route.narrowing is Narrowing.FUNCTION:
        return "narrowed"
    names_a_job = "{job_id}" in route.path or "{task_id}" in route.path
    return "own jobs" if route.narrowing is Narrowing.PATH and names_a_job else "no"


if __name__ == "__main__":
    PAGE.write_text(write_page((*ROUTES, describe(ROUTES))), encoding="utf-8")
