"""`holdfast config show`: which settings are in effect, and where each comes from."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from cyclopts import App, Parameter
from cyclopts.exceptions import CycloptsError, MissingArgumentError

from holdfast.cli.output.write import Column, write_json, write_line, write_table, write_title
from holdfast.cli.settings import DEFAULTS, FILE_VARIABLE, Json, load_file
from holdfast.cli.variables import OTHERS
from holdfast.errors import Invalid
from holdfast.model.addresses import UNREADABLE, without_login, without_secrets

if TYPE_CHECKING:
    from cyclopts import ArgumentCollection
    from cyclopts.argument import Argument

SHOWN = ("server", "worker", "jobs")
CLIENT = "client"  # whoever asks a server: every other command has these settings too
MASK = "***"
_SECRET_WORDS = ("token", "secret", "password")
_COLUMNS = (Column("setting"), Column("value", flexible=True), Column("from", flexible=True))

app = App(name="config", help="Show which settings are in effect, and where they come from.")


class Setting(NamedTuple):
    """A setting as it is in effect: its value in words, and where it comes from."""

    setting: str
    value: str | None
    source: str
    variable: str | None = None


@app.command
def show(
    *command: Annotated[
        str,
        Parameter(
            name="COMMAND",
            allow_leading_hyphen=True,
            help="A command, and flags to try with it: show server --port 80.",
        ),
    ],
    as_json: Json = False,
) -> int:
    """Show each setting with its value, and whether a flag, a variable or the file says so.

    Without a command: those of servers, of workers, and of whoever asks a server. Secrets are not
    shown. The whole file is checked: an unknown section or key in it is an error.
    """
    path = _check_file()
    chosen = [list(command)] if command else [[name] for name in SHOWN]
    sections = {
        CLIENT if words == ["jobs"] and not command else _name_of(words): _read(words)
        for words in chosen
    }
    if not command:
        clients = [each for each in sections[CLIENT] if each.setting == "--server"]
        sections[CLIENT] = [*clients, *_others()]
    if as_json:
        document = {name: [each._asdict() for each in found] for name, found in sections.items()}
        write_json({"file": None if path is None else str(path), "settings": document})
        return 0
    write_line(f"file: {path}" if path else f"file: none ({FILE_VARIABLE} names one)")
    for name, found in sections.items():
        write_line("")
        write_title(name)
        rows = [(each.setting, each.value or "", each.source) for each in found]
        write_table(_COLUMNS, rows)
    return 0


def _name_of(words: Sequence[str]) -> str:
    """Take the names before the first flag."""
    flag = next((n for n, word in enumerate(words) if word.startswith("-")), len(words))
    return " ".join(words[:flag])


def _check_file() -> Path | None:
    """Refuse a file in which any section has a key that is none; returns where it is."""
    path, sections = load_file()
    for words, keys in _list_sections(sections):
        if not keys:
            continue
        try:
            _read(words)
        except CycloptsError as error:
            raise Invalid(str(path), f"[{'.'.join(words)}]: {error}") from error
    return path.absolute() if path.exists() else None


def _list_sections(sections: Any, above: Sequence[str] = ()) -> Iterator[tuple[list[str], Any]]:
    """Walk over the sections of the file, and those of commands of commands."""
    for name, section in sections.items():
        if name == DEFAULTS and not above:
            continue
        words = [*above, name]
        if isinstance(section, dict):
            yield words, [key for key in section if not isinstance(section[key], dict)]
            yield from _list_sections(
                {key: each for key, each in section.items() if isinstance(each, dict)}, words
            )
        else:
            yield words, [name]


def _read(words: Sequence[str]) -> list[Setting]:
    """Have a command take its settings from everywhere, without running it."""
    from holdfast.cli.app import app as program

    seen: list[ArgumentCollection] = []

    def note(_: App, __: tuple[str, ...], arguments: "ArgumentCollection") -> None:
        seen.append(arguments)

    usual = program.config
    program.config = (*usual, note)
    try:
        _, _, unknown, *_ = program.parse_known_args(list(words))
    except MissingArgumentError:  # what it is to be about is no setting
        unknown = []
    except CycloptsError as error:
        error.verbose = False  # as it is for who calls the command itself
        raise
    finally:
        program.config = usual
    if not seen:
        raise Invalid("COMMAND", f"{words[0]!r} has no settings; see `holdfast --help`")
    if unknown:
        raise CycloptsError(msg=f'Unknown option: "{unknown[0]}" of {_name_of(words)}.')
    return [_describe(each) for each in seen[-1] if _is_setting(each)]


def _is_setting(argument: "Argument") -> bool:
    """Tell a flag from the groups that hold some, and from what a command is about."""
    name = argument.names[0]
    return name.startswith("--") and name != "--json" and bool(argument.show)


def _describe(argument: "Argument") -> Setting:
    name = argument.names[0]
    variable = next(iter(argument.parameter.env_var or ()), None)
    if not argument.tokens:
        default = _default(name, argument.field_info.default)
        return Setting(name, default, "default", variable)
    token = argument.tokens[0]
    sources = {"cli": "flag", "env": f"variable {token.keyword}"}
    source = sources.get(token.source, f"file {Path(token.source).absolute()}")
    return Setting(name, _write(name, argument.value), source, variable)


def _others() -> Iterable[Setting]:
    """Show the variables that go with no flag of a command."""
    for name in OTHERS:
        value = os.environ.get(name)
        source = "default" if value is None else f"variable {name}"
        yield Setting(name, None if value is None else _write(name, value), source, name)


def _default(name: str, value: Any) -> str | None:
    """Name the default; where that is found later, what it will be."""
    from holdfast.client.transport import DEFAULT_SERVER
    from holdfast.model.limits.server_limits import ServerLimits

    field = name.removeprefix("--").replace("-", "_")
    known = {"server": DEFAULT_SERVER, "lease_min": 30.0}
    if value is None:
        value = known.get(field, getattr(ServerLimits(), field, None))
    return None if value is None or value == () else _write(name, value)


def _write(name: str, value: Any) -> str:
    """Write a value in words; a secret, and what is secret in a URL, is not shown."""
    words = name.lower()
    if not words.endswith("file") and any(
        word in words.replace("-", "_").split("_") for word in _SECRET_WORDS
    ):
        return MASK
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return ", ".join(_write(name, each) for each in value)
    text = f"{value:g}" if isinstance(value, float) else str(value)
    if "://" not in text:
        return text
    return _without_password(text)


def _without_password(url: str) -> str:
    """Write a URL as it is shown elsewhere; a login of a server may be a token, and goes whole."""
    if url.startswith(("http://", "https://")):
        return without_login(url)
    shown = without_secrets(url)
    return MASK if shown == UNREADABLE else shown
