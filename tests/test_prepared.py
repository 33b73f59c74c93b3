"""A prepared cluster is begun with, and stays as it is."""

from pathlib import Path

import psycopg
import pytest

from tests.databases import TEMPLATE
from tests.prepared import VARIABLE, prepared_cluster, running_cluster


def test_each_run_begins_with_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with prepared_cluster() as folder:
        monkeypatch.setenv(VARIABLE, str(folder))
        with (
            running_cluster(tmp_path / "a") as postgres,
            psycopg.connect(postgres.url(TEMPLATE)) as connection,
        ):
            connection.execute("create table public.left_behind ()")
        with (
            running_cluster(tmp_path / "b") as postgres,
            psycopg.connect(postgres.url(TEMPLATE)) as connection,
        ):
            query = "select to_regclass('holdfast.jobs'), to_regclass('public.left_behind')"
            assert connection.execute(query).fetchone() == ("holdfast.jobs", None)
