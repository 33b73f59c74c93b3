"""The description of every route, made from the same declarations that serve them."""

import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import msgspec

from holdfast.api.endpoint import Call, Endpoint, Octets, Reply
from holdfast.api.errors import RETRY_AFTER_STATUSES
from holdfast.model.datasets import DatasetName
from holdfast.wire.answers import ErrorAnswer
from holdfast.wire.bundles import OCTETS, BundleHash
from holdfast.wire.datasets import VersionText
from holdfast.wire.policies import TypeText
from holdfast.wire.requests import JobIdText, Nothing, QueueText, TaskIdText, WorkerIdText

_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
_REF = "#/components/schemas/{name}"
_PATH_SHAPES: dict[str, Any] = {
    "job_id": JobIdText,
    "task_id": TaskIdText,
    "worker_id": WorkerIdText,
    "queue": QueueText,
    "bundle": BundleHash,
    "name": QueueText,
    "dataset": DatasetName,
    "trigger": DatasetName,
    "version": VersionText,
    "type": TypeText,
}
# Any route may answer so: the request is wrong, too large, or comes at a bad moment.
_ALWAYS = {
    400: "the request is wrong; the error names the field",
    403: "not from another site's page, and not by a host name that is not allowed",
    404: "there is no such thing",
    413: "something is larger than its limit",
    415: "the body is not of the type that the route takes",
    429: "too much is waiting; slow down",
    503: "not now; try again after Retry-After seconds",
}


def describe(endpoints: Sequence[Endpoint]) -> Endpoint:
    """Make the endpoint that gives the description of all the others."""
    document = build_document(endpoints)
    content = msgspec.json.encode(document)

    async def answer(_: Call[None, Nothing]) -> Reply:
        """Describe every route in OpenAPI's terms."""
        return Reply(content)

    return Endpoint("GET", "/openapi.json", answer, dict)


def build_document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Build the OpenAPI document."""
    shapes: list[Any] = [ErrorAnswer]
    for endpoint in endpoints:
        shapes += [endpoint.returns, endpoint.body, endpoint.query, *endpoint.also.values()]
    structs = {id(shape): shape for shape in shapes if _is_struct(shape)}
    _, components = msgspec.json.schema_components(structs.values(), ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        path = _PARAMETER.sub(r"{\1}", endpoint.path)
        paths.setdefault(path, {})[endpoint.method.lower()] = _operation(endpoint, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Holdfast", "version": version("holdfast")},
        "paths": paths,
        "components": {"schemas": components},
    }


def _operation(endpoint: Endpoint, components: dict[str, Any]) -> dict[str, Any]:
    parameters = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": msgspec.json.schema(_PATH_SHAPES[name]),
        }
        for name in _PARAMETER.findall(endpoint.path)
    ]
    parameters += _query_parameters(endpoint.query, components)
    operation: dict[str, Any] = {
        "operationId": endpoint.answer.__name__,
        "summary": (endpoint.answer.__doc__ or "").strip(),
        "parameters": parameters,
        "responses": _responses(endpoint),
    }
    if endpoint.body is Octets:
        content = {OCTETS: {"schema": {"type": "string", "format": "binary"}}}
        operation["requestBody"] = {"required": True, "content": content}
    elif endpoint.body is not None:
        schema = {"$ref": _REF.format(name=endpoint.body.__name__)}
        required = any(field.required for field in msgspec.structs.fields(endpoint.body))
        operation["requestBody"] = {
            "required": required,
            "content": {"application/json": {"schema": schema}},
        }
    return operation


def _responses(endpoint: Endpoint) -> dict[str, Any]:
    answers: dict[int, Any] = dict.fromkeys(_ALWAYS, ErrorAnswer)
    if endpoint.returns is not None or endpoint.content_type != "application/json":
        answers[200] = endpoint.returns
    answers |= dict(endpoint.also)
    responses: dict[str, Any] = {}
    for status, shape in sorted(answers.items()):
        schema = {"$ref": _REF.format(name=shape.__name__)} if _is_struct(shape) else {}
        kind = endpoint.content_type if status == 200 else "application/json"
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
