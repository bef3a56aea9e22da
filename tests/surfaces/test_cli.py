"""The command line: its fixed forms, one JSON document each, refusals, wrong usage, and the acts of people it names."""

from __future__ import annotations

import hashlib
import json
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import click
import pytest

from memory_core.admission import KeyText
from memory_core.compose import open_workbench
from memory_core.surfaces.cli import main


def commands(
    group: click.Group, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Give every command that does something, with its words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            if command.invoke_without_command:
                yield (*path, name), command
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS = dict(commands(main))


def an_id(value: str) -> bool:
    return str(UUID(value)) == value


@pytest.fixture
def town(office: Any, shell: Any, finding: Callable[..., Any]) -> dict[str, Any]:
    """A space with two admins and a dossier of two notes; ids by name."""
    other = shell.document("person", "create", "--space", office.space_id, "--name", "Bo", "--role", "admin")
    bench = open_workbench(office.home, {})
    saved = [
        bench.prospects.save(KeyText(office.key), finding(body))[0].note.note_id
        for body in ("Kelva raised 12 million.", "A new plant manager came.")
    ]
    bench.close()
    return {
        "space": office.space_id,
        "source": office.source_id,
        "admin": office.admin_id,
        "second": other["person_id"],
        "outreach": office.owner_id,
        "notes": saved,
        "key": office.key,
    }


def merge(town: Mapping[str, Any], home: Path) -> str:
    """Compact the two notes of the town as its source, and give the merged note's id."""
    bench = open_workbench(home, {})
    fields = {
        "domain": "kelva.dev",
        "note_ids": town["notes"],
        "body": "12 million, and a new plant manager.",
        "expected_note_count": 2,
    }
    merged = bench.prospects.compact(KeyText(town["key"]), fields).note.note_id
    bench.close()
    return merged


# -- help and usage -------------------------------------------------------------------------------


def test_every_fixed_form_of_this_version_is_there() -> None:
    """Those of SPEC.md 11 that the prospect memory needs."""
    fixed = {
        *("init", "demo", "doctor", "export", "mcp", "mcp config"),
        *("space create", "space set", "space destroy", "space list"),
        *("person create", "person disable", "person list", "source create", "source list"),
        *("key create", "key revoke", "key list", "dossier list"),
        *("settings show", "settings propose", "settings approve", "settings reject"),
        *("note show", "note delete", "compaction undo"),
        *("import relationship", "import notes", "embeddings backfill", "embeddings rebuild"),
        *("receipts verify", "receipts head", "eval overlap"),
    }
    assert fixed <= {" ".join(path) for path in COMMANDS}


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_examples(shell: Any, path: tuple[str, ...]) -> None:
    """And reading it makes nothing."""
    shown = shell.run(*path, "--help")
    assert shown.exit_code == 0
    assert "Examples:" in shown.stdout
    assert re.search(rf"memory-core {' '.join(path)}\b", shown.stdout.split("Examples:")[1])
    assert COMMANDS[path].help
    assert not shell.home.exists()


@pytest.mark.parametrize("path", [path for path in COMMANDS if path != ("mcp",)], ids=" ".join)
def test_every_command_but_a_server_takes_json(path: tuple[str, ...]) -> None:
    assert "--json" in {option for each in COMMANDS[path].params for option in each.opts}


@pytest.mark.parametrize(
    "arguments",
    [
        ["no-such-command"],
        ["space"],
        ["space", "create"],
        ["space", "set", "S"],
        ["space", "set", "S", "--outreach", "maybe"],
        ["space", "destroy", "S"],
        ["person", "create", "--space", "S", "--name", "N"],
        ["key", "create"],
        ["key", "create", "--source", "A"],
        ["key", "create", "--source", "A", "--owner", "B", "--person", "C"],
        ["key", "create", "--person", "A", "--owner", "B"],
        ["settings", "propose", "--space", "S", "--reason", "r"],
        ["settings", "propose", "--space", "S", "--reason", "r", "--set", "no equals sign"],
        ["settings", "propose", "--space", "S", "--reason", "r", "--set", "a=1", "--evidence", "absent.json"],
        ["settings", "approve", "C"],
        ["note", "show", "N"],
        ["compaction", "undo", "N"],
        ["import", "notes", "absent.jsonl", "--space", "S"],
        ["receipts", "verify"],
        ["receipts", "verify", "--space", "S", "--file", __file__],
        ["mcp", "--port", "many"],
        ["init", "--surprise"],
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2_and_makes_nothing(shell: Any, arguments: list[str]) -> None:
    done = shell.run(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "Usage:" in done.stderr
    assert not shell.home.exists()


def test_the_version_is_that_of_the_distribution(tmp_path: Path, program: Callable[..., Any]) -> None:
    done = program(tmp_path / "home", ["--version"])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"memory-core, version {version('memory-workbench')}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["space", "list"],
        ["space", "create", "X"],
        ["doctor"],
        ["dossier", "list"],
        ["receipts", "head", "--space", "S"],
        ["embeddings", "backfill"],
        ["export", "--space", "S"],
    ],
    ids=" ".join,
)
def test_a_folder_without_a_workbench_is_refused_and_left_alone(shell: Any, arguments: list[str]) -> None:
    fault = shell.fault(*arguments)
    assert fault["code"] == "unavailable"
    assert "memory-core init" in fault["message"]
    assert not (shell.home / "memory.db").exists()
    spoken = shell.run(*arguments)
    assert (spoken.exit_code, spoken.stdout) == (1, "")
    assert spoken.stderr.startswith("error: ")


# -- init, demo, doctor ---------------------------------------------------------------------------


def test_init_makes_an_owner_only_workbench_and_is_safe_to_repeat(shell: Any) -> None:
    first, key_file = shell.document("init"), shell.home / "master-keys.json"
    kept = key_file.read_bytes()
    assert first == {"home": str(shell.home), "created": True}
    assert shell.document("init") == {"home": str(shell.home), "created": False}
    assert key_file.read_bytes() == kept
    for name in ("master-keys.json", "memory.db"):
        assert stat.S_IMODE((shell.home / name).stat().st_mode) == 0o600
    assert "memory-core space create" in shell.run("init").stdout


def test_case_088_init_refuses_a_database_whose_key_is_gone(shell: Any) -> None:
    """So does every other command, and no new key is made over the old data."""
    shell.document("init")
    (shell.home / "master-keys.json").unlink()
    for arguments in (["init"], ["space", "list"], ["doctor"]):
        fault = shell.fault(*arguments)
        assert fault["code"] == "unavailable"
        assert "master-keys.json" in fault["message"]
    assert not (shell.home / "master-keys.json").exists()


def test_demo_makes_a_space_to_try_everything_on(shell: Any, over_stdio: Callable[..., Any]) -> None:
    made = shell.document("demo")
    assert set(made) >= {"space_id", "key", "client"}
    assert made["dossiers"] >= 5
    assert len(made["people"]) >= 2
    block = made["client"]["mcpServers"]["memory-core"]
    assert (Path(block["command"]).name, block["args"]) == ("memory-core", ["mcp"])
    assert block["env"] == {"MEMORY_CORE_HOME": str(shell.home), "MEMORY_CORE_KEY": made["key"]}
    [proposal] = shell.document("settings", "show", "--space", made["space_id"])["pending"]
    assert proposal["reason"]
    dossiers = shell.document("dossier", "list", "--space", made["space_id"])["dossiers"]
    with over_stdio(shell.home, made["key"]) as agent:
        tool = "outreach_recall_prospect_context"
        recalled = [agent.answer(tool, {"domain": dossier["domain"]}) for dossier in dossiers]
    assert all(each["known"] for each in recalled)
    # There is something of everything to see.
    assert {each["stale"] for each in recalled} == {True, False}
    assert any(each["stop"] for each in recalled)
    assert any(each["overlap_pairs"] for each in recalled)
    assert any(each["compaction_suggested"] for each in recalled)


def test_demo_never_takes_a_space_of_that_name_for_its_own(shell: Any) -> None:
    shell.document("init")
    own = shell.document("space", "create", "Demo")["space_id"]
    made = shell.document("demo")
    assert made["space_id"] != own
    assert shell.document("key", "list", "--space", own)["keys"] == []
    [live] = [
        each
        for each in shell.document("key", "list", "--space", made["space_id"])["keys"]
        if each["source_id"] and not each["revoked_at"]
    ]
    assert live["expires_at"] is not None


def test_a_demo_that_was_interrupted_is_made_anew(shell: Any) -> None:
    first = shell.document("demo")["space_id"]
    (shell.home / "demo.json").unlink()
    again = shell.document("demo")
    assert again["space_id"] != first
    assert again["dossiers"] == 9


def test_a_person_finds_the_notes_of_a_company_by_its_domain(shell: Any, town: dict[str, Any]) -> None:
    shown = shell.document("dossier", "show", "kelva.dev", "--as", town["outreach"])
    assert {each["note_id"] for each in shown["notes"]} == set(town["notes"])
    told = shell.run("dossier", "show", "kelva.dev", "--as", town["outreach"]).stdout
    assert all(note_id in told for note_id in town["notes"])


def test_settings_show_names_defaults_and_an_unknown_name_is_told_the_known_ones(
    shell: Any, town: dict[str, Any]
) -> None:
    shown = shell.document("settings", "show", "--space", town["space"])
    assert shown["defaults"]["stale_after_days"] == 30
    assert shown["defaults"]["overlap.<model>.overlap_at"] == 0.30
    fault = shell.fault("settings", "propose", "--space", town["space"], "--set", "stale=4", "--reason", "r")
    assert "stale_after_days" in fault["message"]


def test_demo_again_gives_a_fresh_key_of_the_same_space(shell: Any) -> None:
    first, second = shell.document("demo"), shell.document("demo")
    assert first["key"] != second["key"]
    first.pop("client"), second.pop("client"), first.pop("key"), second.pop("key")
    assert first == second
    assert len(shell.document("space", "list")["spaces"]) == 1


def test_doctor_names_what_it_checked(shell: Any, town: dict[str, Any]) -> None:
    done = shell.document("doctor")
    assert done["ok"] is True
    names = " ".join(each["check"] for each in done["findings"])
    for part in ("database", "key file", town["space"], "embedding model"):
        assert part in names


def test_doctor_fails_over_an_open_key_file_and_a_missing_model(shell: Any, town: dict[str, Any]) -> None:
    (shell.home / "master-keys.json").chmod(0o644)
    done = shell.run("doctor", "--json", MEMORY_CORE_EMBEDDER="package:no-such-model-here")
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert found["ok"] is False
    failed = {each["check"]: each["problem"] for each in found["findings"] if not each["ok"]}
    assert list(failed) == ["key file", "embedding model"]
    assert failed["key file"].startswith("others can read it: chmod 600")
    told = shell.run("doctor")
    assert told.exit_code == 1
    assert "FAIL key file: others can read it" in told.stdout


# -- spaces, people, sources, keys ----------------------------------------------------------------


def test_a_space_from_creation_to_its_end(shell: Any) -> None:
    shell.document("init")
    made = shell.document("space", "create", "Kelva", "--language", "pt", "--timezone", "America/Sao_Paulo")
    assert list(made) == ["space_id"]
    space_id = made["space_id"]
    assert an_id(space_id)
    [row] = shell.document("space", "list")["spaces"]
    assert row == {
        "space_id": space_id,
        "name": "Kelva",
        "outreach": True,
        "subscription": True,
        "settings_version": 1,
    }
    shown = shell.document("settings", "show", "--space", space_id)
    assert shown["settings"] == {"language": "pt", "timezone": "America/Sao_Paulo"}
    changed = shell.document("space", "set", space_id, "--outreach", "off", "--subscription", "off")
    assert changed == {"space_id": space_id, "outreach": False, "subscription": False}
    assert shell.document("space", "set", space_id, "--outreach", "on")["subscription"] is False
    shell.document("space", "destroy", space_id, "--yes")
    assert shell.fault("settings", "show", "--space", space_id)["code"] == "not_found"


def test_space_list_takes_a_space(shell: Any) -> None:
    shell.document("init")
    ids = [shell.document("space", "create", name)["space_id"] for name in ("One", "Two")]
    assert [row["space_id"] for row in shell.document("space", "list", "--space", ids[1])["spaces"]] == ids[
        1:
    ]
    assert shell.fault("space", "list", "--space", str(uuid4()))["code"] == "not_found"


@pytest.mark.parametrize(
    ("options", "field"), [(["--language", "tlh"], "language"), (["--timezone", "Mars/Olympus"], "timezone")]
)
def test_a_space_refuses_what_it_does_not_know(shell: Any, options: list[str], field: str) -> None:
    shell.document("init")
    fault = shell.fault("space", "create", "Kelva", *options)
    assert (fault["code"], fault["field"]) == ("invalid_input", field)
    assert shell.document("space", "list")["spaces"] == []


def test_a_person_is_created_with_a_key_and_disabled(shell: Any, office: Any) -> None:
    made = shell.document(
        *("person", "create", "--space", office.space_id, "--name", "Cy", "--role", "admin"),
        *("--role", "integration", "--email", "cy@halden.example"),
    )
    assert set(made) == {"person_id", "key"}
    shell.document("person", "disable", made["person_id"])
    [row] = [
        row
        for row in shell.document("person", "list", "--space", office.space_id)["people"]
        if row["person_id"] == made["person_id"]
    ]
    assert (row["roles"], row["disabled"]) == (["admin", "integration"], True)
    fault = shell.fault("note", "show", str(uuid4()), "--as", made["person_id"])
    assert fault["code"] == "unauthenticated"


def test_a_source_and_its_key(shell: Any, office: Any) -> None:
    source = shell.document(
        *("source", "create", "--space", office.space_id, "--name", "Writer", "--vendor", "Kelva"),
        *("--purpose", "drafts", "--purpose", "research"),
    )
    assert list(source) == ["source_id"]
    [row] = [
        row
        for row in shell.document("source", "list", "--space", office.space_id)["sources"]
        if row["source_id"] == source["source_id"]
    ]
    assert (row["vendor"], row["purposes"]) == ("Kelva", ["drafts", "research"])
    key = shell.document(
        *("key", "create", "--source", source["source_id"], "--owner", office.owner_id),
        *("--scope", "outreach_read", "--expires", "2999-01-01T00:00:00Z"),
    )
    assert {"key_id", "key"} <= set(key)
    # Every key of a source holds `context`.
    assert key["scopes"] == ["outreach_read", "context"]
    shell.document("key", "revoke", key["key_id"])
    [row] = [row for row in shell.document("key", "list")["keys"] if row["key_id"] == key["key_id"]]
    assert row["revoked_at"] is not None
    assert row["expires_at"].startswith("2999-01-01")
    assert key["key"] not in shell.run("key", "list").stdout


def test_a_key_of_a_person_alone(shell: Any, office: Any) -> None:
    key = shell.document("key", "create", "--person", office.admin_id)
    [row] = [row for row in shell.document("key", "list")["keys"] if row["key_id"] == key["key_id"]]
    assert (row["source_id"], row["person_id"]) == (None, office.admin_id)


@pytest.mark.parametrize(
    "extra",
    [
        ["--scope", "everything"],
        ["--scope", "outreach_read", "--expires", "tomorrow"],
        ["--scope", "outreach_read", "--expires", "2999-01-01T00:00"],
        ["--scope", "outreach_read", "--expires", "2001-01-01T00:00:00Z"],
    ],
    ids=lambda extra: extra[-1],
)
def test_a_key_is_refused_over_its_scope_or_its_end(shell: Any, office: Any, extra: list[str]) -> None:
    before = shell.document("key", "list")
    fault = shell.fault("key", "create", "--source", office.source_id, "--owner", office.owner_id, *extra)
    assert fault["code"] == "invalid_input"
    assert shell.document("key", "list") == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["person", "disable", "ID"],
        ["key", "revoke", "ID"],
        ["key", "create", "--person", "ID"],
        ["note", "show", "ID", "--as", "PERSON"],
        ["note", "delete", "ID", "--as", "PERSON"],
        ["compaction", "undo", "ID", "--as", "PERSON"],
        ["settings", "approve", "ID", "--as", "ADMIN"],
        ["settings", "reject", "ID", "--as", "ID"],
        ["settings", "show", "--space", "ID"],
        ["space", "set", "ID", "--outreach", "on"],
        ["space", "destroy", "ID", "--yes"],
        ["person", "list", "--space", "ID"],
        ["source", "list", "--space", "ID"],
        ["key", "list", "--space", "ID"],
        ["dossier", "list", "--space", "ID"],
        ["person", "create", "--space", "ID", "--name", "N", "--role", "admin"],
        ["source", "create", "--space", "ID", "--name", "N"],
        ["receipts", "head", "--space", "ID"],
        ["receipts", "verify", "--space", "ID"],
        ["embeddings", "backfill", "--space", "ID"],
        ["embeddings", "rebuild", "--space", "ID"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("unknown", [str(uuid4()), "not an id", "%"], ids=["uuid", "text", "wildcard"])
def test_an_unknown_id_is_not_found(shell: Any, office: Any, arguments: list[str], unknown: str) -> None:
    given = {"ID": unknown, "PERSON": office.owner_id, "ADMIN": office.admin_id}
    assert shell.fault(*(given.get(word, word) for word in arguments))["code"] == "not_found"


def test_mcp_config_is_a_ready_block_with_absolute_paths(shell: Any) -> None:
    block = shell.document("mcp", "config", "--key", "mwk_x")["mcpServers"]["memory-core"]
    assert Path(block["command"]).is_absolute()
    assert Path(block["command"]).exists()
    assert block["args"] == ["mcp"]
    assert block["env"] == {"MEMORY_CORE_HOME": str(shell.home), "MEMORY_CORE_KEY": "mwk_x"}
    # Without --json the block alone is printed, ready to paste.
    assert (
        json.loads(shell.run("mcp", "config", "--key", "mwk_x").stdout)["mcpServers"]["memory-core"] == block
    )


# -- settings -------------------------------------------------------------------------------------


def propose(shell: Any, town: Mapping[str, Any], *assignments: str, by: str | None = "admin") -> str:
    sets = [word for assignment in assignments for word in ("--set", assignment)]
    who = [] if by is None else ["--as", town[by]]
    made = shell.document("settings", "propose", "--space", town["space"], "--reason", "Trial", *sets, *who)
    assert "change_id" in made
    change_id: str = made["change_id"]
    return change_id


def receipts(shell: Any, space_id: str, folder: Path) -> list[dict[str, Any]]:
    shell.document("export", "--space", space_id, "--out", str(folder))
    return [json.loads(line) for line in (folder / "receipts.jsonl").read_text().splitlines()]


def test_a_setting_is_in_force_once_another_admin_approves(
    shell: Any, town: dict[str, Any], tmp_path: Path
) -> None:
    before = shell.document("settings", "show", "--space", town["space"])
    change = propose(shell, town, "stale_after_days=45", "agent_memory.writes=human_only")
    waiting = shell.document("settings", "show", "--space", town["space"])
    assert waiting["settings"] == before["settings"]
    [pending] = waiting["pending"]
    assert pending["diff"] == {"stale_after_days": 45, "agent_memory.writes": "human_only"}

    own = shell.fault("settings", "approve", change, "--as", town["admin"])
    assert (own["code"], own["rule"]) == ("role_missing", "four_eyes")
    done = shell.document("settings", "approve", change, "--as", town["second"])
    assert done == {"change_id": change, "status": "approved"}
    after = shell.document("settings", "show", "--space", town["space"])
    assert (after["version"], after["pending"]) == (before["version"] + 1, [])
    assert after["settings"]["stale_after_days"] == 45
    assert after["policy_digest"] != before["policy_digest"]

    [receipt] = [
        each
        for each in receipts(shell, town["space"], tmp_path / "out")
        if each["operation"] == "approve_settings"
    ]
    assert receipt["actor"] == {"kind": "operator", "person_id": town["second"]}
    assert receipt["facts"]["own_change_of_single_admin"] is False


def test_a_single_admin_approves_an_own_change_and_the_receipt_says_so(
    shell: Any, office: Any, tmp_path: Path
) -> None:
    town = {"space": office.space_id, "admin": office.admin_id}
    change = propose(shell, town, "stale_after_days=45")
    shell.document("settings", "approve", change, "--as", office.admin_id)
    [receipt] = [
        each
        for each in receipts(shell, office.space_id, tmp_path / "out")
        if each["operation"] == "approve_settings"
    ]
    assert receipt["facts"]["own_change_of_single_admin"] is True
    assert receipt["actor"]["kind"] == "operator"


def test_only_an_admin_decides(shell: Any, town: dict[str, Any]) -> None:
    change = propose(shell, town, "stale_after_days=45", by=None)
    for verb in ("approve", "reject"):
        assert shell.fault("settings", verb, change, "--as", town["outreach"])["code"] == "role_missing"
    assert shell.document("settings", "approve", change, "--as", town["admin"])["status"] == "approved"


def test_a_rejected_change_is_never_in_force(shell: Any, town: dict[str, Any]) -> None:
    change = propose(shell, town, "stale_after_days=45")
    reason = ("--reason", "Too few labels")
    assert (
        shell.document("settings", "reject", change, "--as", town["second"], *reason)["status"] == "rejected"
    )
    fault = shell.fault("settings", "approve", change, "--as", town["second"])
    assert (fault["code"], fault["status"]) == ("already_decided", "rejected")
    assert "stale_after_days" not in shell.document("settings", "show", "--space", town["space"])["settings"]


def test_a_change_against_an_older_version_is_outdated(shell: Any, town: dict[str, Any]) -> None:
    first, second = propose(shell, town, "stale_after_days=45"), propose(shell, town, "stale_after_days=60")
    shell.document("settings", "approve", first, "--as", town["second"])
    fault = shell.fault("settings", "approve", second, "--as", town["second"])
    assert (fault["code"], fault["base_version"], fault["settings_version"]) == ("outdated", 1, 2)
    shown = shell.document("settings", "show", "--space", town["space"])
    assert shown["settings"]["stale_after_days"] == 45
    assert [each["change_id"] for each in shown["pending"]] == [second]


def test_a_threshold_needs_a_report_and_keeps_its_figures(
    shell: Any, town: dict[str, Any], tmp_path: Path
) -> None:
    propose_threshold = [
        *("settings", "propose", "--space", town["space"], "--reason", "Best F1 on our pairs"),
        *("--set", "overlap.use-multilingual-v3.overlap_at=0.34"),
    ]
    fault = shell.fault(*propose_threshold)
    assert (fault["code"], fault["field"], fault["rule"]) == ("invalid_input", "evidence", "required")
    report = tmp_path / "overlap.json"
    for content in ("not json", "[]", '{"kind": "overlap"}'):
        report.write_text(content)
        assert shell.fault(*propose_threshold, "--evidence", str(report))["field"] == "evidence"

    figure = {"name": "best_f1", "slice": "all", "value": 0.91, "low": 0.88, "high": 0.94, "n": 400}
    content = json.dumps(
        {
            "kind": "overlap",
            "model": "use-multilingual-v3",
            "figures": [figure, {**figure, "slice": "lang=de"}],
            "pairs": [{"a": "PLANTED text of a pair"}],
        }
    )
    report.write_text(content)
    made = shell.document(*propose_threshold, "--evidence", str(report))
    [pending] = shell.document("settings", "show", "--space", town["space"])["pending"]
    assert pending["change_id"] == made["change_id"]
    assert pending["evidence"]["figures"] == [figure]
    assert pending["evidence"]["report_sha256"] == hashlib.sha256(content.encode()).hexdigest()
    assert "PLANTED" not in json.dumps(pending)


@pytest.mark.parametrize(
    ("assignment", "rule"),
    [
        ("max_body_bytes=99", "setting_name"),
        ("stale_after_days=0", "setting_value"),
        ('stale_after_days="45"', "setting_value"),
        ("timezone=Mars/Olympus", "setting_value"),
        ("agent_memory.enabled=yes", "setting_value"),
        ("language=en", "no_change"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_when_proposed(
    shell: Any, town: dict[str, Any], assignment: str, rule: str
) -> None:
    fault = shell.fault(
        "settings", "propose", "--space", town["space"], "--reason", "Trial", "--set", assignment
    )
    assert (fault["code"], fault["rule"]) == ("invalid_input", rule)
    assert shell.document("settings", "show", "--space", town["space"])["pending"] == []


# -- notes ----------------------------------------------------------------------------------------


def test_a_note_is_shown_and_deleted_by_a_person(shell: Any, town: dict[str, Any]) -> None:
    note, left = town["notes"]
    shown = shell.document("note", "show", note, "--as", town["admin"])
    assert (shown["note_id"], shown["body"]) == (note, "Kelva raised 12 million.")
    [dossier] = shell.document("dossier", "list", "--space", town["space"])["dossiers"]
    assert (dossier["domain"], dossier["note_count"]) == ("kelva.dev", 2)
    assert shell.document("note", "delete", note, "--as", town["outreach"]) == {"deleted": [note]}
    assert shell.fault("note", "show", note, "--as", town["admin"])["code"] == "not_found"
    assert shell.document("dossier", "list")["dossiers"][0]["note_count"] == 1
    assert shell.document("note", "show", left, "--as", town["outreach"])["note_id"] == left


def test_a_person_without_the_role_deletes_and_undoes_nothing(shell: Any, town: dict[str, Any]) -> None:
    reader = shell.document(
        "person", "create", "--space", town["space"], "--name", "Di", "--role", "integration"
    )["person_id"]
    merged = merge(town, shell.home)
    assert shell.document("note", "show", merged, "--as", reader)["note_id"] == merged
    for words in (["note", "delete"], ["compaction", "undo"]):
        assert shell.fault(*words, merged, "--as", reader)["code"] == "role_missing"


def test_a_person_of_another_space_does_not_find_the_note(
    shell: Any, town: dict[str, Any], make_office: Callable[..., Any]
) -> None:
    stranger = make_office(shell.home, "Other").admin_id
    absent = shell.fault("note", "show", str(uuid4()), "--as", stranger)
    for words in (["note", "show"], ["note", "delete"]):
        assert shell.fault(*words, town["notes"][0], "--as", stranger) == absent


def test_a_compaction_is_undone_whole(shell: Any, town: dict[str, Any]) -> None:
    before = [shell.document("note", "show", note, "--as", town["admin"]) for note in town["notes"]]
    merged = merge(town, shell.home)
    archived = shell.document("note", "show", town["notes"][0], "--as", town["admin"])
    assert (archived["status"], archived["merged_into"]) == ("archived", merged)
    undone = shell.document("compaction", "undo", merged, "--as", town["admin"])
    assert undone == {
        "note_id": merged,
        "restored": town["notes"],
        "deleted_since": [],
        "note_count": 2,
    }
    assert [shell.document("note", "show", note, "--as", town["admin"]) for note in town["notes"]] == before
    assert shell.fault("compaction", "undo", merged, "--as", town["admin"])["code"] == "conflict"


def test_deleting_a_merged_note_can_take_its_originals_too(shell: Any, town: dict[str, Any]) -> None:
    merged = merge(town, shell.home)
    done = shell.document("note", "delete", merged, "--as", town["admin"], "--with-originals")
    assert sorted(done["deleted"]) == sorted([merged, *town["notes"]])


# -- imports, exports, embeddings -----------------------------------------------------------------

HISTORY = """\
kind,at,domain,address,campaign,language,sentiment,scope,cause
campaign,2026-01-05T09:00:00Z,kelva.dev,,Spring,en,,,
message,2026-01-06T09:00:00Z,,jo@kelva.dev,Spring,,,,
reply,2026-01-07T09:00:00Z,,jo@kelva.dev,,,delighted,,
suppression,2026-01-08T09:00:00Z,,jo@kelva.dev,,,,address,asked
message,yesterday,,jo@kelva.dev,Spring,,,,
"""


def test_case_013_importing_again_changes_nothing(shell: Any, town: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "history.csv"
    file.write_text(HISTORY)
    words = ("import", "relationship", str(file), "--space", town["space"])
    first, second = shell.document(*words), shell.document(*words)
    assert set(first) == {"rows", "written", "repeated", "refused", "notices"}
    assert (first["rows"], first["written"], first["repeated"]) == (5, 4, 0)
    assert (second["rows"], second["written"], second["repeated"]) == (5, 0, 4)
    [refused] = first["refused"]
    assert (refused["line"], refused["code"], refused["field"]) == (6, "invalid_input", "at")
    [notice] = first["notices"]
    assert (notice["line"], notice["field"], notice["rule"]) == (4, "sentiment", "unknown_sentiment")
    assert "delighted" not in json.dumps(first)


def test_an_import_tells_a_person_what_was_done(shell: Any, town: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "history.csv"
    file.write_text(
        HISTORY + "reply,2026-01-09T09:00:00Z,kelva.dev,,,,,,\nmessage,2026-01-09,kelva.dev,,S,,,domain,\n"
    )
    done = shell.run("import", "relationship", str(file), "--space", town["space"])
    assert done.exit_code == 0
    known = "(known: positive, interested, neutral, negative, out_of_office, bounce)"
    lines = done.stdout.splitlines()
    assert lines[:4] == ["rows 7", "written 6", "repeated 0", "refused 1"]
    assert re.fullmatch(r"refused line 6: at: .+ \(invalid_input\)", lines[4])
    assert lines[5:] == [
        f"notice line 4: sentiment is unknown, read as neutral {known}",
        f"notice line 7: sentiment is missing, read as neutral {known}",
        "notice line 8: scope does not belong to this kind, left out",
    ]


@pytest.mark.parametrize("over", [0, 3])
def test_an_import_prints_the_first_twenty_refusals_and_notices(
    shell: Any, town: dict[str, Any], tmp_path: Path, over: int
) -> None:
    count = 20 + over
    file = tmp_path / "history.csv"
    replies = [f"reply,2026-01-07T09:00:{second:02}Z,kelva.dev" for second in range(count)]
    file.write_text("\n".join(["kind,at,domain", *replies, *["reply,yesterday,kelva.dev"] * count]))
    lines = shell.run("import", "relationship", str(file), "--space", town["space"]).stdout.splitlines()
    more = [f"... and {over} more (--json lists all)"] if over else []
    assert [" ".join(line.split()[:2]) for line in lines[4:24]] == ["refused line"] * 20
    assert lines[24 : 24 + len(more)] == more
    rest = lines[24 + len(more) :]
    assert [" ".join(line.split()[:2]) for line in rest[:20]] == ["notice line"] * 20
    assert rest[20:] == more


def test_an_import_of_which_nothing_was_accepted_exits_with_1(
    shell: Any, town: dict[str, Any], tmp_path: Path
) -> None:
    refused, empty = tmp_path / "refused.csv", tmp_path / "empty.csv"
    empty.write_text("kind,at,domain\n")
    refused.write_text(empty.read_text() + "reply,yesterday,kelva.dev\n" * 2)
    words = ("--space", town["space"])
    plain = shell.run("import", "relationship", str(refused), *words)
    assert plain.exit_code == 1
    assert plain.stdout.splitlines()[:4] == ["rows 2", "written 0", "repeated 0", "refused 2"]
    listed = shell.run("import", "relationship", str(refused), *words, "--json")
    assert listed.exit_code == 1
    document = json.loads(listed.stdout)
    assert [each["line"] for each in document.pop("refused")] == [2, 3]
    assert document == {"rows": 2, "written": 0, "repeated": 0, "notices": []}
    assert shell.document("import", "relationship", str(empty), *words)["rows"] == 0


def test_an_export_of_one_source_holds_its_notes_alone(
    shell: Any, town: dict[str, Any], tmp_path: Path
) -> None:
    space = ["--space", town["space"]]
    other = shell.document("source", "create", *space, "--name", "Other")["source_id"]
    for source, notes in ((town["source"], 2), (other, 0)):
        out = tmp_path / source
        done = shell.document("export", *space, "--source", source, "--out", str(out))
        assert done["rows"] == {"prospect_notes": notes}
        assert [path.name for path in out.iterdir()] == ["prospect_notes.jsonl"]
        assert (out / "prospect_notes.jsonl").stat().st_mode & 0o077 == 0
    assert shell.fault("export", *space, "--source", town["admin"])["code"] == "not_found"


def test_an_export_that_cannot_be_written_is_refused(
    shell: Any, town: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    fault = shell.fault("export", "--space", town["space"], "--out", str(tmp_path / "file" / "out"))
    assert fault["code"] == "unavailable"


def test_an_export_restores_into_another_space_and_only_once(
    shell: Any, town: dict[str, Any], tmp_path: Path
) -> None:
    """Case 31 on the command line: archived notes and their pointers too, in a workbench of its own."""
    merged = merge(town, shell.home)
    out = tmp_path / "out"
    done = shell.document("export", "--space", town["space"], "--out", str(out))
    assert done["rows"]["prospect_notes"] == 3
    exported = [json.loads(line) for line in (out / "prospect_notes.jsonl").read_text().splitlines()]
    assert {row["note_id"] for row in exported} == {merged, *town["notes"]}
    assert not any("embedding" in row for row in exported)

    copy = type(shell)(tmp_path / "copy")
    copy.document("init")
    space_id = copy.document("space", "create", "Copy")["space_id"]
    words = ("import", "notes", str(out / "prospect_notes.jsonl"), "--space", space_id)
    assert copy.document(*words)["written"] == 3
    again = copy.document(*words)
    assert (again["written"], again["repeated"], again["refused"]) == (0, 3, [])
    back = tmp_path / "back"
    copy.document("export", "--space", space_id, "--out", str(back))
    assert (back / "prospect_notes.jsonl").read_bytes() == (out / "prospect_notes.jsonl").read_bytes()


def test_case_082_what_was_erased_is_listed_and_not_brought_back(
    shell: Any, town: dict[str, Any], tmp_path: Path
) -> None:
    note = town["notes"][0]
    shell.document("export", "--space", town["space"], "--out", str(tmp_path))
    shell.document("note", "delete", note, "--as", town["admin"])
    done = shell.document("import", "notes", str(tmp_path / "prospect_notes.jsonl"), "--space", town["space"])
    assert (done["written"], done["repeated"]) == (0, 1)
    assert [row["note_id"] for row in done["refused"]] == [note]
    assert shell.fault("note", "show", note, "--as", town["admin"])["code"] == "not_found"


def test_embeddings_come_back_to_what_was_saved_without_a_model(
    shell: Any, office: Any, finding: Callable[..., Any]
) -> None:
    missing = {"MEMORY_CORE_EMBEDDER": "package:no-such-model-here"}
    bench = open_workbench(office.home, missing)
    saved, _ = bench.prospects.save(KeyText(office.key), finding())
    bench.close()
    assert saved.overlap.embedder == "unavailable"
    assert shell.fault("embeddings", "backfill", **missing)["code"] == "unavailable"
    for embedded in (1, 0):
        done = shell.document("embeddings", "backfill", "--space", office.space_id)
        assert done == {"model": "use-multilingual-v3", "embedded": {office.space_id: embedded}}
    assert shell.document("embeddings", "rebuild")["embedded"] == {office.space_id: 0}


# -- receipts -------------------------------------------------------------------------------------


def test_a_chain_is_verified_from_the_database_and_from_a_file(
    shell: Any, town: dict[str, Any], tmp_path: Path
) -> None:
    head = shell.document("receipts", "head", "--space", town["space"])
    assert set(head) == {"seq", "head"}
    verdict = shell.document("receipts", "verify", "--space", town["space"])
    assert (verdict["ok"], verdict["receipts"], verdict["head"]) == (True, head["seq"], head["head"])
    shell.document("export", "--space", town["space"], "--out", str(tmp_path))
    file = str(tmp_path / "receipts.jsonl")
    elsewhere = type(shell)(tmp_path / "no-workbench")
    verdict = elsewhere.document("receipts", "verify", "--file", file, "--head", head["head"])
    assert (verdict["ok"], verdict["broken_seq"]) == (True, None)
    assert not elsewhere.home.exists()


@pytest.mark.parametrize(
    ("harm", "broken"),
    [
        ("altered", 3),
        ("removed", 3),
        ("inserted", 4),
        ("reordered", 3),
        ("no receipt", 3),
        ("cut", None),
    ],
)
def test_a_harmed_chain_is_named_and_exits_with_1(
    shell: Any, town: dict[str, Any], tmp_path: Path, harm: str, broken: int | None
) -> None:
    shell.document("export", "--space", town["space"], "--out", str(tmp_path))
    file = tmp_path / "receipts.jsonl"
    lines = file.read_text().splitlines()
    head = json.loads(lines[-1])["hash"]
    third = json.loads(lines[2])
    lines = {
        "altered": [*lines[:2], json.dumps({**third, "operation": "recall"}), *lines[3:]],
        "removed": [*lines[:2], *lines[3:]],
        "inserted": [*lines[:3], lines[2], *lines[3:]],
        "reordered": [*lines[:2], lines[3], lines[2], *lines[4:]],
        "no receipt": [*lines[:2], "[]", *lines[3:]],
        "cut": lines[:-1],
    }[harm]
    file.write_text("\n".join(lines) + "\n")
    done = shell.run("receipts", "verify", "--file", str(file), "--head", head, "--json")
    verdict = json.loads(done.stdout)
    assert (done.exit_code, verdict["ok"]) == (1, False)
    assert verdict["broken_seq"] == (broken or len(lines) + 1)
    spoken = shell.run("receipts", "verify", "--file", str(file), "--head", head)
    assert (spoken.exit_code, spoken.stdout) == (1, "")
    assert f"BROKEN at receipt {verdict['broken_seq']}" in spoken.stderr


def test_the_same_document_comes_from_the_installed_program(
    shell: Any, town: dict[str, Any], program: Callable[..., Any]
) -> None:
    """One JSON document on stdout and nothing else, in a process of its own; no bar where there is no terminal."""
    for arguments in (
        ["space", "list"],
        ["settings", "show", "--space", town["space"]],
        ["embeddings", "backfill"],
    ):
        done = program(shell.home, [*arguments, "--json"])
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout) == shell.document(*arguments)
    refused = program(shell.home, ["note", "show", str(uuid4()), "--as", town["admin"], "--json"])
    assert (refused.returncode, refused.stderr) == (1, "")
    assert json.loads(refused.stdout)["code"] == "not_found"
    assert program(shell.home, ["space", "set", town["space"]]).returncode == 2
