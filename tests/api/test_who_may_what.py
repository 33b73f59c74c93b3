"""Every route names a role, and the page that lists them says what they say."""

import inspect

import pytest

from holdfast.api.app import ROUTES
from holdfast.api.openapi import build_document, describe
from holdfast.api.route import Call, Route
from holdfast.model.access.roles import EVERYBODY
from tests.api.who_may_what import PAGE, write_page


def test_the_page_is_that_of_the_routes() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == write_page((*ROUTES, describe(ROUTES))), "write it anew: ./run roles"


def test_a_route_without_a_role_does_not_start() -> None:
    async def answer(_: Call[None, None]) -> None:
        """Answer nothing."""

    assert inspect.signature(Route).parameters["role"].default is inspect.Parameter.empty
    with pytest.raises(TypeError, match="role"):
        Route("GET", "/somewhere", answer, None)  # type: ignore[call-arg]


def test_only_health_the_description_and_the_login_are_for_everybody() -> None:
    everybody = {route.path for route in (*ROUTES, describe(ROUTES)) if route.role is EVERYBODY}
    login = {"/api/session", "/api/session/oidc"}
    assert everybody == {"/healthz", "/readyz", "/openapi.json"} | login


def test_the_description_names_the_role_of_each_route() -> None:
    paths = build_document(ROUTES)["paths"]
    assert paths["/api/jobs"]["post"]["security"] == [{"token": ["submit"]}, {"lease": ["live"]}]
    either = [{"token": ["worker"]}, {"lease": ["live", "ending"]}]
    assert paths["/internal/task-log"]["post"]["security"] == either
    assert paths["/api/jobs"]["get"]["security"] == [{"token": ["read"]}]
    assert paths["/healthz"]["get"]["security"] == []
