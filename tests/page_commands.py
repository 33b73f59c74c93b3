"""Commands that a page shows, within its sentences or in blocks, read by the program's parser."""

import re
import shlex
from pathlib import Path

from cyclopts import CycloptsError, MissingArgumentError

from holdfast.cli.app import COMMANDS, app
from tests.deploy.commands import read_command

ROOT = Path(__file__).resolve().parents[1]
NAMES = {command[0] for group in COMMANDS.values() for command in group}
_COMMAND = re.compile(r"(?:^|\$ |[`\"])holdfast ((?:[^`\n\\]|\\\n)+)", re.MULTILINE)
_FIRST_FLAG = re.compile(r"--(?:token|ca)-file \S+ ")
_REDIRECTED = re.compile(r"\\\n|\s2>.*")
# What a page writes instead of any command.
_ANY = {"COMMAND", "..."}


def commands_in(text: str) -> list[list[str]]:
    """List the commands of a page as words, each up to where the shell goes on with something."""
    found = [_split(_FIRST_FLAG.sub("", told)) for told in _COMMAND.findall(text)]
    return [words for words in found if words and words[0] not in _ANY]


def find_problem(words: list[str]) -> str | None:
    """Say what the program has against a command; one may be named without all that it wants."""
    told = f"holdfast {shlex.join(words)}"
    try:
        groups, *_ = app.parse_commands(words)
        read_command(words, {})
    except MissingArgumentError:
        return None
    except CycloptsError as error:
        return f"{told}: {error}"
    if len(groups) == 1 and len(words) > 1 and words[1] in NAMES:
        return f"{told}: {words[1]} is a command of its own"
    return None


def _split(told: str) -> list[str]:
    lexer = shlex.shlex(_REDIRECTED.sub("", told), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    try:
        for word in lexer:
            if set(word) <= set("();<>|&"):
                break
            words.append(word)
    except ValueError:  # the quotes that it stands in end here
        return _split(told[: max(told.rfind(quote) for quote in "\"'")])
    return words
