"""The command line: spaces, people, sources and keys, settings, notes, imports, receipts, and the servers.

Results go to stdout, everything else to stderr. Exit codes: 0 done, 1 refused or failed, 2 wrong usage.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from memory_core.errors import MemoryCoreError, invalid, not_found, unavailable
from memory_core.home import DATABASE, KEY_FILE, home_folder, no_workbench
from memory_core.surfaces.faults import fault_json

if TYPE_CHECKING:
    from memory_core.admission import NamedPerson
    from memory_core.compose import Workbench
    from memory_core.model import Imported

F = TypeVar("F", bound=Callable[..., Any])
Outcome = tuple[dict[str, Any], list[str]] | tuple[dict[str, Any], list[str], bool]


class Commands(click.Group):
    """The command tree; commands of the checkout (`eval`, `demo`) are found through `memory_core.commands`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        found = {entry.name for entry in entry_points(group="memory_core.commands")}
        return sorted({*super().list_commands(ctx), *found})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        for entry in entry_points(group="memory_core.commands", name=cmd_name):
            try:
                loaded = entry.load()
            except ModuleNotFoundError as error:
                return _absent(cmd_name, error.name or "")
            return cast("click.Command", loaded)
        return None


def _absent(name: str, module: str) -> click.Command:
    @click.command(name, context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
    def absent() -> None:
        """Needs the checkout (pip install -e '.[workbench]')."""
        raise click.ClickException(
            f"`{name}` needs the checkout, installed with pip install -e '.[workbench]' (missing: {module})"
        )

    return absent


def result(command: F) -> F:
    """Give a command `--json`, and print what it returns: (the JSON document, the lines for a person).

    A third item says whether the command failed although it has a report to print.
    """

    @click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
    @functools.wraps(command)
    def run(*args: Any, as_json: bool, **options: Any) -> None:
        try:
            document, lines, *failed = command(*args, **options)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise  # wrong usage and the like, which click tells itself
        except Exception as error:  # noqa: BLE001 - the last place before the shell: everything becomes a fault
            fail(error, as_json=as_json)
        else:
            click.echo(json.dumps(document, ensure_ascii=False, indent=2) if as_json else "\n".join(lines))
            if any(failed):
                sys.exit(1)

    return run  # type: ignore[return-value]


def fail(error: Exception, *, as_json: bool) -> None:
    """Print a refusal and exit with 1; its details name fields, rules, counts and ids."""
    fault = fault_json(error)
    if as_json:
        click.echo(json.dumps(fault, ensure_ascii=False, indent=2))
    else:
        click.echo(f"error: {fault['message']} ({fault['code']})", err=True)
        details = {name: value for name, value in fault.items() if name not in ("code", "message")}
        for name, value in details.items():
            if name not in ("field", "rule"):
                click.echo(f"  {name}: {value}", err=True)
    sys.exit(1)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("memory-workbench"), "--version", prog_name="memory-core")
def main() -> None:
    """Keep, judge and govern the memory of AI agents.

    Everything lives in one folder: MEMORY_CORE_HOME, or ~/.memory-core.
    """


def workbench() -> Workbench:
    """Open the workbench of the environment; imported late, so that `--help` answers at once."""
    from memory_core.compose import open_workbench

    return open_workbench()


def _examples(*lines: str) -> str:
    return "\b\nExamples:\n" + "\n".join(f"  memory-core {line}" for line in lines)


# -- the folder -----------------------------------------------------------------------------------


@main.command(epilog=_examples("init", "init --json"))
@result
def init() -> Outcome:
    """Create the folder, its key file and the database. Safe to repeat."""
    from memory_core.compose import init_workbench

    home = home_folder()
    created = init_workbench(home)
    lines = [
        f"{'Created' if created else 'There already'}: {home}",
        f"Keep a copy of {home / KEY_FILE} somewhere else: without it nothing here can be read.",
        "Next:",
        '  memory-core space create "My space"',
        '  memory-core person create --space ID --name "Your name" --role admin --role outreach_admin',
    ]
    return {"home": str(home), "created": created}, lines


@main.command(epilog=_examples("doctor"))
@result
def doctor() -> Outcome:
    """Check that the workbench opens, its chains hold and its model is there."""
    bench = workbench()
    found: dict[str, str | None] = {"database and master key": None}
    key_file = bench.home / KEY_FILE
    if key_file.exists():
        shared = key_file.stat().st_mode & 0o077
        found["key file"] = f"others can read it: chmod 600 {key_file}" if shared else None
    for space in bench.spaces.list_spaces():
        verdict = bench.spaces.verify_receipts(space.space_id)
        broken = f"receipt {verdict.broken_seq}: {verdict.problem}"
        found[f"receipts of {space.space_id}"] = None if verdict.ok else broken
    try:
        bench.embedder.load()
        found[f"embedding model {bench.embedder.model_id}"] = None
    except MemoryCoreError as error:
        found["embedding model"] = error.message
    findings = [{"check": check, "ok": not problem, "problem": problem} for check, problem in found.items()]
    lines = [f"FAIL {check}: {problem}" if problem else f"ok   {check}" for check, problem in found.items()]
    failed = any(found.values())
    return {"ok": not failed, "findings": findings}, lines, failed


# -- spaces ---------------------------------------------------------------------------------------

_SPACE = click.option("--space", "space_id", required=True, help="The space's id.")
_SPACE_OR_ALL = click.option("--space", "space_id", help="One space; without it all.")


@main.group()
def space() -> None:
    """Spaces: the tenants of a workbench."""


@space.command("create", epilog=_examples('space create "Halden" --language pt --timezone America/Sao_Paulo'))
@click.argument("name")
@click.option("--language", default="en", show_default=True)
@click.option(
    "--timezone", default="UTC", show_default=True, help="IANA name; a day of the quota is its day."
)
@result
def space_create(name: str, language: str, timezone: str) -> Outcome:
    """Create a space, with the outreach add-on and the subscription on."""
    made = workbench().spaces.create_space(name, language, timezone)
    return {"space_id": made.space_id}, [f"space_id {made.space_id}"]


@space.command("set", epilog=_examples("space set ID --outreach off"))
@click.argument("space_id")
@click.option("--outreach", type=click.Choice(["on", "off"]))
@click.option("--subscription", type=click.Choice(["on", "off"]))
@result
def space_set(space_id: str, outreach: str | None, subscription: str | None) -> Outcome:
    """Switch the add-on or the subscription; effective from the next call."""
    given = {"outreach": outreach, "subscription": subscription}
    flags = {name: value == "on" for name, value in given.items() if value is not None}
    if not flags:
        raise click.UsageError("name --outreach or --subscription")
    made = workbench().spaces.set_flags(space_id, flags)
    document = {"space_id": made.space_id, "outreach": made.outreach, "subscription": made.subscription}
    return document, [f"{name} {value}" for name, value in document.items()]


@space.command("destroy", epilog=_examples("space destroy ID --yes"))
@click.argument("space_id")
@click.option("--yes", is_flag=True, required=True, help="Required: there is no way back.")
@result
def space_destroy(space_id: str, yes: bool) -> Outcome:  # noqa: ARG001 - click demands the flag itself
    """Forget the space's data key: nothing of it can be read again, copies in backups neither."""
    workbench().spaces.destroy_space(space_id)
    return {"space_id": space_id, "destroyed": True}, [f"destroyed {space_id}"]


@space.command("list", epilog=_examples("space list"))
@_SPACE_OR_ALL
@result
def space_list(space_id: str | None) -> Outcome:
    """List the spaces."""
    rows = [
        {
            "space_id": each.space_id,
            "name": each.name,
            "outreach": each.outreach,
            "subscription": each.subscription,
            "settings_version": each.settings_version,
        }
        for each in workbench().spaces.list_spaces()
        if space_id in (None, each.space_id)
    ]
    if space_id is not None and not rows:
        raise not_found("space")
    return {"spaces": rows}, _table(rows)


# -- people, sources, keys ------------------------------------------------------------------------


@main.group()
def person() -> None:
    """People who decide: in the Console, or named on the command line."""


@person.command(
    "create", epilog=_examples("person create --space ID --name Ana --role admin --role outreach_admin")
)
@_SPACE
@click.option("--name", required=True)
@click.option(
    "--role", "roles", multiple=True, required=True, help="integration, admin, outreach_admin; repeats."
)
@click.option("--email")
@result
def person_create(space_id: str, name: str, roles: tuple[str, ...], email: str | None) -> Outcome:
    """Add a person with a key of their own. The key is shown once."""
    made, key = workbench().spaces.create_person(space_id, name, roles, email)
    return {"person_id": made.person_id, "key": key}, [f"person_id {made.person_id}", f"key {key}"]


@person.command("disable", epilog=_examples("person disable ID"))
@click.argument("person_id")
@result
def person_disable(person_id: str) -> Outcome:
    """Take a person's roles and keys out of force."""
    bench = workbench()
    bench.spaces.disable_person(_space_of(bench, "person", person_id), person_id)
    return {"person_id": person_id, "disabled": True}, [f"disabled {person_id}"]


@person.command("list", epilog=_examples("person list", "person list --space ID"))
@_SPACE_OR_ALL
@result
def person_list(space_id: str | None) -> Outcome:
    """List people and their roles."""
    bench = workbench()
    rows = [
        {
            "space_id": of,
            "person_id": each.person_id,
            "name": each.name,
            "roles": list(each.roles),
            "disabled": each.disabled,
        }
        for of in _spaces(bench, space_id)
        for each in bench.spaces.list_people(of)
    ]
    return {"people": rows}, _table(rows)


@main.group()
def source() -> None:
    """Sources: the agents that a space knows."""


@source.command("create", epilog=_examples("source create --space ID --name Scout --vendor Kelva"))
@_SPACE
@click.option("--name", required=True)
@click.option("--vendor")
@click.option("--purpose", "purposes", multiple=True, help="What it is for; descriptive, repeats.")
@result
def source_create(space_id: str, name: str, vendor: str | None, purposes: tuple[str, ...]) -> Outcome:
    """Add a source."""
    made = workbench().spaces.create_source(space_id, name, vendor, purposes)
    return {"source_id": made.source_id}, [f"source_id {made.source_id}"]


@source.command("list", epilog=_examples("source list", "source list --space ID"))
@_SPACE_OR_ALL
@result
def source_list(space_id: str | None) -> Outcome:
    """List sources."""
    bench = workbench()
    rows = [
        {
            "space_id": of,
            "source_id": each.source_id,
            "name": each.name,
            "vendor": each.vendor,
            "purposes": list(each.purposes),
        }
        for of in _spaces(bench, space_id)
        for each in bench.spaces.list_sources(of)
    ]
    return {"sources": rows}, _table(rows)


@main.group()
def key() -> None:
    """Keys of sources and people."""


@key.command(
    "create",
    epilog=_examples(
        "key create --source ID --owner PERSON --scope outreach_read --scope outreach_write",
        "key create --person ID",
    ),
)
@click.option("--source", "source_id", help="The source that will use it.")
@click.option("--owner", help="The person on whose behalf a source's key is issued.")
@click.option("--person", "person_id", help="For a person's own key.")
@click.option("--scope", "scopes", multiple=True, help="Repeats.")
@click.option("--expires", "expires", help="A date-time with an offset.")
@result
def key_create(
    source_id: str | None,
    owner: str | None,
    person_id: str | None,
    scopes: tuple[str, ...],
    expires: str | None,
) -> Outcome:
    """Issue a key. It is shown once; only its hash is kept."""
    if (source_id is None) == (person_id is None) or (source_id is None) != (owner is None):
        raise click.UsageError("name --source and --owner, or --person alone")
    bench = workbench()
    space_id = (
        _space_of(bench, "source", source_id) if source_id else _space_of(bench, "person", person_id or "")
    )
    made, text = bench.spaces.create_key(
        space_id,
        source_id=source_id,
        person_id=owner or person_id or "",
        scopes=scopes,
        expires_at=None if expires is None else _moment(expires),
    )
    document = {"key_id": made.key_id, "key": text, "scopes": list(made.scopes)}
    return document, [f"key_id {made.key_id}", f"key {text}", f"scopes {' '.join(made.scopes)}"]


@key.command("revoke", epilog=_examples("key revoke ID"))
@click.argument("key_id")
@result
def key_revoke(key_id: str) -> Outcome:
    """Take a key out of force, from the next call on."""
    bench = workbench()
    bench.spaces.revoke_key(_space_of(bench, "key", key_id), key_id)
    return {"key_id": key_id, "revoked": True}, [f"revoked {key_id}"]


@key.command("list", epilog=_examples("key list", "key list --space ID"))
@_SPACE_OR_ALL
@result
def key_list(space_id: str | None) -> Outcome:
    """List keys, without their secrets."""
    from memory_core.formats.canonical import moment

    bench = workbench()
    rows = [
        {
            "space_id": of,
            "key_id": each.key_id,
            "source_id": each.source_id,
            "person_id": each.person_id,
            "scopes": list(each.scopes),
            "expires_at": None if each.expires_at is None else moment(each.expires_at),
            "revoked_at": None if each.revoked_at is None else moment(each.revoked_at),
        }
        for of in _spaces(bench, space_id)
        for each in bench.spaces.list_keys(of)
    ]
    return {"keys": rows}, _table(rows)


# -- settings -------------------------------------------------------------------------------------


@main.group()
def settings() -> None:
    """Settings: proposed as a diff, in force once another admin approves."""


@settings.command("show", epilog=_examples("settings show --space ID"))
@_SPACE
@result
def settings_show(space_id: str) -> Outcome:
    """Show the settings in force, their digest, and the changes that wait with their evidence."""
    from memory_core.formats.canonical import moment
    from memory_core.policy import named_settings

    bench = workbench()
    number, policy = bench.spaces.policy(space_id)
    pending: list[dict[str, Any]] = [
        {
            "change_id": each.change_id,
            "base_version": each.base_version,
            "diff": each.diff,
            "reason": each.reason,
            "evidence": each.evidence,
            "created_at": moment(each.created_at),
        }
        for each in bench.spaces.list_changes(space_id, "pending")
    ]
    document: dict[str, Any] = {
        "version": number,
        "settings": dict(policy.settings),
        "defaults": {name: setting.default for name, setting in named_settings().items()},
        "policy_digest": policy.digest(),
        "pending": pending,
    }
    lines = [f"version {number}", f"policy_digest {policy.digest()}"]
    lines += [f"  {name} = {json.dumps(value)}" for name, value in sorted(policy.settings.items())]
    lines += [
        f"  {name} = {json.dumps(value)} (default)"
        for name, value in sorted(document["defaults"].items())
        if name not in policy.settings
    ]
    for each in pending:
        lines.append(f"pending {each['change_id']} {json.dumps(each['diff'])}: {each['reason']}")
        evidence = each["evidence"]
        if evidence:
            rows, figures = evidence["data"]["rows"], evidence["figures"]
            told = ", ".join(f"{figure['name']} {figure.get('value')}" for figure in figures[:5])
            lines.append(f"  evidence: {evidence['kind']} of {evidence['model']} on {rows} rows: {told}")
    return document, lines


@settings.command(
    "propose",
    epilog=_examples(
        'settings propose --space ID --set stale_after_days=45 --reason "Facts of this trade keep longer"',
        "settings propose --space ID --set overlap.use-multilingual-v3.overlap_at=0.34"
        ' --reason "99 % of it shares a fact" --evidence ~/.memory-core/reports/overlap-use-multilingual-v3.json',
    ),
)
@_SPACE
@click.option(
    "--set", "assignments", multiple=True, required=True, help="NAME=VALUE; JSON, else text; repeats."
)
@click.option("--reason", required=True)
@click.option(
    "--evidence", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A report's JSON."
)
@click.option("--as", "person_id", help="The person who proposes; without it the operator.")
@result
def settings_propose(
    space_id: str, assignments: tuple[str, ...], reason: str, evidence: Path | None, person_id: str | None
) -> Outcome:
    """Propose a change. Thresholds need the evaluation report behind them."""
    diff: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise click.UsageError("--set takes NAME=VALUE")
        try:
            diff[name] = json.loads(value)
        except ValueError:
            diff[name] = value
    bench = workbench()
    who = None if person_id is None else _named(bench, person_id)
    change = bench.spaces.propose_settings(
        who, space_id, diff, reason, None if evidence is None else evidence.read_bytes()
    )
    lines = [f"change_id {change.change_id}", f"memory-core settings approve {change.change_id} --as ADMIN"]
    return {"change_id": change.change_id, "base_version": change.base_version}, lines


@settings.command("approve", epilog=_examples("settings approve CHANGE --as PERSON"))
@click.argument("change_id")
@click.option("--as", "person_id", required=True, help="The admin who decides.")
@click.option("--reason")
@result
def settings_approve(change_id: str, person_id: str, reason: str | None) -> Outcome:
    """Approve a change in the name of an admin other than its proposer."""
    return _decide(change_id, person_id, reason, approve=True)


@settings.command("reject", epilog=_examples('settings reject CHANGE --as PERSON --reason "Too few labels"'))
@click.argument("change_id")
@click.option("--as", "person_id", required=True, help="The admin who decides.")
@click.option("--reason")
@result
def settings_reject(change_id: str, person_id: str, reason: str | None) -> Outcome:
    """Reject a change."""
    return _decide(change_id, person_id, reason, approve=False)


def _decide(change_id: str, person_id: str, reason: str | None, *, approve: bool) -> Outcome:
    bench = workbench()
    change = bench.spaces.decide_settings(_named(bench, person_id), change_id, approve=approve, reason=reason)
    return {"change_id": change_id, "status": change.status}, [f"{change.status} {change_id}"]


# -- notes ----------------------------------------------------------------------------------------


@main.group()
def dossier() -> None:
    """Dossiers: all active notes of one company."""


@dossier.command("list", epilog=_examples("dossier list", "dossier list --space ID"))
@_SPACE_OR_ALL
@result
def dossier_list(space_id: str | None) -> Outcome:
    """List dossiers, newest first."""
    from memory_core.formats.canonical import moment

    bench = workbench()
    rows = [
        {"space_id": of, "domain": domain, "note_count": count, "newest_observed_at": moment(observed_at)}
        for of in _spaces(bench, space_id)
        for domain, count, observed_at in bench.prospects.dossiers(of)
    ]
    return {"dossiers": rows}, _table(rows)


@dossier.command("show", epilog=_examples("dossier show kelva.example --as PERSON"))
@click.argument("domain")
@click.option("--as", "person_id", required=True, help="The person who reads; the receipt names them.")
@result
def dossier_show(domain: str, person_id: str) -> Outcome:
    """Show a company's notes with their ids, and the relationship with it, as a recall gives them."""
    from memory_core.formats.answers import recall_json

    bench = workbench()
    document = recall_json(bench.prospects.recall(_named(bench, person_id), {"domain": domain}))
    lines = [f"{name} {document[name]}" for name in ("domain", "note_count", "stale", "stop", "stop_reasons")]
    lines += _table(
        [
            {
                "note_id": each["note_id"],
                "observed_at": each["observed_at"],
                "stale": each["stale"],
                "title": each["title"] or each["body"].splitlines()[0][:60],
            }
            for each in document["notes"]
        ]
    )
    return document, lines


@main.group()
def note() -> None:
    """One note of the prospect memory."""


@note.command("show", epilog=_examples("note show ID --as PERSON"))
@click.argument("note_id")
@click.option("--as", "person_id", required=True, help="The person who reads; the receipt names them.")
@result
def note_show(note_id: str, person_id: str) -> Outcome:
    """Show a note, archived ones too."""
    from memory_core.formats.answers import note_json

    bench = workbench()
    shown = bench.prospects.show(_named(bench, person_id), note_id)
    document = note_json(shown.note, stale=shown.stale)
    names = ("note_id", "title", "observed_at", "stale", "status", "merged_into")
    heads = [f"{name} {document[name]}" for name in names if document.get(name) is not None]
    return document, [*heads, *document["source_urls"], "", document["body"]]


@note.command(
    "delete", epilog=_examples("note delete ID --as PERSON", "note delete ID --as PERSON --with-originals")
)
@click.argument("note_id")
@click.option("--as", "person_id", required=True, help="The person who decides.")
@click.option("--with-originals", is_flag=True, help="Erase the notes that a merged note replaced too.")
@result
def note_delete(note_id: str, person_id: str, with_originals: bool) -> Outcome:
    """Erase a note: its text, sources and embedding; only the id stays, in receipts."""
    bench = workbench()
    erased = bench.prospects.delete(_named(bench, person_id), note_id, with_originals=with_originals)
    return {"deleted": list(erased)}, [f"deleted {each}" for each in erased]


@main.group()
def compaction() -> None:
    """Compactions: notes merged by an agent on a person's word."""


@compaction.command("undo", epilog=_examples("compaction undo NOTE --as PERSON"))
@click.argument("note_id")
@click.option("--as", "person_id", required=True, help="The person who decides.")
@result
def compaction_undo(note_id: str, person_id: str) -> Outcome:
    """Make the originals of a merged note active again."""
    from memory_core.formats.answers import undone_json

    bench = workbench()
    document = undone_json(bench.prospects.undo_compaction(_named(bench, person_id), note_id))
    lines = [f"restored {each}" for each in document["restored"]]
    return document, lines + [f"deleted since {each}" for each in document["deleted_since"]]


# -- imports, exports, embeddings -----------------------------------------------------------------


@main.group("import")
def import_() -> None:
    """Bring in files: CSV or JSON Lines. They skip the daily quota, not the caps."""


@import_.command("relationship", epilog=_examples("import relationship history.csv --space ID"))
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@_SPACE
@result
def import_relationship(file: Path, space_id: str) -> Outcome:
    """Import campaigns, messages, replies and suppressions. Importing again changes nothing."""
    from memory_core.rules.relationship import FIELDS

    return _import(file, lambda bench, rows: bench.transfers.import_relationship(space_id, rows), FIELDS)


@import_.command("notes", epilog=_examples("import notes export/prospect_notes.jsonl --space ID"))
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@_SPACE
@result
def import_notes(file: Path, space_id: str) -> Outcome:
    """Restore exported notes with their ids, dates and archive pointers. What was erased since stays erased."""
    return _import(file, lambda bench, rows: bench.transfers.import_notes(space_id, rows))


def _import(
    file: Path, act: Callable[[Workbench, Iterator[Any]], Imported], columns: Collection[str] | None = None
) -> Outcome:
    from tqdm import tqdm

    from memory_core.formats.rows import read_rows, size
    from memory_core.model import SENTIMENTS

    known = f"(known: {', '.join(SENTIMENTS)})"
    read_as = {
        "unknown_sentiment": f"is unknown, read as neutral {known}",
        "missing_sentiment": f"is missing, read as neutral {known}",
        "not_for_kind": "does not belong to this kind, left out",
    }
    bench = workbench()
    with tqdm(total=size(file), unit="B", unit_scale=True, disable=None, desc=file.name) as bar:
        done = act(bench, read_rows(file, columns=columns, advanced=bar.update))
    document = {
        "rows": done.rows,
        "written": done.written,
        "repeated": done.repeated,
        "refused": list(done.refused),
        "notices": list(done.notices),
    }
    lines = [f"{name} {document[name]}" for name in ("rows", "written", "repeated")]
    lines.append(f"refused {len(done.refused)}")
    refused = [f"refused line {each['line']}: {each['message']} ({each['code']})" for each in done.refused]
    notices = [
        f"notice line {each['line']}: {each['field']} {read_as[each['rule']]}" for each in done.notices
    ]
    shown = 20
    for told in (refused, notices):
        lines += told[:shown]
        if len(told) > shown:
            lines.append(f"... and {len(told) - shown} more (--json lists all)")
    return document, lines, bool(done.rows) and len(done.refused) == done.rows


@main.command(
    "export",
    epilog=_examples("export --space ID --out export/", "export --space ID --source ID --out scout/"),
)
@_SPACE
@click.option("--source", "source_id", help="Only what this source wrote, without the receipts.")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default=Path("export"), show_default=True
)
@result
def export(space_id: str, source_id: str | None, out: Path) -> Outcome:
    """Write a space as JSON Lines, one table a file: prospect notes and receipts. The files are plain text."""
    from memory_core.formats.canonical import compact

    bench = workbench()

    def write(name: str) -> Callable[[Iterator[Mapping[str, Any]]], int]:
        def consume(rows: Iterator[Mapping[str, Any]]) -> int:
            beside, count = out / f".{name}.partial", 0
            beside.unlink(missing_ok=True)
            beside.touch(mode=0o600)
            with beside.open("w", encoding="utf-8") as file:
                for row in rows:
                    file.write(compact(row) + "\n")
                    count += 1
            beside.replace(out / f"{name}.jsonl")
            return count

        return consume

    try:
        out.mkdir(parents=True, exist_ok=True)
        counts = {
            "prospect_notes": bench.transfers.export_notes(space_id, write("prospect_notes"), source_id)
        }
        if source_id is None:
            counts["receipts"] = bench.spaces.export_receipts(space_id, write("receipts"))
    except OSError as error:
        raise unavailable(f"the export cannot be written: {error.strerror}") from None
    return {"out": str(out), "rows": counts}, [f"{name}.jsonl {count}" for name, count in counts.items()]


@main.group()
def embeddings() -> None:
    """The vectors that overlap reports compare."""


@embeddings.command("backfill", epilog=_examples("embeddings backfill"))
@_SPACE_OR_ALL
@result
def embeddings_backfill(space_id: str | None) -> Outcome:
    """Embed the notes that were saved while the model was unavailable."""
    return _embed(space_id, others_too=False)


@embeddings.command("rebuild", epilog=_examples("embeddings rebuild --space ID"))
@_SPACE_OR_ALL
@result
def embeddings_rebuild(space_id: str | None) -> Outcome:
    """Embed again, with the model in force, every note that has none or another model's vector."""
    return _embed(space_id, others_too=True)


def _embed(space_id: str | None, *, others_too: bool) -> Outcome:
    from tqdm import tqdm

    bench = workbench()
    with tqdm(unit=" notes", disable=None, desc="embedding") as bar:
        counts = {
            of: bench.transfers.embed_notes(of, others_too=others_too, progress=bar.update)
            for of in _spaces(bench, space_id)
        }
    document = {"model": bench.embedder.model_id, "embedded": counts}
    return document, [f"model {bench.embedder.model_id}", *(f"{of} {count}" for of, count in counts.items())]


# -- receipts -------------------------------------------------------------------------------------


@main.group()
def receipts() -> None:
    """The hash-chained audit trail of a space."""


@receipts.command("head", epilog=_examples("receipts head --space ID"))
@_SPACE
@result
def receipts_head(space_id: str) -> Outcome:
    """Print the head of the chain; save it outside the workbench to notice a cut later."""
    seq, head = workbench().spaces.head(space_id)
    return {"seq": seq, "head": head}, [f"seq {seq}", f"head {head}"]


@receipts.command(
    "verify",
    epilog=_examples(
        "receipts verify --space ID", "receipts verify --file export/receipts.jsonl --head HASH"
    ),
)
@click.option("--space", "space_id")
@click.option("--file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--head", help="A head that was saved before.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
def receipts_verify(space_id: str | None, file: Path | None, head: str | None, as_json: bool) -> None:
    """Verify a chain step by step, from the database or from an exported file without it."""
    if (space_id is None) == (file is None):
        raise click.UsageError("name --space or --file")
    try:
        if file is not None:
            from memory_core.formats.chain import read_exported, verify

            with file.open("rb") as lines:
                verdict = verify(read_exported(lines), head)
        else:
            verdict = workbench().spaces.verify_receipts(space_id or "", head)
    except MemoryCoreError as error:
        fail(error, as_json=as_json)
        return
    document = {
        "ok": verdict.ok,
        "receipts": verdict.receipts,
        "head": verdict.head,
        "broken_seq": verdict.broken_seq,
        "problem": verdict.problem,
    }
    if as_json:
        click.echo(json.dumps(document, indent=2))
    elif verdict.ok:
        click.echo(f"ok: {verdict.receipts} receipts, head {verdict.head}")
    else:
        click.echo(f"BROKEN at receipt {verdict.broken_seq}: {verdict.problem}", err=True)
    sys.exit(0 if verdict.ok else 1)


# -- servers --------------------------------------------------------------------------------------


@main.group(
    "mcp",
    invoke_without_command=True,
    epilog=_examples("mcp", "mcp --http --port 8765", "mcp config --key KEY"),
)
@click.option("--http", is_flag=True, help="Streamable HTTP at /mcp instead of stdio.")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8080, show_default=True, type=click.IntRange(0, 65_535))
@click.pass_context
def mcp(ctx: click.Context, http: bool, host: str, port: int) -> None:
    """Serve the prospect memory to agents over MCP. The agent's key comes from MEMORY_CORE_KEY."""
    if ctx.invoked_subcommand is not None:
        return
    from memory_core.surfaces import mcp_server

    try:
        _refuse_without_workbench()
        if http:
            mcp_server.serve_http(workbench, host, port)
            return
        agent_key = os.environ.get("MEMORY_CORE_KEY", "")
        if not agent_key:
            raise invalid("MEMORY_CORE_KEY", "required", "set it to the agent's key")
        mcp_server.serve_stdio(workbench, agent_key)
    except MemoryCoreError as error:
        fail(error, as_json=False)


@mcp.command("config", epilog=_examples("mcp config --key KEY"))
@click.option("--key", "agent_key", required=True)
@result
def mcp_config(agent_key: str) -> Outcome:
    """Print a ready block for desktop clients, with absolute paths."""
    document = client_configuration(agent_key, str(home_folder()))
    return document, [json.dumps(document, indent=2)]


def client_configuration(agent_key: str, home: str) -> dict[str, Any]:
    """Give the `mcpServers` block of desktop clients for this installation."""
    program = Path(sys.executable).with_name("memory-core")
    environment = {"MEMORY_CORE_HOME": home, "MEMORY_CORE_KEY": agent_key}
    # The master key is no part of it: a client's configuration is read by many.
    for name in ("MEMORY_CORE_DATABASE_URL", "MEMORY_CORE_EMBEDDER"):
        if os.environ.get(name):
            environment[name] = os.environ[name]
    return {"mcpServers": {"memory-core": {"command": str(program), "args": ["mcp"], "env": environment}}}


def _refuse_without_workbench() -> None:
    # A look at the folder alone: opening the database would cost a client that waits to connect.
    home = home_folder()
    if not os.environ.get("MEMORY_CORE_DATABASE_URL") and not (home / DATABASE).exists():
        raise no_workbench(home)


# -- parts ----------------------------------------------------------------------------------------


def _spaces(bench: Workbench, space_id: str | None) -> list[str]:
    return [space_id] if space_id is not None else [each.space_id for each in bench.spaces.list_spaces()]


def _space_of(bench: Workbench, what: str, value: str) -> str:
    found = bench.spaces.find_space(what, value)
    if found is None:
        raise not_found(what)
    return found


def _named(bench: Workbench, person_id: str) -> NamedPerson:
    from memory_core.admission import NamedPerson

    return NamedPerson(space_id=_space_of(bench, "person", person_id), person_id=person_id)


def _moment(text: str) -> Any:
    from datetime import datetime

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise invalid("expires", "date_time", "a date-time with an offset") from None
    if moment.tzinfo is None:
        raise invalid("expires", "offset_missing", "a date-time with an offset")
    return moment


def _table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return ["(none)"]
    shown = [[_cell(value) for value in row.values()] for row in rows]
    names = list(rows[0])
    widths = [max(len(line[at]) for line in [names, *shown]) for at in range(len(names))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in [names, *shown]
    ]


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(str(each) for each in value)
    return "" if value is None else str(value)


if __name__ == "__main__":
    main(prog_name="memory-core")
