"""Where a setting comes from: its flag, its HOLDFAST_ variable, then holdfast.toml.

Cyclopts looks them up; here stands what the flags are, and how the file is laid out. A section has
the name of a command. `[defaults]` is for every command that has such a flag.
"""

import os
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter, validators
from cyclopts.config import Dict

from holdfast.client import token
from holdfast.errors import Invalid

if TYPE_CHECKING:
    from cyclopts import App, ArgumentCollection

FILE = "holdfast.toml"
FILE_VARIABLE = "HOLDFAST_CONFIG"
PREFIX = "HOLDFAST_"
DEFAULTS = "defaults"
TOKEN_FILE = "--token-file"
SHARED = (
    "server",
    "database-url",
    "log-format",
    "wake-ups",
    "sqs-prefix",
    "sqs-endpoint-url",
)

Server = Annotated[
    str | None,
    Parameter(
        name="--server",
        env_var="HOLDFAST_SERVER",
        help="Where the server is. Default: http://127.0.0.1:7878.",
    ),
]
Json = Annotated[bool, Parameter(name="--json", negative="", help="Write JSON, for programs.")]
RepeatKey = Annotated[
    str | None,
    Parameter(name="--key", help="An idempotency key: a repeat gets the same answer."),
]
RebindOutputs = Annotated[
    bool,
    Parameter(
        name="--rebind-outputs",
        negative="",
        help="Write the newest open version where the one named is not open.",
    ),
]
Follow = Annotated[
    bool, Parameter(name=["--follow", "-f"], negative="", help="Go on as more comes.")
]
Port = Annotated[
    int,
    Parameter(
        name="--port",
        env_var="HOLDFAST_PORT",
        validator=validators.Number(gte=0, lte=65535),
        help="Where the server listens; 0 lets the system choose.",
    ),
]
Queues = Annotated[
    tuple[str, ...],
    Parameter(
        name="--queue",
        env_var="HOLDFAST_QUEUES",
        negative="",
        help="A queue to serve; repeat it. Default: default.",
    ),
]
Imports = Annotated[
    tuple[str, ...],
    Parameter(
        name="--import",
        env_var="HOLDFAST_IMPORTS",
        negative="",
        help="A module with tasks, imported first; repeat it.",
    ),
]
CodecPath = Annotated[
    str | None,
    Parameter(
        name="--codec",
        env_var="HOLDFAST_CODEC",
        help="MODULE:OBJECT, which encodes and decodes what functions are given and return.",
    ),
]
Concurrency = Annotated[
    int,
    Parameter(
        name="--concurrency",
        env_var="HOLDFAST_CONCURRENCY",
        help="How many tasks a worker runs at once.",
    ),
]
DrainSeconds = Annotated[
    float,
    Parameter(
        name="--drain-seconds",
        env_var="HOLDFAST_DRAIN_SECONDS",
        help="How long what runs may take when a worker ends.",
    ),
]
HEARTBEAT_TIMEOUT = Parameter(
    name="--heartbeat-timeout-seconds",
    env_var="HOLDFAST_HEARTBEAT_TIMEOUT_SECONDS",
    help="After how long without a call a worker stops its placed tasks and registers anew.",
)
LogFormat = Annotated[
    Literal["auto", "plain", "json"],
    Parameter(
        name="--log-format",
        env_var="HOLDFAST_LOG_FORMAT",
        help="auto: plain on a terminal, JSON lines elsewhere.",
    ),
]
WakeUps = Annotated[
    Literal["notify", "sqs", "local"],
    Parameter(
        name="--wake-ups",
        env_var="HOLDFAST_WAKE_UPS",
        help="How news of work travels: through Postgres, also through SQS, or not at all.",
    ),
]
AllowedHosts = Annotated[
    tuple[str, ...],
    Parameter(
        name="--allowed-host",
        env_var="HOLDFAST_ALLOWED_HOSTS",
        env_var_split=lambda _, text, **_how: text.replace(",", " ").split(),
        negative="",
        help="A name, beside those of loopback, by which browsers and programs may call the "
        "server, through a proxy; repeat it.",
    ),
]
SqsPrefix = Annotated[
    str,
    Parameter(
        name="--sqs-prefix",
        env_var="HOLDFAST_SQS_PREFIX",
        help="What the names of all SQS queues begin with.",
    ),
]
SqsEndpointUrl = Annotated[
    str | None,
    Parameter(
        name="--sqs-endpoint-url",
        env_var="HOLDFAST_SQS_ENDPOINT_URL",
        help="An SQS other than that of the region.",
    ),
]
AttemptUidRange = Annotated[
    str | None,
    Parameter(
        name="--attempt-uids",
        env_var="HOLDFAST_ATTEMPT_UIDS",
        help="FIRST-LAST, such as 200000-265535: as root, every attempt in a process is a user of "
        "its own, out of these.",
    ),
]


def check_limit(limit: int) -> None:
    """Refuse to show nothing."""
    if limit < 1:
        raise Invalid("limit", f"is {limit}; ask for one at least")


def did_you_mean(name: str, known: Iterable[str], form: str = "{}") -> str:
    """Ask for the nearest name that there is, if one is near."""
    near = get_close_matches(name, list(known), n=1)
    return f" (did you mean {form.format(near[0])}?)" if near else ""


def forget_empty_variables() -> None:
    """Take a variable of ours that is set to nothing for one that is not set."""
    for name in [name for name, text in os.environ.items() if name.startswith(PREFIX) and not text]:
        del os.environ[name]


def take_token_file(arguments: Sequence[str]) -> list[str]:
    """Take `--token-file FILE` from before the command: it is for all of them, and programs below.

    A token itself is never an argument: every user of a machine sees those.
    """
    rest = list(arguments)
    while rest and rest[0].partition("=")[0] == TOKEN_FILE:
        flag, equals, path = rest.pop(0).partition("=")
        if not equals and rest:
            path = rest.pop(0)
        if path:
            os.environ[token.FILE_VARIABLE] = path
            os.environ.pop(token.VARIABLE, None)
        else:
            return [flag]  # which no command is called: the usual complaint follows
    return rest


@dataclass(frozen=True)
class SettingsFile:
    """A source of settings for cyclopts: holdfast.toml, here or where HOLDFAST_CONFIG says."""

    commands: Sequence[str]

    def __call__(
        self, app: "App", commands: tuple[str, ...], arguments: "ArgumentCollection"
    ) -> None:
        """Fill in what flags and variables have left open; an unknown key is an error."""
        path, sections = load_file()
        unknown = sections.keys() - {DEFAULTS, *self.commands}
        if unknown:
            name = min(unknown)
            near = did_you_mean(name, [DEFAULTS, *self.commands], "[{}]")
            raise Invalid(
                str(path), f"[{name}] is no command{near}; use a command's name or [{DEFAULTS}]"
            )
        Dict(data=sections, source=str(path))(app, commands, arguments)
        shared = self._choose_shared(path, sections.get(DEFAULTS, {}), arguments)
        Dict(data={DEFAULTS: shared}, source=str(path))(app, (DEFAULTS,), arguments)

    def _choose_shared(
        self, path: Path, section: Any, arguments: "ArgumentCollection"
    ) -> dict[str, Any]:
        """Take the defaults that this command has a flag for."""
        if not isinstance(section, dict):
            raise Invalid(str(path), f"{DEFAULTS} is a section; write [{DEFAULTS}]")
        chosen = {}
        for key, value in section.items():
            if key not in SHARED:
                problem = f"{key!r} is unknown in [{DEFAULTS}]{did_you_mean(key, SHARED)}"
                raise Invalid(str(path), f"{problem}; it takes {', '.join(SHARED)}")
            if arguments.get(f"--{key}", default=None) is not None:
                chosen[key] = value
        return chosen


def load_file() -> tuple[Path, dict[str, Any]]:
    """Read holdfast.toml; it may be missing, unless it was named."""
    named = os.environ.get(FILE_VARIABLE)
    path = Path(named or FILE)
    try:
        return path, tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        if named:
            raise Invalid(FILE_VARIABLE, f"there is no file {path}") from error
        return path, {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise Invalid(str(path), f"cannot be read: {error}") from error
