"""Starting, sharing, losing and stopping an embedded Postgres."""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import asyncpg
import psutil
import pytest

from holdfast.embedded import EmbeddedPostgres, PostgresUnavailable
from holdfast.embedded.locks import exclusive
from tests.killing import kill_and_see_gone

from .users import User, kill_servers, list_servers, query, wait_for

FAST = {"fsync": "off"}


def test_first_start_makes_a_server_that_answers_on_a_socket_and_on_nothing_else(
    folder: Path,
) -> None:
    with EmbeddedPostgres(folder, settings=FAST) as postgres:
        assert query(postgres.url(), "select current_user") == "postgres"
        assert query(postgres.url(), "show listen_addresses") == ""
        assert psutil.Process(postgres.pid).net_connections("inet") == []
        assert (folder / "socket").stat().st_mode & 0o777 == 0o700
        assert (folder / "socket" / ".s.PGSQL.5432").stat().st_mode & 0o777 == 0o700


def test_rows_outlive_a_stop(folder: Path) -> None:
    with EmbeddedPostgres(folder) as postgres:
        query(postgres.url(), "create table kept as select 42 as answer")
        assert query(postgres.url(), "show fsync") == "on"
    assert list_servers(folder) == []
    with EmbeddedPostgres(folder) as postgres:
        assert query(postgres.url(), "select answer from kept") == 42


def test_the_first_to_leave_does_not_stop_the_second_but_the_last_does(folder: Path) -> None:
    with User(folder) as first, User(folder) as second:
        pid = first.ask("start")
        assert second.ask("start") == pid
        first.ask("stop")
        assert query(second.ask("url"), "select 1") == 1
        second.ask("stop")
        assert list_servers(folder) == []
        assert list((folder / "socket").iterdir()) == []
        wait_for(lambda: not psutil.pid_exists(pid))


def test_two_in_one_process_count_as_two(folder: Path) -> None:
    with EmbeddedPostgres(folder, settings=FAST) as first:
        with EmbeddedPostgres(folder) as second:
            assert second.pid == first.pid
        assert query(first.url(), "select 1") == 1


def test_two_that_start_at_once_on_an_empty_folder_get_one_server(folder: Path) -> None:
    with User(folder) as first, User(folder) as second:
        first.say("start")
        second.say("start")
        assert first.hear() == second.hear()
        assert query(first.ask("url"), "select 1") == 1


def test_coming_and_going_never_takes_the_server_from_anyone(folder: Path) -> None:
    def come_and_go(_: int) -> None:
        with User(folder) as user:
            for _ in range(4):
                user.ask("start")
                assert query(user.ask("url"), "select 1") == 1
                user.ask("stop")

    with ThreadPoolExecutor(3) as crowd:
        list(crowd.map(come_and_go, range(3)))
    assert list_servers(folder) == []


def test_a_killed_server_is_replaced_and_what_it_acknowledged_is_there(folder: Path) -> None:
    postgres = EmbeddedPostgres(folder)
    postgres.start()
    query(postgres.url(), "create table kept as select 42 as answer")
    killed = postgres.pid
    kill_servers(folder)
    with pytest.raises(PostgresUnavailable, match="does not run"):
        _ = postgres.pid
    postgres.start()
    assert postgres.pid != killed
    assert query(postgres.url(), "select answer from kept") == 42
    postgres.stop()
    assert list_servers(folder) == []


def test_a_killed_server_can_be_left(folder: Path) -> None:
    with EmbeddedPostgres(folder, settings=FAST):
        kill_servers(folder)
    assert list_servers(folder) == []


def test_a_server_that_answers_nobody_is_not_joined(folder: Path) -> None:
    """As one between `kill -9` and its end, which has its locks, its socket and its files."""
    postgres = EmbeddedPostgres(folder, settings=FAST)
    postgres.start()
    dying = [psutil.Process(postgres.pid), *psutil.Process(postgres.pid).children()]
    try:
        for process in dying:
            process.suspend()
        hasty = EmbeddedPostgres(folder, settings=FAST, start_timeout=timedelta(0))
        with pytest.raises(PostgresUnavailable, match="still starting"):
            hasty.start()
    finally:
        kill_and_see_gone(*(process.pid for process in dying))
    postgres.start()
    assert postgres.pid != dying[0].pid
    assert query(postgres.url(), "select 1") == 1
    postgres.stop()


def test_a_killed_server_is_started_again_without_waiting_for_its_end(folder: Path) -> None:
    postgres = EmbeddedPostgres(folder, settings=FAST)
    postgres.start()
    for _ in range(5):
        killed = postgres.pid
        for process in (psutil.Process(killed), *psutil.Process(killed).children()):
            process.kill()
        postgres.start()
        assert postgres.pid != killed
        assert query(postgres.url(), "select 1") == 1
    postgres.stop()


def test_a_killed_postmaster_is_replaced_though_a_child_computes_on(folder: Path) -> None:
    async def compute(url: str) -> None:
        connection = await asyncpg.connect(url)
        with pytest.raises((asyncpg.PostgresError, OSError)):
            await connection.execute("do $$ begin loop null; end loop; end $$")

    with EmbeddedPostgres(folder, settings=FAST) as postgres:
        url, killed = postgres.url(), postgres.pid
        with ThreadPoolExecutor(1) as beside:
            computing = beside.submit(asyncio.run, compute(url))
            busy = "select count(*) from pg_stat_activity where query like 'do %'"
            wait_for(lambda: query(url, busy) == 1)
            kill_and_see_gone(killed)
            postgres.start()
            computing.result()
        assert postgres.pid != killed
        assert query(postgres.url(), "select 1") == 1


def test_the_server_of_a_killed_user_is_joined_and_then_stopped(folder: Path) -> None:
    with User(folder) as user:
        pid = user.ask("start")
        user.kill()
        with EmbeddedPostgres(folder) as postgres:
            assert postgres.pid == pid
            assert query(postgres.url(), "select 1") == 1
        assert list_servers(folder) == []


def test_a_user_killed_while_starting_does_no_harm(folder: Path) -> None:
    with EmbeddedPostgres(folder, settings=FAST):
        pass
    with User(folder) as user:
        user.say("start")
        wait_for(lambda: list_servers(folder) != [])
        user.kill()
    with EmbeddedPostgres(folder, settings=FAST) as postgres:
        assert query(postgres.url(), "select 1") == 1
    assert list_servers(folder) == []


def test_ctrl_c_while_starting_leaves_no_process(folder: Path) -> None:
    with User(folder) as user:
        user.say("start")
        wait_for((folder / "transition.lock").exists)
        wait_for(lambda: list_servers(folder) != [])
        user.interrupt()
    wait_for(lambda: list_servers(folder) == [])


def test_a_terminal_signal_to_the_user_does_not_reach_the_server(folder: Path) -> None:
    with User(folder, start_new_session=True) as user:
        pid = user.ask("start")
        assert os.getsid(pid) == pid


def test_settings_hold_for_the_starter_and_are_not_kept(folder: Path) -> None:
    with EmbeddedPostgres(folder, settings=FAST | {"work_mem": "7MB"}) as postgres:
        assert query(postgres.url(), "show work_mem") == "7MB"
    with EmbeddedPostgres(folder, settings=FAST) as postgres:
        assert query(postgres.url(), "show work_mem") == "4MB"
        assert query(postgres.url(), "show max_connections") == "200"
        assert query(postgres.url(), "show shared_buffers") == "128MB"


def test_settings_that_would_hide_the_server_are_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="port"):
        EmbeddedPostgres(folder, settings={"port": "1"})


def test_a_server_that_cannot_start_is_reported_in_its_own_words(folder: Path) -> None:
    with pytest.raises(PostgresUnavailable) as refused:
        EmbeddedPostgres(folder, settings=FAST | {"no_such_setting": "1"}).start()
    assert 'unrecognized configuration parameter "no_such_setting"' in refused.value.log_tail
    assert str(folder / "postgres.log") in str(refused.value)
    assert list_servers(folder) == []


def test_a_start_that_takes_too_long_leaves_the_server_to_the_next_one(folder: Path) -> None:
    with EmbeddedPostgres(folder, settings=FAST):
        pass
    slow = FAST | {"pre_auth_delay": "3"}  # longer than the least that a start waits for an answer
    hasty = EmbeddedPostgres(folder, settings=slow, start_timeout=timedelta(0))
    with pytest.raises(PostgresUnavailable, match="still starting"):
        hasty.start()
    with EmbeddedPostgres(folder, settings=FAST) as postgres:
        assert query(postgres.url(), "select 1") == 1
    assert list_servers(folder) == []


def test_a_start_does_not_wait_for_ever_on_another(folder: Path) -> None:
    folder.mkdir()
    postgres = EmbeddedPostgres(folder, start_timeout=timedelta(seconds=0.05))
    with (
        exclusive(folder / "transition.lock", 0),
        pytest.raises(PostgresUnavailable, match="Another process has been starting"),
    ):
        postgres.start()


def test_stopping_twice_or_before_the_start_is_nothing(folder: Path) -> None:
    postgres = EmbeddedPostgres(folder, settings=FAST)
    postgres.stop()
    postgres.start()
    postgres.stop()
    postgres.stop()
    assert list_servers(folder) == []


def test_environment_variables_of_postgres_change_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"PGPORT": "1", "PGSSLMODE": "require", "PGDATA": "/x"}.items():
        monkeypatch.setenv(name, value)
    with EmbeddedPostgres(folder, settings=FAST) as postgres:
        postgres.create_database("created")
        assert query(postgres.url("created"), "select current_database()") == "created"


def test_databases_are_created_once_whatever_their_name(folder: Path) -> None:
    name = 'it\'s a "näme" /?&%41'
    with EmbeddedPostgres(folder, settings=FAST) as postgres, User(folder) as other:
        other.ask("start")
        other.say("create")
        postgres.create_database("created")
        assert "error" not in other.hear()
        for _ in range(2):
            postgres.create_database(name)
        assert query(postgres.url(name), "select current_database()") == name


def test_a_path_of_odd_characters_works(folder: Path) -> None:
    with EmbeddedPostgres(folder / "a \"b\", 'c' ?&%41 ü", settings=FAST) as postgres:
        assert query(postgres.url(), "select 1") == 1


def test_a_long_path_gets_a_short_socket_that_others_find(folder: Path) -> None:
    deep = folder / ("long" * 20) / ("path" * 20)
    with EmbeddedPostgres(deep, settings=FAST) as postgres:
        assert query(postgres.url(), "select 1") == 1
        with User(deep) as other:
            other.ask("start")
            assert other.ask("url") == postgres.url()
        short = Path(query(postgres.url(), "show unix_socket_directories"))
        assert short.stat().st_mode & 0o777 == 0o700
        kill_servers(deep)
        postgres.start()
        assert query(postgres.url(), "select 1") == 1
    assert not short.exists()
