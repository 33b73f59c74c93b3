"""The units: verified by systemd, their commands read by the program, their waits long enough."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.deploy.commands import DEPLOY, known_variables, read_command, variables_in

UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
SECONDS_MAX = 60
INSTALLED = "/opt/holdfast/bin/holdfast"


def read_unit(path: Path) -> dict[str, list[str]]:
    """Read the settings of a unit; one may be given several times."""
    found: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def command_of(path: Path) -> list[str]:
    """Give the words of a unit's command after the program."""
    [command] = read_unit(path)["ExecStart"]
    program, *words = shlex.split(command.replace("%l", "host").replace("%i", "mail"))
    assert program == INSTALLED
    return words


def variables_of(path: Path) -> dict[str, str]:
    """Give the variables that a unit sets."""
    [line] = read_unit(path)["Environment"]
    return dict(pair.split("=", 1) for pair in line.split())


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_is_one_that_systemd_takes(path: Path, tmp_path: Path) -> None:
    """Where there is no systemd, the settings are compared with those that it is known to have."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        assert set(read_unit(path)) <= SETTINGS
        return
    program = tmp_path / "holdfast"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    copy = tmp_path / path.name
    copy.write_text(path.read_text().replace(INSTALLED, str(program)))
    command = [analyze, "verify", "--man=no", str(copy)]
    checked = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")
    assert set(read_unit(path)) <= SETTINGS


def test_commands_and_variables_are_the_programs() -> None:
    for path in UNITS:
        assert variables_in(path.read_text()) <= known_variables(), path
        files = {"HOLDFAST_ALLOW_COMMANDS": "true"} if "worker" in path.name else {}
        told = read_command(command_of(path), variables_of(path) | files).arguments
        assert told.get("log_format") == "json"
    server = read_command(command_of(DEPLOY / "systemd" / "holdfast-server.service"), {})
    assert server.arguments == {}, "all its settings stand in its file"


def test_systemd_waits_longer_than_a_worker_drains() -> None:
    path = DEPLOY / "systemd" / "holdfast-worker@.service"
    told = read_command(command_of(path), {}).arguments
    [stop] = read_unit(path)["TimeoutStopSec"]
    assert float(stop) > told["drain_seconds"]
    assert told["name"] == "host-mail"


def test_only_the_first_process_hears_of_the_end() -> None:
    """Attempts that were told as well would end instead of finishing; docs/workers.md."""
    for path in UNITS:
        expected = "process" if "placed" in path.name else "mixed"
        assert read_unit(path)["KillMode"] == [expected], path


SETTINGS = {
    *("Description", "After", "Wants", "Type", "User", "Group", "EnvironmentFile", "ExecStart"),
    *("Restart", "RestartSec", "KillMode", "KillSignal", "TimeoutStopSec", "StateDirectory"),
    *("WorkingDirectory", "Environment", "LimitNOFILE", "NoNewPrivileges", "ProtectSystem"),
    *("ProtectHome", "PrivateTmp", "PrivateDevices", "ProtectKernelTunables", "UMask"),
    *("ProtectKernelModules", "ProtectControlGroups", "RestrictAddressFamilies", "WantedBy"),
    *("RestrictSUIDSGID", "CapabilityBoundingSet"),
}
