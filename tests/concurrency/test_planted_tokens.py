"""A token planted wherever a caller can put text is in no file of the workbench and on no line of stderr."""

from __future__ import annotations

import base64
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memory_core.embedding import open_embedder
from memory_core.home import DATABASE, KEY_FILE
from tests.bench import Client

PROGRAM = str(Path(sys.executable).with_name("memory-core"))
SAVE, RECALL = "outreach_save_prospect_research", "outreach_recall_prospect_context"
COMPACT = "outreach_compact_prospect_context"


def token(place: str) -> str:
    return f"sktestFAKE0123456789{place}".lower()


BODY = f"Dorothea said that the key {token('body')} opens the staging plant of the company."
MERGED = f"Both findings, with the key {token('merged')} kept in the text of one."
DELETED = f"This finding holds {token('deleted')} and a person deletes it afterwards."
PLACES = (
    *("body", "title", "urlpath", "urlquery", "domain", "merged", "mergedtitle", "deleted", "focus", "idem"),
    *("control", "large", "ftp", "credentials", "date", "unknown", "tool", "language", "person", "reason"),
)


def finding(body: str, **fields: Any) -> dict[str, Any]:
    return {
        "domain": f"{token('domain')}.example",
        "title": f"About {token('title')}",
        "body": body,
        "source_urls": [f"https://news.example/{token('urlpath')}?q={token('urlquery')}"],
        "observed_at": "2026-11-10",
        "idempotency_key": f"{token('idem')}-{len(body)}",
        **fields,
    }


class Home:
    """A workbench that is used from outside alone, by processes whose stderr is kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.errors = folder.with_name("stderr.log")
        self.environ = {"MEMORY_CORE_HOME": str(folder)}

    def run(self, *arguments: str, refused: bool = False) -> dict[str, Any]:
        with self.errors.open("ab") as errors:
            ran = subprocess.run(
                [PROGRAM, *arguments, "--json"],
                env={**os.environ, **self.environ},
                stdout=subprocess.PIPE,
                stderr=errors,
                check=False,
            )
        assert ran.returncode == (1 if refused else 0), ran.stdout
        return dict(json.loads(ran.stdout))

    def files(self) -> dict[str, bytes]:
        """Give every file under the folder, and what the processes wrote to stderr. No process has them open."""
        found = {path.name: path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}
        return {**found, "stderr": self.errors.read_bytes()}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Let an agent, an operator and a person do all they can with the tokens; give the files of several moments."""
    home = Home(tmp_path_factory.mktemp("planted") / "home")
    moments: dict[str, dict[str, bytes]] = {}
    home.run("init")
    space = home.run("space", "create", "Halden")["space_id"]
    olu = home.run(
        *("person", "create", "--space", space, "--name", token("person")),
        *("--role", "admin", "--role", "outreach_admin", "--email", f"{token('person')}@kelva.example"),
    )
    source = home.run("source", "create", "--space", space, "--name", "Scout")["source_id"]
    scopes = ("--scope", "outreach_read", "--scope", "outreach_write")
    key = home.run("key", "create", "--source", source, "--owner", olu["person_id"], *scopes)["key"]
    home.run(
        *("settings", "propose", "--space", space, "--set", "stale_after_days=45"),
        *("--reason", token("reason"), "--as", olu["person_id"]),
    )
    environ = {**home.environ, "MEMORY_CORE_KEY": key}
    ids = {}
    with home.errors.open("ab") as errors, Client([PROGRAM, "mcp"], environ, errors) as client:
        client.connect()

        def call(tool: str, arguments: dict[str, Any]) -> Any:
            return json.loads(client.call(tool, arguments)["content"][0]["text"])["data"]

        def refuse(tool: str, arguments: dict[str, Any], code: str) -> None:
            answer = client.ask("tools/call", {"name": tool, "arguments": arguments})
            assert (answer["isError"], json.loads(answer["content"][0]["text"])["code"]) == (True, code)
            assert token("") not in json.dumps(answer).lower()

        for body in (BODY, DELETED, "A second finding.", "A third finding."):
            saved = call(SAVE, finding(body))
            assert saved["overlap"]["embedder"] == "ok"
            ids[body] = saved["note"]["note_id"]
        assert call(SAVE, finding(BODY))["repeated"]
        domain = f"{token('domain')}.example"
        recalled = call(RECALL, {"domain": domain, "focus": token("focus")})
        assert recalled["note_count"] == 4
        refuse(SAVE, finding(f"{token('control')}\x00"), "invalid_input")
        refuse(SAVE, finding(f"{token('large')} " * 1_000), "payload_too_large")
        refuse(SAVE, finding("Text.", source_urls=[f"ftp://{token('ftp')}.example/"]), "invalid_input")
        refuse(
            SAVE,
            finding("Text.", source_urls=[f"https://a:{token('credentials')}@b.example/"]),
            "invalid_input",
        )
        refuse(SAVE, finding("Text.", observed_at=token("date")), "invalid_input")
        refuse(SAVE, finding("Text.", **{token("unknown"): "x"}), "invalid_input")
        refuse(SAVE, finding("Other.", idempotency_key=f"{token('idem')}-{len(BODY)}"), "conflict")
        refuse(token("tool"), {}, "not_found")
        refuse("outreach_get_writing_guide", {"language": token("language")}, "invalid_input")
        merged = {
            "domain": domain,
            "title": token("mergedtitle"),
            "body": MERGED,
            "expected_note_count": 4,
            "note_ids": [ids[BODY], ids["A second finding."]],
        }
        refuse(COMPACT, {**merged, "expected_note_count": 3}, "note_count_changed")
        ids[MERGED] = call(COMPACT, merged)["note"]["note_id"]
        # While the server runs, the write-ahead log is there too.
        names = [path.name for path in home.folder.iterdir()]
        assert f"{DATABASE}-wal" in names
        moments["while a server runs"] = home.files()
    moments["after use"] = home.files()
    home.run("receipts", "verify", "--space", space)
    for doomed in (ids[DELETED], ids[MERGED]):
        home.run("note", "delete", doomed, "--as", olu["person_id"], "--with-originals")
    home.run("note", "delete", ids[DELETED], "--as", olu["person_id"], refused=True)
    moments["after deletion"] = home.files()
    verdict = home.run("receipts", "verify", "--space", space)
    return {"moments": moments, "key": key, "person_key": olu["key"], "ids": ids, "verdict": verdict}


def forms(secret: bytes) -> list[bytes]:
    """Give the ways in which bytes are written without being hidden."""
    return [
        secret,
        secret.hex().encode(),
        base64.b64encode(secret)[4:-4],
        secret.decode("latin-1").encode("utf-16-le"),
    ]


def where(moments: dict[str, dict[str, bytes]], secret: bytes) -> list[tuple[str, str]]:
    return [
        (moment, name)
        for moment, files in moments.items()
        for name, content in files.items()
        if any(form in content or form in content.lower() for form in forms(secret))
    ]


def test_the_search_finds_what_is_stored_in_plain(seen: dict[str, Any]) -> None:
    """The tests below can fail: ids and the day of a fact stand in the database as they are, the space's name too."""
    moments = seen["moments"]
    assert (("after use", DATABASE)) in where(moments, b"halden")
    assert (("after use", DATABASE)) in where(moments, seen["ids"][BODY].encode())
    planted = {"planted": {"file": f"x{token('body').upper()}y".encode()}}
    assert where(planted, token("body").encode()) == [("planted", "file")]


@pytest.mark.parametrize("place", PLACES)
def test_case_071_073_077_no_file_and_no_log_holds_what_a_caller_wrote(
    seen: dict[str, Any], place: str
) -> None:
    """Database, write-ahead log, its index, key file and stderr; while a server runs, after it, after a deletion."""
    assert where(seen["moments"], token(place).encode()) == []


@pytest.mark.parametrize("text", [BODY, MERGED, DELETED], ids=["body", "merged", "deleted"])
def test_case_073_no_file_holds_the_bytes_of_an_embedding(seen: dict[str, Any], text: str) -> None:
    """A vector gives its text away nearly word for word, so it is sealed as the text is."""
    [vector] = open_embedder(None).embed([text])
    assert vector is not None
    for plain in (
        vector.astype("<f4").tobytes(),
        vector.astype("<f8").tobytes(),
        vector.astype(np.float16).tobytes(),
    ):
        for start in range(0, len(plain) - 32, 256):
            assert where(seen["moments"], plain[start : start + 32]) == []


def test_case_079_no_file_and_no_log_holds_a_key(seen: dict[str, Any]) -> None:
    for key in (seen["key"], seen["person_key"]):
        assert where(seen["moments"], key.encode()) == []
        assert where(seen["moments"], key.rsplit("_", 1)[1].encode()) == []


def test_case_079_the_master_key_is_in_the_key_file_alone(seen: dict[str, Any]) -> None:
    content = json.loads(seen["moments"]["after use"][KEY_FILE])
    [entry] = content["keys"].values()
    found = where(seen["moments"], base64.b64decode(entry["key"]))
    assert found == [(moment, KEY_FILE) for moment in seen["moments"]]


def test_case_080_of_a_deleted_note_not_even_the_sealed_bytes_are_left(
    seen: dict[str, Any], tmp_path: Path
) -> None:
    """Sealed bytes outlive their note in no file, so that a key found later opens nothing; the chain still holds."""
    before, after = seen["moments"]["after use"], seen["moments"]["after deletion"]
    (tmp_path / "copy.db").write_bytes(before[DATABASE])
    connection = sqlite3.connect(tmp_path / "copy.db")
    rows = connection.execute(
        "SELECT note_id, sealed_body, sealed_title, sealed_sources, sealed_embedding FROM prospect_notes"
    ).fetchall()
    connection.close()
    doomed = {seen["ids"][body] for body in (BODY, MERGED, DELETED, "A second finding.")}
    assert {row[0] for row in rows} > doomed
    for note_id, *sealed in rows:
        for value in sealed:
            # Of a long value, parts: it may have lain on several pages.
            parts = [value[start : start + 24] for start in range(9, len(value) - 24, 200)]
            left = [name for name, content in after.items() for part in parts if part in content]
            assert bool(left) == (note_id not in doomed)
    assert seen["verdict"]["ok"] is True


def test_case_083_receipts_name_ids_and_hold_no_text(seen: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "copy.db").write_bytes(seen["moments"]["after deletion"][DATABASE])
    connection = sqlite3.connect(tmp_path / "copy.db")
    bodies = [body for (body,) in connection.execute("SELECT body FROM receipts")]
    connection.close()
    assert any(seen["ids"][DELETED] in body for body in bodies)
    assert not any(token(place) in body for body in bodies for place in PLACES)
    assert not any(".example" in body for body in bodies)
