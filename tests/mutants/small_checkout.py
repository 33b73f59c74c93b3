"""A checkout of a few lines, with tests of its own."""

import subprocess
from pathlib import Path

SMALL = "tests/test_sums.py"
_FILES = {
    ".gitignore": "*.log\n__pycache__/\nholdfast/dashboard/\n",
    "holdfast/__init__.py": "",
    "holdfast/sums.py": "def add(a, b):\n    return a + b\n",
    SMALL: (
        "import pytest\n"
        "from holdfast.sums import add\n"
        "def test_it_adds():\n    assert add(1, 1) == 2\n"
        "@pytest.mark.parametrize('n', [2])\n"
        "def test_it_is_a_sum(n):\n    assert add(n, n) == 2 * n\n"
        "def test_it_has_arguments():\n    assert add.__code__.co_argcount == 2\n"
    ),
}


def make_checkout(root: Path) -> Path:
    """Make a repository of one function and its tests."""
    for name, text in _FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True, timeout=20)
    return root
