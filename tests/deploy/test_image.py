"""The image: linted, its files there, its steps run by hand where they need no root."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.deploy.commands import DEPLOY, ROOT, read_command, variables_in
from tests.deploy.live import LiveServer

DOCKERFILE = DEPLOY / "Dockerfile"
SECONDS_MAX = 390


def instructions() -> list[tuple[str, str]]:
    """Read the instructions of the Dockerfile, each as one line."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines if line.strip()]


def run(command: list[str], folder: Path, **variables: str) -> str:
    """Run a program that has to succeed; returns what it writes."""
    ended = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_hadolint_finds_nothing() -> None:
    run([str(Path(sys.executable).with_name("hadolint")), str(DOCKERFILE)], ROOT)


def test_what_is_copied_is_there_and_not_ignored() -> None:
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    allowed = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    sources: set[str] = set()
    for name, rest in instructions():
        if name == "COPY" and "--from" not in rest:
            sources |= set(rest.split()[:-1])
    assert sources == allowed
    assert all((ROOT / source).exists() for source in sources)


def test_the_image_and_the_compose_file_and_the_chart_are_of_one_version() -> None:
    chart = yaml.safe_load((DEPLOY / "helm/holdfast/Chart.yaml").read_text())
    project = (ROOT / "pyproject.toml").read_text()
    assert f'version = "{chart["appVersion"]}"' in project
    for path in (DOCKERFILE, DEPLOY / "compose/compose.yaml"):
        assert f"holdfast:{chart['appVersion']}" in path.read_text()
    locked = (ROOT / "requirements.lock").read_text()
    [uv] = re.findall(r"pip install --no-cache-dir (uv==\S+)", DOCKERFILE.read_text())
    assert f"\n{uv} " in locked, "the Dockerfile builds with the uv of requirements.lock"


def test_the_command_is_the_programs_and_signals_reach_it() -> None:
    told = dict(instructions())
    assert yaml.safe_load(told["ENTRYPOINT"]) == ["tini", "--", "holdfast"]
    assert read_command(yaml.safe_load(told["CMD"]), {}).arguments == {}
    assert told["STOPSIGNAL"] == "SIGTERM"
    assert told["USER"] == "10001:10001"
    variables = dict(pair.split("=", 1) for pair in shlex.split(told["ENV"]))
    assert variables_in(told["ENV"]) == {n for n in variables if n.startswith("HOLDFAST_")}


def test_the_health_check_tells_a_server_that_works_from_one_that_is_not_there(
    live: LiveServer,
) -> None:
    [check] = [rest for name, rest in instructions() if name == "HEALTHCHECK"]
    assert "/opt/holdfast/healthcheck.py" in check
    script = [sys.executable, str(DEPLOY / "healthcheck.py")]
    port = live.url.rpartition(":")[2]
    # A proxy for the way out is not for the server of the same container.
    proxy = {"https_proxy": "http://127.0.0.1:1", "no_proxy": ""}
    run(script, ROOT, HOLDFAST_PORT=port, HOLDFAST_TLS_CERT="server.pem", **proxy)
    for wrong in ({"HOLDFAST_PORT": "1"}, {"HOLDFAST_PORT": port}):
        ended = subprocess.run(
            script, env={**os.environ, **wrong}, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 1
        assert "readyz" in ended.stderr


@pytest.mark.nightly
def test_the_steps_of_the_build_make_a_program_that_runs(tmp_path: Path) -> None:
    """The build stage as it stands, with other folders."""
    (tmp_path / "source").mkdir()
    for name, rest in instructions():
        if name == "COPY" and "--from" not in rest and not rest.startswith("deploy/"):
            *sources, target = rest.split()
            for source in sources:
                run(["cp", "-r", str(ROOT / source), str(tmp_path / "source" / target)], ROOT)
    for left_out in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines():
        if not left_out.startswith(("#", "!", "*")):
            shutil.rmtree(tmp_path / "source" / left_out, ignore_errors=True)
    [step] = [rest for name, rest in instructions() if name == "RUN" and "uv build" in rest]
    step = step.replace("/wheels", f"{tmp_path}/wheels").replace("/opt/", f"{tmp_path}/")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    run(["sh", "-euc", step], tmp_path / "source", PATH=path)
    installed = str(tmp_path / "holdfast" / "bin" / "holdfast")
    assert "--require-tokens" in run([installed, "server", "--help"], tmp_path)
    assert "--drain-seconds" in run([installed, "worker", "--help"], tmp_path)
