"""The description of every route, made from the same declarations that serve them."""

import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import msgspec

from holdfast.api.attempts import AttemptMay
from holdfast.api.bodies import Octets
from holdfast.api.errors import RETRY_AFTER_STATUSES
from holdfast.api.route import Call, Reply, Route
from holdfast.model.access.roles import EVERYBODY
from holdfast.model.datasets import DatasetName
from holdfast.wire.answers import ErrorAnswer
from holdfast.wire.attempt_calls import LEASE_HEADER
from holdfast.wire.bundles import OCTETS, BundleHash
from holdfast.wire.datasets import VersionText
from holdfast.wire.functions import FunctionText
from holdfast.wire.limits import LimitText
from holdfast.wire.policies import TypeText
from holdfast.wire.requests import JobIdText, Nothing, QueueText, TaskIdText, WorkerIdText
from holdfast.wire.schedules import ScheduleText
from holdfast.wire.tokens import TokenText

_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
_REF = "#/components/schemas/{name}"
_PATH_SHAPES: dict[str, Any] = {
    "job_id": JobIdText,
    "given": JobIdText,
    "task_id": TaskIdText,
    "worker_id": WorkerIdText,
    "queue": QueueText,
    "bundle": BundleHash,
    "name": QueueText,
    "dataset": DatasetName,
    "trigger": DatasetName,
    "version": VersionText,
    "type": TypeText,
    "function": FunctionText,
    "token": TokenText,
    "schedule": ScheduleText,
    "limit": LimitText,
}
_TOKEN, _LEASE = "token", "lease"
_SCHEMES = {
    _TOKEN: {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of `holdfast tokens create`, with the role that an operation names "
        "or one that implies it. On loopback a server asks for none, unless it was told to.",
    },
    _LEASE: {
        "type": "apiKey",
        "in": "header",
        "name": LEASE_HEADER,
        "description": "`TASK_ID ATTEMPT LEASE_TOKEN` of a running attempt, which acts for itself: "
        "`live` until it ends, `ending` until its lease is released. A job or task in the path is "
        "one of its children.",
    },
}
_LEASES: dict[AttemptMay, list[dict[str, list[str]]]] = {
    AttemptMay.NO: [],
    AttemptMay.LIVE: [{_LEASE: ["live"]}],
    AttemptMay.ENDING_TOO: [{_LEASE: ["live", "ending"]}],
}
# Any route may answer so: the request is wrong, too large, or comes at a bad moment.
_ALWAYS = {
    400: "the request is wrong; the error names the field",
    401: "there is no token, or none that is valid now; asked for beyond loopback",
    403: "not with this token, not from another site's page, not by a host name not allowed",
    404: "there is no such thing",
    413: "something is larger than its limit",
    415: "the body is not of the type that the route takes",
    429: "too much is waiting; slow down",
    503: "not now; try again after Retry-After seconds",
}


def describe(routes: Sequence[Route]) -> Route:
    """Make the route that gives the description of all the others."""
    document = build_document(routes)
    content = msgspec.json.encode(document)

    async def answer(_: Call[None, Nothing]) -> Reply:
        """Describe every route in OpenAPI's terms."""
        return Reply(content)

    return Route("GET", "/openapi.json", answer, dict, EVERYBODY)


def build_document(routes: Sequence[Route]) -> dict[str, Any]:
    """Build the OpenAPI document."""
    shapes: list[Any] = [ErrorAnswer]
    for route in routes:
        shapes += [route.returns, route.body, route.query, *route.also.values()]
    structs = {id(shape): shape for shape in shapes if _is_struct(shape)}
    _, components = msgspec.json.schema_components(structs.values(), ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        path = _PARAMETER.sub(r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Holdfast", "version": version("holdfast")},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": _SCHEMES},
    }


def _operation(route: Route, components: dict[str, Any]) -> dict[str, Any]:
    parameters = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": msgspec.json.schema(_PATH_SHAPES[name]),
        }
        for name in _PARAMETER.findall(route.path)
    ]
    parameters += _query_parameters(route.query, components)
    operation: dict[str, Any] = {
        "operationId": route.answer.__name__,
        "summary": (route.answer.__doc__ or "").strip(),
        "parameters": parameters,
        "responses": _responses(route),
        "security": []
        if route.role is EVERYBODY
        else [{_TOKEN: [route.role.value]}, *_LEASES[route.attempt]],
    }
    if route.body is Octets:
        content = {OCTETS: {"schema": {"type": "string", "format": "binary"}}}
        operation["requestBody"] = {"required": True, "content": content}
    elif route.body is not None:
        schema = {"$ref": _REF.format(name=route.body.__name__)}
        required = any(field.required for field in msgspec.structs.fields(route.body))
        operation["requestBody"] = {
            "required": required,
            "content": {"application/json": {"schema": schema}},
        }
    return operation


def _responses(route: Route) -> dict[str, Any]:
    answers: dict[int, Any] = dict.fromkeys(_ALWAYS, ErrorAnswer)
    if route.returns is not None or route.content_type != "application/json":
        answers[200] = route.returns
    if route.attempt is not AttemptMay.NO:
        answers[409] = ErrorAnswer  # it has lost its lease
    answers |= dict(route.also)
    responses: dict[str, Any] = {}
    for status, shape in sorted(answers.items()):
        schema = {"$ref": _REF.format(name=shape.__name__)} if _is_struct(shape) else {}
        kind = route.content_type if status == 200 else "application/json"
        responses[str(status)] = {
            "description": _ALWAYS.get(status, "as asked" if status < 300 else "refused"),
            "content": {kind: {"schema": schema}},
        }
        if status in RETRY_AFTER_STATUSES:
            responses[str(status)]["headers"] = {"Retry-After": {"schema": {"type": "integer"}}}
    return responses


def _query_parameters(query: Any, components: dict[str, Any]) -> list[dict[str, Any]]:
    if query is Nothing:
        return []
    schema = components[query.__name__]
    return [
        {
            "name": name,
            "in": "query",
            "required": name in schema.get("required", ()),
            "schema": _without_null(field),
        }
        for name, field in schema["properties"].items()
    ]


def _without_null(field: dict[str, Any]) -> dict[str, Any]:
    """Drop what a query cannot say: a parameter is left out, it is never null."""
    if "anyOf" not in field:
        return field
    [kind] = [option for option in field["anyOf"] if option != {"type": "null"}]
    return kind  # type: ignore[no-any-return]


def _is_struct(shape: Any) -> bool:
    return isinstance(shape, type) and issubclass(shape, msgspec.Struct)
