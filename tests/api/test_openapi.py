"""The description of the routes: valid, complete, and as strict as the routes themselves."""

import re
from typing import Any

import pytest
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

from holdfast.api.app import ROUTES
from holdfast.api.openapi import build_document
from holdfast.api.route import Call, Route
from holdfast.model.access.roles import EVERYBODY
from holdfast.wire.requests import Nothing
from tests.api.face import Face


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """The description of all routes."""
    return build_document(ROUTES)


def operations(document: dict[str, Any]) -> list[tuple[str, Any]]:
    return [
        (f"{method.upper()} {path}", operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


async def test_a_server_gives_it(quiet_face: Face, document: dict[str, Any]) -> None:
    said = await quiet_face.get("/openapi.json")
    assert (said.status, said.json) == (200, document)


def test_it_is_valid(document: dict[str, Any]) -> None:
    OPENAPI_31_VALIDATOR.validate(document)
    assert document["openapi"] == "3.1.0"


def test_every_route_is_in_it(document: dict[str, Any]) -> None:
    described = {name for name, _ in operations(document)}
    assert described == {f"{route.method} {re.sub(r':path}', '}', route.path)}" for route in ROUTES}


def test_every_operation_has_a_name_of_its_own_and_a_summary(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, operation in operations(document)]
    assert len(names) == len(set(names))
    assert all(operation["summary"] for _, operation in operations(document))


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    references = set(re.findall(r"'\$ref': '([^']*)'", repr(document)))
    assert references
    for reference in references:
        name = reference.removeprefix("#/components/schemas/")
        assert name in document["components"]["schemas"], reference


def test_every_parameter_of_a_path_is_described(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        described = [p["name"] for p in operation["parameters"] if p["in"] == "path"]
        assert described == re.findall(r"{(\w+)}", name)
        shapes = [p["schema"] for p in operation["parameters"] if p["in"] == "path"]
        assert all("pattern" in shape for shape in shapes)


def test_every_error_has_the_shape_of_all_errors(document: dict[str, Any]) -> None:
    shape = {"schema": {"$ref": "#/components/schemas/ErrorAnswer"}}
    for name, operation in operations(document):
        for status, response in operation["responses"].items():
            if int(status) >= 400:
                assert response["content"] == {"application/json": shape}, name
        later = operation["responses"]["503"]["headers"]
        assert later == {"Retry-After": {"schema": {"type": "integer"}}}


def test_a_request_takes_no_unknown_fields(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        taken = operation.get("requestBody", {"content": {}})["content"]
        if "application/json" in taken:
            reference = taken["application/json"]["schema"]["$ref"]
            shape = document["components"]["schemas"][reference.rpartition("/")[2]]
            assert shape["additionalProperties"] is False, name


def test_a_body_is_required_where_one_of_its_fields_is(document: dict[str, Any]) -> None:
    required = {
        name: operation["requestBody"]["required"]
        for name, operation in operations(document)
        if "requestBody" in operation
    }
    assert required["POST /api/jobs"] is True
    assert required["POST /api/jobs/{job_id}:cancel"] is False


def test_a_body_of_bytes_is_described_as_such(document: dict[str, Any]) -> None:
    taken = document["paths"]["/api/bundles/{bundle}"]["put"]["requestBody"]
    bytes_ = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    assert taken == {"required": True, "content": bytes_}
    given = document["paths"]["/api/bundles/{bundle}"]["get"]["responses"]["200"]["content"]
    assert set(given) == {"application/octet-stream"}


def test_bounds_are_in_it(document: dict[str, Any]) -> None:
    shapes = document["components"]["schemas"]
    claim = shapes["TaskClaimRequest"]["properties"]
    assert (claim["wait_ms"]["minimum"], claim["wait_ms"]["maximum"]) == (0, 60_000)
    assert (claim["max_tasks"]["minimum"], claim["max_tasks"]["maximum"]) == (1, 1000)
    lease = shapes["LeaseReport"]["properties"]
    assert lease["attempt"]["minimum"] == 0
    assert lease["lease_token"]["format"] == "uuid"
    assert shapes["LogAppendRequest"]["properties"]["content"]["contentEncoding"] == "base64"


def test_a_parameter_of_a_query_is_never_null(document: dict[str, Any]) -> None:
    queries = [
        parameter
        for _, operation in operations(document)
        for parameter in operation["parameters"]
        if parameter["in"] == "query"
    ]
    assert queries
    kinds = ("string", "integer", "number", "boolean")
    for parameter in queries:
        assert parameter["schema"].get("type") in kinds, parameter


def test_a_parameter_that_nobody_described_is_not_served() -> None:
    async def nothing(_: Call[None, Nothing]) -> None:
        """Answer nothing."""

    with pytest.raises(KeyError):
        build_document([Route("GET", "/x/{mystery}", nothing, None, EVERYBODY)])
