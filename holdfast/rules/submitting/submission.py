"""Check a submission and fill in its defaults, so that every client gets the same ones."""

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.errors import Invalid, TooLarge
from holdfast.model.shapes import as_invalid
from holdfast.model.submitting.policies import TypePolicy
from holdfast.model.submitting.queue_names import QUEUE_LENGTH_MAX, check_queue_name
from holdfast.model.submitting.spec import (
    NO_KEY,
    YEAR_SECONDS,
    Backoff,
    Entrypoint,
    JobSpec,
    KeyOfInput,
    Limits,
    Submission,
    TaskTerms,
)
from holdfast.model.workers.functions import FunctionOptions
from holdfast.rules.placement.request import check_placing, complete_resources
from holdfast.rules.policies.fill import follow_policy, is_held_to_policies
from holdfast.rules.submitting.announced import add_announced
from holdfast.rules.submitting.expiry import check_expiry
from holdfast.rules.submitting.order import check_order
from holdfast.rules.submitting.outputs import check_declared
from holdfast.rules.submitting.unique import check_unique, complete_unique
from holdfast.rules.undo import KEY_PREFIX

_DOTTED_NAME = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_FUNCTION = re.compile(rf"{_DOTTED_NAME}:{_DOTTED_NAME}")
_ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_HALF_SURROGATE = "contains half of a surrogate pair; send valid Unicode"
PRIORITY_MAX = 1_000_000
SLOTS_MAX = 1000
NESTING_MAX = 100
# A task a day, and more than a database stores in a second.
START_RATE_MIN = 1 / 86_400
START_RATE_MAX = 10_000.0
NAME_LENGTH_MAX = 256
NO_POLICIES: Mapping[str, TypePolicy] = {}
NO_FUNCTIONS: Mapping[str, FunctionOptions] = {}
_TERMS_FIELDS = tuple(name for name in TaskTerms.__struct_fields__ if name != "is_compensation")


def parse_spec(fields: Mapping[str, Any]) -> JobSpec:
    """Read a spec from plain values; an unknown field or a wrong type is an error naming it."""
    try:
        return msgspec.convert(fields, JobSpec)
    except UnicodeEncodeError as error:
        raise Invalid("spec", _HALF_SURROGATE) from error
    except msgspec.ValidationError as error:
        raise as_invalid(error, "spec") from error


def parse_inputs(inputs: list[Any]) -> tuple[str, ...]:
    """Encode inputs as JSON texts; NaN, bytes and other things JSON lacks are refused."""
    texts = []
    for index, value in enumerate(inputs):
        try:
            texts.append(json.dumps(value, allow_nan=False, separators=(",", ":")))
        except (TypeError, ValueError, RecursionError) as error:
            raise Invalid(f"inputs[{index}]", f"cannot be written as JSON: {error}") from error
    return tuple(texts)


def complete_submission(
    submission: Submission,
    limits: Limits,
    policies: Mapping[str, TypePolicy] = NO_POLICIES,
    *,
    announced: Mapping[str, FunctionOptions] = NO_FUNCTIONS,
) -> Submission:
    """Check everything and fill every hole; the result is what is stored.

    Where a job says nothing, the options that its function was announced with come first, then
    the policy of its type, then the built-in defaults.
    """
    asked = submission
    spec = add_announced(asked, announced)
    if spec is not asked.spec:
        submission = msgspec.structs.replace(asked, spec=spec)
    _check_entrypoint("entrypoint", spec.entrypoint)
    _check_compensation(submission)
    _check_texts(spec, limits)
    _check_concurrency_key(spec.concurrency_key, limits)
    check_numbers(spec, limits)
    _check_inputs(submission, limits)
    if spec.chain is not None and submission.num_tasks > limits.batch_tasks_max:
        raise TooLarge("chain", submission.num_tasks, limits.batch_tasks_max, unit="tasks")
    check_placing(submission, limits)
    check_order(submission, limits)
    check_declared(spec.outputs)
    check_unique(submission, limits)
    if spec.unique is not None and spec.unique.values is not None:
        text = json.dumps(spec.unique.values, ensure_ascii=False)
        check_json("unique.values", text, limits.spec_bytes_max)
    plain = complete = _fill(submission, spec, limits)
    policy = policies.get(plain.type or "")
    if policy is not None and is_held_to_policies(submission):
        complete = _fill(submission, follow_policy(submission, plain, policy), limits)
    complete = _outlive_heartbeats(submission, complete, limits)
    if submission is not asked:
        plain = _fill(asked, asked.spec, limits)
    size = len(msgspec.json.encode(complete))
    if size > limits.spec_bytes_max:
        raise TooLarge("spec", size, limits.spec_bytes_max)
    return msgspec.structs.replace(
        submission, spec=complete, plain=None if complete is plain else plain
    )


def _fill(submission: Submission, spec: JobSpec, limits: Limits) -> JobSpec:
    """Fill every hole with what is built in; priority 0 and no key are stored as none at all."""
    placed = spec.queue is None
    name = spec.name or _entrypoint_name(spec.entrypoint)[: limits.text_length_max]
    failures = spec.max_retries_failure
    if failures is None:
        failures = spec.max_attempts - 1 if spec.max_attempts is not None else 0
    max_task_failures = spec.max_task_failures
    if max_task_failures is None and submission.inputs is None:
        max_task_failures = 0
    return msgspec.structs.replace(
        spec,
        name=name,
        type=spec.type or name,
        owner=spec.owner or "anonymous",
        replicas=None if submission.inputs is not None else submission.num_tasks,
        max_attempts=None,
        max_retries_failure=failures,
        max_retries_preemption=_or(spec.max_retries_preemption, 100 if placed else 5),
        max_task_failures=max_task_failures,
        on_exhausted=spec.on_exhausted or ("fail" if placed else "dead_letter"),
        on_timeout=spec.on_timeout or ("kill" if placed else "fail"),
        lease=_or(spec.lease, _default_lease(limits, placed=placed)),
        grace=_or(spec.grace, 30.0),
        priority=spec.priority or None,
        concurrency_key=None if spec.concurrency_key == NO_KEY else spec.concurrency_key,
        resources=complete_resources(spec.resources),
        unique=complete_unique(spec.unique),
    )


def terms_of(spec: JobSpec, *, is_compensation: bool = False) -> TaskTerms:
    """Take from a complete spec what decides a task's fate."""
    assert spec.type is not None, "an accepted spec is complete"
    fields = {name: getattr(spec, name) for name in _TERMS_FIELDS}
    fields["backoff"], fields["priority"] = spec.backoff or Backoff(), spec.priority or 0
    return TaskTerms(**fields, is_compensation=is_compensation)


def check_text(field: str, text: str, length_max: int) -> None:
    """Refuse text that Postgres cannot store, or that is too long."""
    if "\x00" in text:
        raise Invalid(field, "contains a NUL character; remove it")
    if len(text) > length_max:
        raise TooLarge(field, len(text), length_max, unit="characters")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Invalid(field, _HALF_SURROGATE) from error


def check_queue(queue: str) -> None:
    """Refuse what no queue can be called."""
    check_text("queue", queue, QUEUE_LENGTH_MAX)
    check_queue_name(queue)


def check_json(field: str, text: str, bytes_max: int) -> None:
    """Refuse a JSON text that is broken, too large, or holds what Postgres cannot store."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > bytes_max:
        raise TooLarge(field, size, bytes_max)
    if "\x00" in text or _ESCAPED_NUL.search(text):
        raise Invalid(field, "contains a NUL character; remove it")
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise Invalid(field, f"is not JSON: {error}") from error
    except RecursionError as error:
        raise Invalid(field, _too_deep()) from error
    if _is_deep(value):
        raise Invalid(field, _too_deep())


def _is_deep(value: Any) -> bool:
    """Tell whether lists and objects are nested further than every reader can follow."""
    level = [value]
    for _ in range(NESTING_MAX + 1):
        lists = [inner for inner in level if isinstance(inner, list | tuple)]
        lists += [list(inner.values()) for inner in level if isinstance(inner, dict)]
        if not lists:
            return False
        level = [item for inner in lists for item in inner]
    return True


def _too_deep() -> str:
    return f"is nested more than {NESTING_MAX} levels deep; flatten it"


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def _default_lease(limits: Limits, *, placed: bool) -> float:
    wanted = max(60.0, limits.placed_lease_seconds_min) if placed else 30.0
    return min(limits.lease_seconds_max, max(limits.lease_seconds_min, wanted))


def _outlive_heartbeats(submission: Submission, complete: JobSpec, limits: Limits) -> JobSpec:
    """Refuse a lease of placed work that would run out between heartbeats; lengthen another's.

    What comes from a policy, or from a job that was taken in before, is not the submitter's doing.
    """
    least, asked = limits.placed_lease_seconds_min, submission.spec.lease
    if complete.queue is not None or complete.lease is None or complete.lease >= least:
        return complete
    if asked is not None and is_held_to_policies(submission):
        raise Invalid(
            "lease",
            f"{asked:g} s would run out between two heartbeats of placed work; "
            f"use at least {least:g}, or name a queue",
        )
    return msgspec.structs.replace(complete, lease=least)


def _check_entrypoint(field: str, entrypoint: Entrypoint) -> None:
    forms = ("command", "shell", "function", "pickle")
    given = [form for form in forms if getattr(entrypoint, form) is not None]
    if len(given) != 1:
        raise Invalid(field, f"give exactly one of {', '.join(forms)}; got {given or 'none'}")
    if entrypoint.command is not None and not (entrypoint.command and entrypoint.command[0]):
        raise Invalid(f"{field}.command", "is empty; give a program and its arguments")
    if entrypoint.shell is not None and not entrypoint.shell.strip():
        raise Invalid(f"{field}.shell", "is empty; give a shell line")
    if entrypoint.function is not None and not _FUNCTION.fullmatch(entrypoint.function):
        raise Invalid(
            f"{field}.function", "is not an import path; write it like package.module:name"
        )
    if entrypoint.pickle is not None and not entrypoint.pickle:
        raise Invalid(f"{field}.pickle", "is empty; give a pickled callable")
    _check_arguments(f"{field}.args", entrypoint.args, entrypoint)
    _check_arguments(f"{field}.kwargs", entrypoint.kwargs, entrypoint)
    try:
        text = msgspec.json.encode(entrypoint).decode()
    except UnicodeEncodeError as error:
        raise Invalid(field, _HALF_SURROGATE) from error
    if _ESCAPED_NUL.search(text):
        raise Invalid(_find_nul(field, entrypoint), "contains a NUL character; remove it")


def _find_nul(field: str, entrypoint: Entrypoint) -> str:
    """Name the part of an entrypoint that holds a NUL: an argument, if one of them does."""
    parts = {f"{field}.args[{index}]": value for index, value in enumerate(entrypoint.args)}
    parts |= {f"{field}.kwargs.{name}": value for name, value in entrypoint.kwargs.items()}
    holding = (name for name, value in parts.items() if _ESCAPED_NUL.search(json.dumps(value)))
    return next(holding, field)


def _check_arguments(field: str, values: Any, entrypoint: Entrypoint) -> None:
    """Refuse arguments without a function, and what JSON would lose or change."""
    if not values:
        return
    if entrypoint.function is None:
        raise Invalid(field, "goes with function only")
    try:
        json.dumps(values, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise Invalid(field, f"cannot be written as JSON: {error}") from error
    except RecursionError as error:
        raise Invalid(field, _too_deep()) from error
    if _is_deep(values):
        raise Invalid(field, _too_deep())


def _check_compensation(submission: Submission) -> None:
    """Refuse a compensation that could not be run, and the keys that compensations are given."""
    spec = submission.spec
    if spec.compensation is not None:
        _check_entrypoint("compensation", spec.compensation)
        if spec.compensation.results:
            problem = "goes with the entrypoint only; a compensation is told the job's own result"
            raise Invalid("compensation.results", problem)
    is_user = submission.compensates_job_id is None and not submission.by_cut_over
    if is_user and (spec.idempotency_key or "").startswith(KEY_PREFIX):
        raise Invalid("idempotency_key", f"begins with {KEY_PREFIX!r}; use a key of your own")


def _entrypoint_name(entrypoint: Entrypoint) -> str:
    if entrypoint.function is not None:
        return entrypoint.function.rpartition(":")[2]
    if entrypoint.command is not None:
        return entrypoint.command[0].rstrip("/").rpartition("/")[2] or "command"
    if entrypoint.shell is not None:
        return entrypoint.shell.split()[0]
    return "pickle"


def _check_texts(spec: JobSpec, limits: Limits) -> None:
    for field in (
        "name",
        "type",
        "owner",
        "queue",
        "idempotency_key",
        "correlation_id",
        "trace_id",
        "chain",
    ):
        text = getattr(spec, field)
        if text is None:
            continue
        if not text:
            raise Invalid(field, "is empty; leave it out or give it a value")
        check_text(field, text, limits.text_length_max)
    if spec.queue is not None:
        check_queue(spec.queue)
    if spec.on_failure is not None and spec.chain is None:
        raise Invalid("on_failure", "goes with a chain; name one, or leave it out")
    for field, pairs in (("labels", spec.labels), ("environment", spec.environment)):
        for key, value in pairs.items():
            if not key:
                raise Invalid(field, "has an empty name; give it one")
            check_text(field, key, limits.text_length_max)
            check_text(f"{field}.{key}", value, limits.error_length_max)


def _check_concurrency_key(key: str | KeyOfInput | None, limits: Limits) -> None:
    if key is None or key == NO_KEY:
        return
    if isinstance(key, str):
        if not key:
            raise Invalid("concurrency_key", "is empty; leave it out or give it a value")
        check_text("concurrency_key", key, limits.text_length_max)
    elif key.input:
        check_text("concurrency_key.input", key.input, limits.text_length_max)
        if not all(key.input.split(".")):
            raise Invalid("concurrency_key.input", "has an empty step; write it like customer.id")


def check_numbers(spec: JobSpec, limits: Limits) -> None:
    """Refuse numbers of a spec that are out of their range."""
    for field in ("max_retries_failure", "max_retries_preemption"):
        _check_range(field, getattr(spec, field), least=0, most=limits.retries_max)
    _check_range("max_attempts", spec.max_attempts, least=1, most=limits.retries_max + 1)
    if spec.max_attempts is not None and spec.max_retries_failure is not None:
        raise Invalid("max_attempts", "means max_retries_failure + 1; give one of the two")
    _check_range("max_task_failures", spec.max_task_failures, least=0, most=limits.tasks_max)
    _check_range("replicas", spec.replicas, least=1, most=limits.tasks_max)
    _check_range("priority", spec.priority, least=-PRIORITY_MAX, most=PRIORITY_MAX)
    _check_range("slots", spec.slots, least=1, most=SLOTS_MAX)
    _check_range("lease", spec.lease, least=limits.lease_seconds_min, most=limits.lease_seconds_max)
    for field in ("timeout", "scheduling_timeout"):
        _check_range(field, getattr(spec, field), least=0.001, most=YEAR_SECONDS)
    _check_range("grace", spec.grace, least=0.0, most=86_400.0)
    _check_range("not_before", spec.not_before, least=0.0, most=253_370_764_800.0)
    _check_range("start_delay", spec.start_delay, least=0.0, most=YEAR_SECONDS)
    _check_range("start_rate", spec.start_rate, least=START_RATE_MIN, most=START_RATE_MAX)
    for field in ("start_delay", "start_rate"):
        if spec.not_before is not None and getattr(spec, field) is not None:
            raise Invalid(field, "goes without not_before; use start_delay to start later")
    _check_range("expires", spec.expires, least=0.001, most=YEAR_SECONDS)
    _check_range("expires_at", spec.expires_at, least=0.0, most=253_370_764_800.0)
    check_expiry(spec)
    backoff = spec.backoff or Backoff()
    _check_range("backoff.base", backoff.base, least=0.0, most=86_400.0)
    _check_range("backoff.factor", backoff.factor, least=1.0, most=100.0)
    _check_range("backoff.ceiling", backoff.ceiling, least=backoff.base, most=86_400.0)


def _check_range(field: str, value: float | None, *, least: float, most: float) -> None:
    if value is None:
        return
    # Not a number compares false with everything.
    if not least <= value <= most:
        raise Invalid(field, f"is out of range; use {least} to {most}")


def _check_inputs(submission: Submission, limits: Limits) -> None:
    inputs = submission.inputs
    if inputs is None:
        return
    if submission.spec.replicas is not None:
        raise Invalid("replicas", "goes without inputs; give one of the two")
    if not submission.num_tasks:
        raise Invalid("inputs", "is empty; give at least one input")
    if submission.num_tasks > limits.tasks_max:
        raise TooLarge("inputs", submission.num_tasks, limits.tasks_max, unit="inputs")
    if submission.compensates_job_id is not None:
        return  # records of our own, made of what has been checked before, and bounded
    for index, text in enumerate(inputs):
        check_json(f"inputs[{index}]", text, limits.input_bytes_max)
