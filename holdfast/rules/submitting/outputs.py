"""What a job may declare as its outputs, and what datasets may be called."""

import re
from collections.abc import Sequence

from holdfast.errors import Invalid, TooLarge
from holdfast.model.datasets import DATASET_LENGTH_MAX
from holdfast.model.submitting.order import Declared, Output

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
VERSION_MAX = 2**31 - 1
OUTPUTS_MAX = 100


def check_name(field: str, name: str) -> None:
    """Refuse what neither a dataset nor a trigger can be called."""
    if len(name) > DATASET_LENGTH_MAX:
        raise TooLarge(field, len(name), DATASET_LENGTH_MAX, unit="characters")
    if not _NAME.fullmatch(name):
        raise Invalid(field, f"{name!r} is not such a name; use letters, digits and ._-")


def check_declared(outputs: Sequence[Output]) -> None:
    """Refuse outputs that a job cannot have, whatever datasets there are."""
    if len(outputs) > OUTPUTS_MAX:
        raise TooLarge("outputs", len(outputs), OUTPUTS_MAX, unit="datasets")
    seen: set[str] = set()
    for index, output in enumerate(outputs):
        check_name(f"outputs[{index}].dataset", output.dataset)
        if output.dataset in seen:
            problem = f"names {output.dataset} again; a job writes one version of a dataset"
            raise Invalid(f"outputs[{index}].dataset", problem)
        seen.add(output.dataset)
        if isinstance(output.version, int) and not 1 <= output.version <= VERSION_MAX:
            raise Invalid(f"outputs[{index}].version", f"is out of range; use 1 to {VERSION_MAX}")


def declare(outputs: Sequence[Output]) -> dict[str, Declared]:
    """Note where it was not a number that chose the version."""
    return {
        output.dataset: "new" if output.version == "new" else "newest"
        for output in outputs
        if not isinstance(output.version, int)
    }


def choose_again(
    output: Output, declared: Declared | None, state: str | None, *, rebind: bool
) -> Output:
    """Say what a replay writes: the version of the first time while it is open, else as declared.

    Raises Invalid if that was its number, unless the newest open version will do.
    """
    if state == "open":
        return output
    if declared is None and not rebind:
        problem = f"version {output.version} of dataset {output.dataset} is {state or 'gone'}"
        raise Invalid("rebind_outputs", f"{problem}; set this to write the newest open one")
    return Output(output.dataset, "new" if declared == "new" else None, output.mode)


def explain_closed_version(dataset: str, version: int, state: str | None) -> str:
    """Say why nothing can be written to a version, and what to do."""
    if state is None:
        return f"dataset {dataset} has no version {version}; open one first, or give new"
    return f"version {version} of dataset {dataset} is {state}; open another one"
