"""The HOLDFAST_ variables that there are; one that is none is a slip, and would be ignored.

Those of flags are known by the flags. What stands here are the others.
"""

import os
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING

from holdfast.errors import Invalid

if TYPE_CHECKING:
    from cyclopts import App

PREFIX = "HOLDFAST_"
# Of whoever calls a server, and where folders are: each with what it is for.
OTHERS = {
    "HOLDFAST_CONFIG": "the file with settings",
    "HOLDFAST_TOKEN": "the token to show",
    "HOLDFAST_TOKEN_FILE": "the file with the token to show",
    "HOLDFAST_CA_FILE": "the CA of those that are called",
    "HOLDFAST_TLS_CERT": "the certificate to show",
    "HOLDFAST_TLS_KEY": "the key of that certificate",
    "HOLDFAST_DATA_DIR": "the folder of a Postgres of our own",
    "HOLDFAST_WORKER_DIR": "the folder of workers' locks and attempts",
    "HOLDFAST_TRUST_DATABASE_NETWORK": "nobody can read on the way to Postgres",
}
# Set by Holdfast itself for what it starts, and by the tests and builds of a checkout.
_OWN = {"HOLDFAST_MARK", "HOLDFAST_WORKER"}
OF_CHECKOUTS = {
    "HOLDFAST_CHROMIUM",
    "HOLDFAST_DASHBOARD_OUT",
    "HOLDFAST_PGBOUNCER",
    "HOLDFAST_PROMETHEUS",
    "HOLDFAST_PROMTOOL",
    "HOLDFAST_SCREENSHOT_SECONDS",
}
# Within an attempt, variables are those of its job.
WITHIN_ATTEMPT = "HOLDFAST_TASK_ID"
# Kubernetes sets these for every service, and so for one that is called holdfast.
_OF_SERVICES = re.compile(r"_(SERVICE_(HOST|PORT)|PORT_\d+_(TCP|UDP|SCTP))(_[A-Z0-9_]+)?$")
_OF_SERVICE = re.compile(r"(tcp|udp|sctp)://")


def check_variables(app: "App", variables: Mapping[str, str] | None = None) -> None:
    """Refuse a variable that no command knows; names the nearest one that there is."""
    given = os.environ if variables is None else variables
    if WITHIN_ATTEMPT in given:
        return
    known = OTHERS.keys() | _OWN | OF_CHECKOUTS
    strange = [name for name in given if name.startswith(PREFIX) and name not in known]
    strange = [name for name in strange if not _is_of_service(name, given[name])]
    if not strange:
        return
    known = known | set(list_variables(app))  # to import every command takes a moment
    unknown = sorted(name for name in strange if name not in known)
    if unknown:
        raise Invalid(unknown[0], describe_unknown(unknown[0], known))


def describe_unknown(name: str, known: "set[str] | frozenset[str]") -> str:
    """Say that there is no such setting, which one is near, and what to do."""
    near = get_close_matches(name, sorted(known - OF_CHECKOUTS - _OWN), n=1)
    meant = f"did you mean {near[0]}? Rename it, or take it" if near else "take it"
    return f"is no setting; {meant} out; `holdfast config show` lists those that there are"


def list_variables(app: "App") -> Iterator[str]:
    """List the variables of all flags of a command and of those below it."""
    for name in app:
        if not name.startswith("-"):
            yield from list_variables(app[name])
    if app.default_command is not None:
        for argument in app.assemble_argument_collection():
            yield from argument.parameter.env_var or ()


def _is_of_service(name: str, value: str) -> bool:
    return bool(_OF_SERVICES.search(name) or _OF_SERVICE.match(value))
