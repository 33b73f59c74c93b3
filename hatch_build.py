"""What the package needs beyond its sources: the dashboard, built."""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class DashboardHook(BuildHookInterface[Any]):
    """Puts a fresh build into a wheel. An editable install uses that of `./run dashboard`."""

    PLUGIN_NAME = "custom"
    _folder: "tempfile.TemporaryDirectory[str] | None" = None

    def initialize(self, version: str, contents: dict[str, Any]) -> None:
        """Build it into a folder that is gone afterwards."""
        if version != "standard":
            return
        self._folder = tempfile.TemporaryDirectory()
        target = Path(self._folder.name, "dashboard")
        script = Path(self.root, "dashboard", "build.py")
        built = subprocess.run([sys.executable, str(script), "pack", str(target)], check=False)
        if built.returncode != 0:
            raise SystemExit("holdfast: the dashboard could not be built; the lines above say why")
        contents["force_include"][str(target)] = "holdfast/dashboard"

    def finalize(self, version: str, contents: dict[str, Any], artifact_path: str) -> None:
        """Remove the folder."""
        if self._folder is not None:
            self._folder.cleanup()
