"""What an attempt has written, on its way into the report of its success.

A function tells its context; a command writes one JSON object a line into the file that
HOLDFAST_OUTPUTS names, which is read once it has ended with exit code 0.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from holdfast.model.datasets import ENTRIES_BYTES_MAX, OutputEntry
from holdfast.model.submitting.order import Output
from holdfast.worker.running.attempt_outcome import Outcome
from holdfast.worker.running.regular_file import open_regular

FILE = "outputs.jsonl"
VARIABLE = "HOLDFAST_OUTPUTS"
# Names and punctuation come along with what is counted.
_FILE_BYTES_MAX = 2 * ENTRIES_BYTES_MAX
_decode = msgspec.json.Decoder(OutputEntry).decode


def list_output_variables(folder: Path, outputs: Sequence[Output]) -> Mapping[str, str]:
    """List the variables by which a process learns what it writes, and where to say so."""
    versions = {output.dataset: output.version for output in outputs}
    if not versions:
        return {}
    named = {VARIABLE: str(folder / FILE), "HOLDFAST_OUTPUT_VERSIONS": json.dumps(versions)}
    if len(versions) == 1:
        named["HOLDFAST_OUTPUT_VERSION"] = str(*versions.values())
    return named


def with_outputs(outcome: Outcome, entries: Sequence[OutputEntry]) -> Outcome:
    """Let a success bring along what was written; no other end does."""
    if outcome.status != "succeeded" or not entries:
        return outcome
    return msgspec.structs.replace(outcome, outputs=list(entries))


def read_success(folder: Path) -> Outcome:
    """Describe the success of a command; what it says it has written may be anything."""
    try:
        with open_regular(folder / FILE) as file:
            content = file.read(_FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return Outcome("succeeded", 0)
    except OSError as error:
        return _unfit(f"cannot be read: {error}")
    if len(content) > _FILE_BYTES_MAX:
        return _unfit(f"is over {_FILE_BYTES_MAX} bytes; write fewer, larger things")
    entries = []
    for number, line in enumerate(content.splitlines(), 1):
        try:
            if line.strip():
                entries.append(_decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return _unfit(f"line {number}: {error}")
    return with_outputs(Outcome("succeeded", 0), entries)


def _unfit(problem: str) -> Outcome:
    return Outcome("failed", 0, f"{VARIABLE} {problem}", "PermanentError", "commit")
