"""Command lines and variables of the files in deploy/, read by the program's own parser."""

import os
import re
from collections.abc import Mapping, Sequence
from inspect import BoundArguments
from pathlib import Path
from unittest.mock import patch

from holdfast.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
_NAME = re.compile(r"\bHOLDFAST_[A-Z_]+\b")


def read_command(words: Sequence[str], variables: Mapping[str, str]) -> BoundArguments:
    """Parse a command as the program would, with these variables and no others of ours."""
    own = {name: text for name, text in os.environ.items() if not name.startswith("HOLDFAST_")}
    with patch.dict(os.environ, {**own, **variables}, clear=True):
        _, bound, _ = app.parse_args(list(words), print_error=False, exit_on_error=False)
    return bound


def known_variables() -> set[str]:
    """List the variables that some file of the package names."""
    sources = [path.read_text() for path in (ROOT / "holdfast").rglob("*.py")]
    return {name for text in sources for name in _NAME.findall(text)}


def variables_in(text: str) -> set[str]:
    """List the variables that a file of deploy/ names."""
    return set(_NAME.findall(text))
