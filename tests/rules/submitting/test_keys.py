"""A path to a key leads to one value in each input, or to a null; anything else is refused."""

from typing import Any

import msgspec
import pytest

from holdfast.errors import Invalid
from holdfast.model.submitting.spec import JobSpec, KeyOfInput, Limits, Submission
from holdfast.rules.submitting.keys import check_corrected, check_key
from holdfast.rules.submitting.submission import complete_submission, parse_inputs, parse_spec

SPEC: dict[str, Any] = {"entrypoint": {"function": "app:work"}, "queue": "q"}


def check(path: Any, inputs: list[Any] | None = None, **call: Any) -> None:
    """Check a job whose key is at a path, as it is checked after all else."""
    fields = {"entrypoint": SPEC["entrypoint"] | call, "concurrency_key": {"input": path}}
    texts = None if inputs is None else parse_inputs(inputs)
    check_key(complete_submission(Submission(parse_spec(SPEC | fields), texts), Limits()))


def problem_of(path: str, inputs: list[Any] | None = None, **call: Any) -> str:
    """Say why a job is refused."""
    with pytest.raises(Invalid) as refused:
        check(path, inputs, **call)
    assert refused.value.field == "concurrency_key.input"
    return refused.value.problem


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("", "acme"),
        ("", 7),
        ("", None),
        ("id", {"id": ""}),
        ("id", {"id": False}),
        ("customer.id", {"customer": {"id": 7}}),
        ("customer.id", {"customer": {"id": None}}),
        ("customer.id", {"customer": None}),
        ("items.1.id", {"items": [0, {"id": 7}]}),
        ("items.-1", {"items": [0, 7]}),
        ("items. +01", {"items": [0, 7]}),
        ("0", {"0": 7}),
    ],
)
def test_a_value_or_a_null_is_taken(path: str, value: Any) -> None:
    check(path, [value])
    check(path, args=[value, {"other": 1}])


def test_named_arguments_are_looked_at_where_there_are_no_others() -> None:
    check("customer.id", kwargs={"customer": {"id": 7}})
    check("customer", kwargs={"customer": None})
    assert "leads to nothing in entrypoint.args[0]; name a field that it has" in problem_of(
        "customer", args=[1], kwargs={"customer": 7}
    )


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("tenant", "acme"),
        ("tenant", None),
        ("tenant", {}),
        ("tenant", [1]),
        ("customer.idd", {"customer": {"id": 7}}),
        ("customer.id", {"customer": "acme"}),
        ("items.2", {"items": [0, 7]}),
        ("items.-3", {"items": [0, 7]}),
        ("items.x", {"items": [0, 7]}),
        ("items.٣", {"items": [0, 7, 7, 7]}),
        ("items.99999999999999999999", {"items": [0, 7]}),
        ("customer", {"customer": {"id": 7}}),
        ("customer", {"customer": [7]}),
        ("", {}),
        ("", []),
    ],
)
def test_what_leads_to_no_value_is_refused(path: str, value: Any) -> None:
    assert "in inputs[1]; " in problem_of(path, [good(path), value])
    assert "in entrypoint.args[0]; " in problem_of(path, args=[value])


def good(path: str) -> Any:
    """Make an input that has a value at a path."""
    value: Any = 7
    for step in reversed(path.split(".") if path else []):
        value = {step: value}
    return value


def test_the_error_names_the_input_and_the_remedy() -> None:
    inputs = [{"customer": {"id": 1}}, {"customer": {"name": "x"}}]
    assert problem_of("customer.id", inputs) == (
        "'customer.id' leads to nothing in inputs[1]; name a field that each has, "
        "or give it there as null for no key"
    )
    assert problem_of("tenant", ["acme"]) == (
        "'tenant' leads to nothing in inputs[0]; name a field that each has, or none at all "
        "('') to count by the input itself"
    )
    assert problem_of("customer", inputs) == (
        "'customer' leads to an object in inputs[0]; name one value in it"
    )
    assert problem_of("customer", kwargs={"custumer": 1}) == (
        "'customer' leads to nothing in entrypoint.kwargs; name an argument that is given, "
        "or give the key as a text"
    )
    assert problem_of("customer") == (
        "'customer' leads to nothing: the job has neither inputs nor arguments; give the key as "
        "a text"
    )


def test_a_result_that_is_not_known_yet_is_refused() -> None:
    results = [{"job": "9", "path": ["args", 0, "customer"]}]
    spec = parse_spec(
        SPEC
        | {
            "entrypoint": {
                "function": "app:work",
                "args": [{"customer": None, "id": 7}],
                "results": results,
            },
            "depends_on": ["9"],
        }
    )
    for path in ("customer", "customer.id"):
        keyed = msgspec.structs.replace(spec, concurrency_key=KeyOfInput(path))
        with pytest.raises(Invalid, match="leads to the result of job 9, which is not known yet"):
            check_key(Submission(keyed))
    check_key(Submission(msgspec.structs.replace(spec, concurrency_key=KeyOfInput("id"))))


def test_texts_and_no_key_at_all_are_nobodys_business() -> None:
    for key in (None, "acme"):
        check_key(Submission(parse_spec(SPEC | {"concurrency_key": key}), ('"x"',)))
    check(None, ["x"])
    check(None)


def test_no_key_is_stored_as_none_whatever_was_announced() -> None:
    spec = parse_spec(SPEC | {"concurrency_key": {"input": None}})
    assert complete_submission(Submission(spec), Limits()).spec.concurrency_key is None


def test_a_corrected_input_has_the_key_as_well() -> None:
    spec = JobSpec(parse_spec(SPEC).entrypoint, concurrency_key=KeyOfInput("customer.id"))
    check_corrected(spec, '{"customer": {"id": 7}}', "inputs[3.1]")
    check_corrected(spec, '{"customer": null}', "inputs[3.1]")
    with pytest.raises(Invalid) as refused:
        check_corrected(spec, '{"customer": {}}', "inputs[3.1]")
    assert str(refused.value) == (
        "inputs[3.1]: has nothing at 'customer.id', where the job's key is; give it there, as "
        "null for no key"
    )
    with pytest.raises(Invalid, match=r"input: has an object at 'customer\.id'"):
        check_corrected(spec, '{"customer": {"id": {}}}', "input")
    check_corrected(parse_spec(SPEC), "1", "input")
