"""`dashboard/build.py` on a small dashboard: when it builds, and what it says when it cannot."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "dashboard" / "build.py"
INDEX = '<base href="./" />'
# Stands for Vite: counts how often it ran, and writes where it is told to.
BUILD = (
    "const fs = require('fs'), out = process.env.HOLDFAST_DASHBOARD_OUT;"
    "fs.appendFileSync('../builds', 'x'); fs.mkdirSync(out, {recursive: true});"
    "fs.copyFileSync('index.html', out + '/index.html')"
)
NOWHERE = "http://127.0.0.1:1"


class Sources:
    """A checkout with nothing but a dashboard in it."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "dashboard"
        self.built = root / "holdfast" / "dashboard" / "index.html"
        self.folder.mkdir()
        (root / "holdfast").mkdir()
        shutil.copy(SCRIPT, self.folder)
        self.write(INDEX)
        self.need({})

    def write(self, index: str) -> None:
        """Change the sources."""
        (self.folder / "index.html").write_text(index)

    def need(self, packages: dict[str, str]) -> None:
        """Change what has to be fetched."""
        package = {"name": "d", "scripts": {"build": "node build.cjs"}, "dependencies": packages}
        (self.folder / "build.cjs").write_text(BUILD)
        (self.folder / "package.json").write_text(json.dumps(package))
        found = {f"node_modules/{name}": {"version": text} for name, text in packages.items()}
        lock = {"name": "d", "lockfileVersion": 3, "packages": {"": package, **found}}
        (self.folder / "package-lock.json").write_text(json.dumps(lock))

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Begin to build."""
        return subprocess.Popen(
            [sys.executable, str(self.folder / "build.py"), *arguments],
            env={**os.environ, "npm_config_registry": NOWHERE, "npm_config_fetch_retries": "0"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str) -> tuple[int, str]:
        """Build to the end; returns the exit code and what was said."""
        process = self.start(*arguments)
        said, _ = process.communicate(timeout=60)
        return process.returncode, said

    @property
    def builds(self) -> int:
        """Tell how often it was built."""
        counted = self.folder.parent / "builds"
        return len(counted.read_text()) if counted.exists() else 0


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    """A dashboard that needs no packages."""
    return Sources(tmp_path)


def test_it_is_built_once_and_again_when_something_has_changed(sources: Sources) -> None:
    running = [sources.start("build") for _ in range(2)]  # at once: the second finds it done
    for process in running:
        said, _ = process.communicate(timeout=60)
        assert process.returncode == 0, said
    assert (sources.builds, sources.built.read_text()) == (1, INDEX)
    assert sources.run("build") == (0, "")
    sources.write(f"{INDEX} changed")
    assert sources.run("build", "--optional")[0] == 0
    assert (sources.builds, sources.built.read_text()) == (2, f"{INDEX} changed")


def test_what_does_not_build_leaves_what_was_there(sources: Sources) -> None:
    assert sources.run("build")[0] == 0
    sources.write("no base")
    code, said = sources.run("build")
    assert code == 1
    assert "put it into dashboard/index.html" in said
    assert sources.built.read_text() == INDEX
    (sources.folder / "build.cjs").write_text("console.log('where it hurts'); process.exit(3)")
    code, said = sources.run("build")
    assert code == 1
    assert "where it hurts" in said
    assert "`npm run build` ended with code 3; the sources in dashboard/src do not build" in said


def test_without_a_registry_a_demo_goes_on_and_a_test_does_not(sources: Sources) -> None:
    sources.need({"somewhere-else": "1.0.0"})
    for attempt in ("`npm ci", "it could not be built some minutes ago"):
        code, said = sources.run("build", "--optional")
        line = said.splitlines()[-1]
        assert (code, line.startswith(f"dashboard: {attempt}")) == (0, True), said
        assert line.endswith("Going on without it; ./run dashboard tells more")
    code, said = sources.run("build")
    assert (code, sources.built.exists()) == (1, False)
    assert "npm needs its registry" in said


def test_a_wrong_command_is_told_the_right_ones(sources: Sources) -> None:
    code, said = sources.run("bild")
    assert code == 2
    assert "build.py pack FOLDER" in said
