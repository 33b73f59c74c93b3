"""How the process of a function reports its end to the worker: a file in the attempt's folder.

User code can write there as well, so it is read with suspicion: a process reports success, failure
or that it waits for a signal. Whether a failure was a stop that somebody had asked for, the worker
knows itself.
"""

import os
from pathlib import Path

import msgspec

from holdfast.model.work.outcomes import PUT_OFF_MS_MAX, PutOff
from holdfast.worker.running.attempt_outcome import (
    CLASS_LENGTH_MAX,
    ERROR_LENGTH_MAX,
    WAITING,
    Outcome,
    storable,
)
from holdfast.worker.running.regular_file import read_regular

FILE = "outcome.json"
# Twice the largest result, and what it may have written to datasets, fit in.
BYTES_MAX = 8 << 20
_decode = msgspec.json.Decoder(Outcome).decode
_check_result = msgspec.json.Decoder(msgspec.Raw).decode


def write_outcome(folder: Path, outcome: Outcome) -> None:
    """Leave an outcome in a folder: whole, or not at all."""
    partial = folder / f"{FILE}.partial"
    partial.write_bytes(msgspec.json.encode(outcome))
    os.replace(partial, folder / FILE)


def read_outcome(folder: Path, *, was_asked_to_stop: bool) -> Outcome | None:
    """Read what the process of a function has left; None if it has left nothing."""
    try:
        outcome = _decode(read_regular(folder / FILE, BYTES_MAX))
        if outcome.result is not None:
            _check_result(outcome.result.encode())
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return _unfit(f"the outcome that its function left cannot be read: {error}")
    error_text = None if outcome.error is None else storable(outcome.error, ERROR_LENGTH_MAX)
    match outcome.status:
        case "succeeded":
            return Outcome("succeeded", 0, result=outcome.result, outputs=outcome.outputs)
        case "failed" | "waiting" if was_asked_to_stop:
            return Outcome("killed", error=error_text)
        case "waiting":
            return WAITING
        case "failed":
            kind = storable(outcome.error_class or "TransientError", CLASS_LENGTH_MAX)
            return Outcome(
                "failed", None, error_text, kind, outcome.stage, put_off=_clamp(outcome.put_off)
            )
        case status:
            return _unfit(f"its function reported the status {status!r}, which is not its own")


def _clamp(put_off: PutOff | None) -> PutOff | None:
    if put_off is None:
        return None
    return PutOff(min(max(put_off.after_ms, 0), PUT_OFF_MS_MAX), put_off.free)


def _unfit(problem: str) -> Outcome:
    return Outcome("failed", None, problem, "PermanentError", "output")
