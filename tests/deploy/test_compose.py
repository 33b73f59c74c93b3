"""The compose file: read as compose reads it, its commands by the program, its set-up for real."""

import os
import re
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from compose_spec import PyCompose

from tests.deploy.commands import DEPLOY, known_variables, read_command, variables_in

FILE = DEPLOY / "compose" / "compose.yaml"
SECONDS_MAX = 120


def fill_in(text: str, given: dict[str, str]) -> str:
    """Put variables in, as compose does: ${NAME:-default} and ${NAME:?what is missing}."""
    found = re.sub(
        r"\$\{(\w+):([-?])([^}]*)\}",
        lambda match: given.get(match[1], match[3] if match[2] == "-" else ""),
        text,
    )
    assert "${" not in found
    return found


def services() -> dict[str, Any]:
    """Read the services of the file."""
    text = fill_in(FILE.read_text(), {"POSTGRES_PASSWORD": "secret"})
    found: dict[str, Any] = yaml.safe_load(text)["services"]
    return found


def test_the_file_is_one_that_compose_reads() -> None:
    text = fill_in(FILE.read_text(), {"POSTGRES_PASSWORD": "secret"})
    document = yaml.safe_load(text)  # with what is merged in its place
    compose = PyCompose.from_yaml(yaml.safe_dump(document))
    compose.validate()
    assert set(compose.service_names()) == {"db", "setup", "server", "worker"}


def test_servers_and_workers_are_started_as_the_program_reads_it() -> None:
    server = services()["server"]
    told = read_command(server["command"], server["environment"]).arguments
    assert (told["host"], told["require_tokens"]) == ("0.0.0.0", True)
    assert told["trust_database_network"] is True
    assert str(told["tls"].tls_cert) == "/secrets/servers/server.pem"
    assert server["deploy"]["replicas"] == 2
    worker = services()["worker"]
    told = read_command(worker["command"], worker["environment"]).arguments
    assert told["server"] == "https://server:7878"
    assert (told["queue"], told["import_"]) == (("default",), ("tasks",))
    assert float(worker["stop_grace_period"].removesuffix("s")) > told["drain_seconds"]


def test_every_variable_and_every_file_is_there() -> None:
    for path in (FILE, DEPLOY / "compose" / "setup.sh", DEPLOY / "Dockerfile"):
        assert variables_in(path.read_text()) <= known_variables(), path
    for service in services().values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (FILE.parent / source).exists(), source
    build = services()["server"]["build"]
    assert (FILE.parent / build["context"] / build["dockerfile"]).is_file()


def test_only_loopback_of_the_host_is_served() -> None:
    for service in services().values():
        assert all(port["host_ip"] == "127.0.0.1" for port in service.get("ports", []))


def test_the_set_up_prepares_what_the_services_read(tmp_path: Path, database_url: str) -> None:
    first = run_setup(tmp_path, database_url)
    for name, service in services().items():
        if name in ("server", "worker"):
            for variable, path in service["environment"].items():
                if path.startswith("/secrets/") and variable.startswith("HOLDFAST_"):
                    assert (tmp_path / path.removeprefix("/secrets/")).stat().st_mode & 0o77 == 0
    assert (tmp_path / "workers" / "token").read_text().startswith("hf_")
    shared = {path.name for path in (tmp_path / "workers").iterdir()}
    assert shared == {"ca.pem", "token"}, "a worker sees no key"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "servers/server.pem", tmp_path / "servers/server.key")
    assert run_setup(tmp_path, database_url) == first, "nothing is done twice"


def test_a_token_whose_file_is_lost_is_made_anew(tmp_path: Path, database_url: str) -> None:
    token = tmp_path / "workers" / "token"
    before = run_setup(tmp_path, database_url)
    token.unlink()
    after = run_setup(tmp_path, database_url)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"workers/token"}
    assert token.read_text().startswith("hf_")


def run_setup(folder: Path, database_url: str) -> dict[str, bytes]:
    """Run the script as the service does; returns the files that it has left."""
    ended = subprocess.run(
        ["sh", str(FILE.parent / "setup.sh")],
        env={
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOLDFAST_DATABASE_URL": database_url,
            "SETUP_SECRETS": str(folder),
        },
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
