"""Clusters are whole or not there, and of one version."""

from pathlib import Path

import pytest

from holdfast.embedded import EmbeddedPostgres, PostgresUnavailable, binaries

from .users import User, kill_servers, list_servers, query, wait_for

FAST = {"fsync": "off"}
INSTALLED = [binaries.get_binaries(), *sorted(Path("/usr/lib/postgresql").glob("1[5-9]/bin"))]


def assert_starts(folder: Path) -> None:
    with EmbeddedPostgres(folder, settings=FAST) as postgres:
        assert query(postgres.url(), "select count(*) from pg_class") > 0
    assert not (folder / "cluster.new").exists()
    assert list_servers(folder) == []


def test_killed_in_the_middle_of_initdb_the_next_start_begins_anew(folder: Path) -> None:
    with User(folder) as user:
        user.say("start")
        wait_for((folder / "cluster.new" / "base").exists)
        user.kill()
        kill_servers(folder)
    assert not (folder / "cluster").exists()
    assert (folder / "cluster.new").exists()
    assert_starts(folder)


def test_an_initdb_that_lost_its_parent_is_waited_for(folder: Path) -> None:
    with User(folder) as user:
        user.say("start")
        wait_for((folder / "cluster.new" / "base").exists)
        user.kill()
    assert_starts(folder)


def test_a_half_made_cluster_that_looks_whole_is_not_taken(folder: Path) -> None:
    (folder / "cluster.new").mkdir(parents=True)
    (folder / "cluster.new" / "PG_VERSION").write_text("18\n")
    assert_starts(folder)


def test_a_failed_initdb_is_reported_in_its_own_words(folder: Path, tmp_path: Path) -> None:
    broken = tmp_path / "bin"
    broken.mkdir()
    (broken / "postgres").symlink_to(binaries.get_binaries() / "postgres")
    (broken / "initdb").write_text("#!/bin/sh\necho 'no space left on device' >&2\nexit 3\n")
    (broken / "initdb").chmod(0o755)
    with pytest.raises(PostgresUnavailable) as refused:
        EmbeddedPostgres(folder, binaries=broken, settings=FAST).start()
    assert "no space left on device" in refused.value.__notes__[0]
    assert "initdb ended with 3" in str(refused.value)
    assert not (folder / "cluster").exists()
    assert_starts(folder)


def test_a_cluster_of_another_version_is_refused_with_a_remedy(folder: Path) -> None:
    with EmbeddedPostgres(folder, settings=FAST):
        pass
    (folder / "cluster" / "PG_VERSION").write_text("15\n")
    with pytest.raises(PostgresUnavailable) as refused:
        EmbeddedPostgres(folder, settings=FAST).start()
    for word in (str(folder), "PostgreSQL 15", "PostgreSQL 18", "pg_dump", "HOLDFAST_DATA_DIR"):
        assert word in str(refused.value)


@pytest.mark.parametrize("programs", INSTALLED, ids=str)
def test_an_installed_postgres_serves_as_well(folder: Path, programs: Path) -> None:
    with EmbeddedPostgres(folder, binaries=programs, settings=FAST) as postgres:
        postgres.create_database("created")
        version = query(postgres.url("created"), "show server_version_num")
        assert int(version) // 10000 == binaries.get_major_version(programs)


def test_text_is_sorted_alike_on_every_machine(folder: Path) -> None:
    with EmbeddedPostgres(folder, settings=FAST) as postgres:
        assert query(postgres.url(), "show server_encoding") == "UTF8"
        assert query(postgres.url(), "select upper('straße é')") == "STRASSE É".replace("SS", "ß")
        assert query(postgres.url(), "select 'B' < 'a'") is True
