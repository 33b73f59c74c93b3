"""Named SQL statements, read from the `.sql` files beside this module.

A statement starts with a line `-- name: verb_noun` and takes named parameters, `$job_ids`; they are
numbered here, because the driver speaks numbers. States stand in it by name, `{FAILED}`.
"""

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from holdfast.store.state_names import number_states

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_PARAMETER = re.compile(r"\$([a-z_]+)")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement, ready for the driver."""

    name: str
    text: str
    parameters: tuple[str, ...]

    def arguments(self, values: dict[str, Any]) -> list[Any]:
        """Put named values into the order the driver wants; a missing or unknown one is a bug."""
        assert len(values) == len(self.parameters), (self.name, self.parameters, tuple(values))
        return [values[name] for name in self.parameters]


def parse_statements(text: str) -> dict[str, Statement]:
    """Split one file's text into its named statements."""
    parts = _NAME.split(number_states(text))[1:]
    statements = {}
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        parameters: dict[str, int] = {}
        numbered = _PARAMETER.sub(
            lambda match, seen=parameters: f"${seen.setdefault(match[1], len(seen) + 1)}", body
        )
        assert name not in statements, f"two statements are named {name}"
        statements[name] = Statement(name, numbered.strip().rstrip(";"), tuple(parameters))
    return statements


@cache
def load_statements(aggregate: str) -> dict[str, Statement]:
    """Read the statements of one aggregate."""
    source = resources.files("holdfast.store") / "sql" / f"{aggregate}.sql"
    return parse_statements(source.read_text(encoding="utf-8"))
