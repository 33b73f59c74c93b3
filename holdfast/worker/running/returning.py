"""What a function has returned, on its way into the report of its success."""

from typing import Any

import msgspec

from holdfast.client.context import Context, list_outputs
from holdfast.client.functions.kinds import Change
from holdfast.wire.raw import encode_json
from holdfast.worker.running.attempt_outcome import Outcome, success
from holdfast.worker.running.function import Callee
from holdfast.worker.running.outputs import with_outputs

_KEPT_CHANGED = "the result: %s; annotate what the function returns, or use @task(pickled=True)"


def describe_return(callee: Callee, value: Any, context: Context) -> Outcome:
    """Describe what a function returned and has written; says so where JSON keeps another value."""
    outcome = success(value, pickled=callee.pickled, codec=callee.codec)
    change = _find_change(callee, value, outcome)
    if change is not None:
        context.log.warning(_KEPT_CHANGED, change)
    return with_outputs(outcome, list_outputs(context))


def _find_change(callee: Callee, value: Any, outcome: Outcome) -> Change | None:
    if outcome.result is None or callee.pickled or callee.parameters is None:
        return None
    kind = callee.parameters.returns
    if kind.annotation is not None:
        return None  # whoever asks for the result converts it
    try:
        text = outcome.result.encode() if callee.codec is None else encode_json(value)
        return kind.find_change(value, msgspec.Raw(text))
    except Exception:  # noqa: BLE001 - values are compared by code of the user's; it has succeeded
        return None
