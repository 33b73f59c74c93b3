"""Log records as lines: level, logger, message; set up only where nobody has done so."""

import logging

import pytest

from holdfast.worker.running.record_lines import RecordLines, set_up_records


def a_record(name: str, text: str, *args: object) -> logging.LogRecord:
    return logging.LogRecord(name, logging.WARNING, "file", 1, text, args, None)


def test_a_record_is_a_line_with_its_level_and_logger() -> None:
    lines = RecordLines()
    assert lines.format(a_record("shop.stock", "%d left", 3)) == "WARNING shop.stock: 3 left"
    assert lines.format(a_record("holdfast.task", "done")) == "WARNING task: done"


def test_what_somebody_has_set_up_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    root = logging.getLogger()
    theirs = logging.NullHandler()
    monkeypatch.setattr(root, "handlers", [theirs])
    monkeypatch.setattr(root, "level", logging.ERROR)
    set_up_records()
    assert (root.handlers, root.level) == ([theirs], logging.ERROR)
    monkeypatch.setattr(root, "handlers", [])
    set_up_records()
    assert [type(handler.formatter) for handler in root.handlers] == [RecordLines]
    assert root.level == logging.INFO
