"""Files that the command line names: texts, and lists of packages."""

import io
from pathlib import Path

import pytest

from holdfast.cli.files import edit_text, read_requirements, read_text
from holdfast.errors import Invalid


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("typed\n"))
    assert read_text("spec", "-") == "typed\n"


@pytest.mark.parametrize("content", [None, b"\xff"])
def test_a_file_that_cannot_be_read_is_named_with_its_flag(
    tmp_path: Path, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "file").write_bytes(content)
    with pytest.raises(Invalid, match=r"requirements: .*file cannot be read"):
        read_requirements(str(tmp_path / "file"))


def test_requirements_are_packages_one_a_line(tmp_path: Path) -> None:
    text = "# ours\nnumpy==2.1\n\n  torch>=2 ; python_version > '3.10'  # cpu\n    # via numpy\n"
    (tmp_path / "file").write_text(text)
    found = read_requirements(str(tmp_path / "file"))
    assert found == ["numpy==2.1", "torch>=2 ; python_version > '3.10'"]


@pytest.mark.parametrize("line", ["-r other.txt", "--hash=sha256:00", "numpy==2.1 \\"])
def test_what_is_no_package_is_named_by_its_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "file").write_text(f"numpy\n{line}\n")
    with pytest.raises(Invalid, match="line 2 is no package"):
        read_requirements(str(tmp_path / "file"))


@pytest.mark.parametrize(
    ("editor", "says"),
    [
        ("true", "left everything as it was"),
        ("false", "false ended with code 1"),
        ("/no/such/editor", "cannot be started"),
    ],
)
def test_a_text_that_was_not_edited_is_refused(
    monkeypatch: pytest.MonkeyPatch, editor: str, says: str
) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", editor)
    with pytest.raises(Invalid, match=f"--edit: .*{says}"):
        edit_text("--edit", "1", "input.json")
    monkeypatch.setenv("VISUAL", "sed -i s/1/2/")
    assert edit_text("--edit", "1", "input.json") == "2"
