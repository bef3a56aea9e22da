"""What the product costs beside the bare work it cannot avoid: run by `make bench`, not collected by pytest.

Every figure is a ratio of two medians taken in turn (A B A B) in this run, with both medians beside it, because
absolute times differ between machines by more than any change worth making.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import re
import select
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from memory_core.admission import KeyText
from memory_core.compose import Workbench, init_workbench, open_workbench
from memory_core.embedding import UniversalSentenceEmbedder, WordHashEmbedder
from memory_core.errors import MemoryCoreError
from memory_core.formats.answers import recall_json, saved_json
from memory_core.formats.canonical import compact, moment
from memory_core.policy import Policy

FIXTURES = Path(__file__).parent.parent / "data" / "fixtures"
LANGUAGE_FILES = sorted((FIXTURES / "overlap").glob("[a-z][a-z].jsonl"))
NOW = datetime.now(UTC)
TODAY = NOW.date().isoformat()
LIMITS = Policy()


@dataclass
class Figures:
    """Collects the run's figures and prints each as it comes."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def ratio(
        self,
        name: str,
        case: str,
        ours: Sequence[float],
        base: Sequence[float],
        aim: float | None,
        **facts: Any,
    ) -> None:
        """Add a ratio of medians; times are in seconds."""
        ours_ms, base_ms = (round(statistics.median(times) * 1000, 2) for times in (ours, base))
        # The median of the pairs' own ratios is printed too: where both agree, no slow moment decided.
        paired = round(statistics.median(one / other for one, other in zip(ours, base, strict=True)), 3)
        value = round(ours_ms / base_ms, 3)
        self.rows.append(
            {
                "name": name,
                "case": case,
                "value": value,
                "paired": paired,
                "ours_ms": ours_ms,
                "base_ms": base_ms,
                "runs": len(ours),
                "aim": aim,
                **facts,
            }
        )
        print(
            f"{name:<14} {case:<28} {value:>7.2f}  ({paired:.2f} by pairs)  {ours_ms:>9.2f} ms / {base_ms:>8.2f} ms"
            f"  n={len(ours)}" + (f"  aim {aim}" if aim else "") + (f"  {facts}" if facts else ""),
            flush=True,
        )

    def fact(self, name: str, case: str, **facts: Any) -> None:
        self.rows.append({"name": name, "case": case, **facts})
        print(f"{name:<14} {case:<28} {facts}", flush=True)


def timed(act: Callable[[], Any]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


# -- texts ----------------------------------------------------------------------------------------


class Texts:
    """Notes of a wanted length, made of whole sentences of the fixtures in one language each; none occurs twice."""

    def __init__(self, seed: int = 7) -> None:
        self._random = random.Random(seed)
        self._statements = {path.stem: self._read(path.stem) for path in LANGUAGE_FILES}

    def _read(self, language: str) -> list[list[str]]:
        """Give the sentences of every fixture note, a list a note, so that a text keeps to few subjects."""
        notes: dict[str, None] = {}
        with (FIXTURES / "overlap" / f"{language}.jsonl").open(encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                notes[row["a"]] = None
        split = [re.split(r"(?<=[.!?])\s+(?=[A-ZÄÖÜ*#-])|\n+", note) for note in notes]
        return [[part.strip() for part in parts if len(part.split()) > 2] for parts in split]

    def note(self, words: int, languages: Sequence[str] = ("en", "de")) -> str:
        """Give a note of exactly `words` words about a few of the fixtures' subjects, in one of the languages."""
        language = self._random.choice(languages)
        notes = self._random.sample(self._statements[language], len(self._statements[language]))
        parts = [f"{'Stand' if language == 'de' else 'Entry'} {self._random.randrange(10_000)}:"]
        while len(" ".join(parts).split()) < words:
            if not notes:
                notes = self._random.sample(self._statements[language], len(self._statements[language]))
            sentences = notes.pop()
            parts += self._random.sample(sentences, len(sentences))
        return _cut("\n".join(parts), words)

    def near(self, note: str) -> str:
        """Give a near duplicate: the same note with one other number in it."""
        number = str(self._random.randrange(10_000))
        return re.sub(r"\d{2,}", number, note, count=1) + f" ({number})"


def _cut(text: str, words: int) -> str:
    found = list(re.finditer(r"\S+", text))
    return text[: found[words - 1].end()]


# -- a workbench to measure on --------------------------------------------------------------------


@dataclass
class Place:
    """A space with an agent's key."""

    bench: Workbench
    space_id: str
    key: KeyText

    def fields(self, body: str, domain: str) -> dict[str, Any]:
        return {
            "domain": domain,
            "title": "Finding",
            "body": body,
            "source_urls": [f"https://news.example/{uuid4()}"],
            "observed_at": TODAY,
        }

    def fill(self, domain: str, bodies: Sequence[str]) -> None:
        """Put notes into a dossier as an import does, which uses none of the day's quota."""
        rows = [
            {
                **self.fields(body, domain),
                "note_id": str(uuid4()),
                "created_at": moment(NOW),
                "author": {"kind": "operator"},
                "status": "active",
            }
            for body in bodies
        ]
        done = self.bench.transfers.import_notes(self.space_id, enumerate(rows, start=1))
        assert done.written == len(bodies), done


def make_place(bench: Workbench) -> Place:
    space = bench.spaces.create_space("Bench")
    owner, _ = bench.spaces.create_person(space.space_id, "Olu", ("admin", "outreach_admin"))
    source = bench.spaces.create_source(space.space_id, "Scout")
    _, key = bench.spaces.create_key(
        space.space_id,
        source_id=source.source_id,
        person_id=owner.person_id,
        scopes=("outreach_read", "outreach_write"),
    )
    return Place(bench=bench, space_id=space.space_id, key=KeyText(key))


class Remembering(UniversalSentenceEmbedder):
    """The default embedder, which reads a text once: only for the preparation of many equal dossiers."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[str, Any] = {}

    def embed(self, texts: Sequence[str]) -> list[Any]:
        for text in texts:
            if text not in self._seen:
                self._seen[text] = super().embed([text])[0]
        return [self._seen[text] for text in texts]


# -- (a) save -------------------------------------------------------------------------------------


class BareInsert:
    """The least that a durable note costs: one row of its bytes in SQLite, synced, in a file of its own."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, body BLOB, embedding BLOB)")

    def __call__(self, body: bytes, embedding: bytes) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute("INSERT INTO notes (body, embedding) VALUES (?, ?)", (body, embedding))
        self._connection.execute("COMMIT")


def measure_save(figures: Figures, home: Path, runs: int) -> None:
    """Compare a save into a dossier of 49 notes with one raw encode and one bare durable insert."""
    init_workbench(home, {})
    prepared = open_workbench(home, {}, embedder=Remembering())
    bench = open_workbench(home, {})
    bench.embedder.load()
    tokenizer, backend = bench.embedder._loaded()  # type: ignore[attr-defined]
    insert = BareInsert(home / "bare.db")
    texts = Texts()

    def raw(body: str) -> None:
        [vector] = backend.encode([tokenizer.encode(body)])
        insert(body.encode(), vector.tobytes())

    for words in (30, 120, 1_000):
        for variant in ("distinct", "near duplicates"):
            place = make_place(prepared)
            # In six languages: two long English notes out of the same fixtures would share half of their sentences.
            others = [
                texts.note(words, [path.stem for path in LANGUAGE_FILES])
                for _ in range(LIMITS.max_active_notes - 1)
            ]
            times: tuple[list[float], list[float]] = ([], [])
            near = overlaps = 0
            count = runs if words < 1_000 else max(9, runs // 2)
            domains = [f"company-{number}.example" for number in range(count)]
            for domain in domains:
                place.fill(domain, others)
            for number, domain in enumerate(domains):
                body = (
                    texts.note(words) if variant == "distinct" else texts.near(others[number % len(others)])
                )
                fields, answers = place.fields(body, domain), []

                def save(
                    key: KeyText = place.key, fields: dict[str, Any] = fields, answers: list[Any] = answers
                ) -> None:
                    answers.append(saved_json(*bench.prospects.save(key, fields)))

                def bare(body: str = body) -> None:
                    raw(body)

                for side in (0, 1) if number % 2 else (1, 0):
                    times[side].append(timed((save, bare)[side]))
                [answer] = answers
                assert answer["note_count"] == LIMITS.max_active_notes
                assert not answer["repeated"]
                near += len(answer["overlap"]["near_duplicates"])
                overlaps += len(answer["overlap"]["overlaps"])
            found = {"near_duplicates": round(near / count, 1), "overlaps": round(overlaps / count, 1)}
            figures.ratio("save", f"{words} words, {variant}", times[0], times[1], 1.2, **found)
    bench.close()
    prepared.close()


# -- (b) connect ----------------------------------------------------------------------------------

BARE_SERVER = """
import anyio
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

async def list_tools(context, params):
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return types.ListToolsResult(tools=[types.Tool(name="echo", description="Echo.", input_schema=schema)])

async def call_tool(context, params):
    return types.CallToolResult(content=[types.TextContent(type="text", text="echo")])

server = Server("bare", version="1", on_list_tools=list_tools, on_call_tool=call_tool)

async def run():
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())

anyio.run(run)
"""


class Client:
    """The least of an MCP client over stdio: what is measured is the server, not a client library."""

    def __init__(self, command: Sequence[str], environ: dict[str, str], errors: Any = None) -> None:
        self._server = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, **environ},
        )
        self._ids = iter(range(1, 1_000_000))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.close()
        self._server.wait(60)
        self._server.stdout.close()

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        number = next(self._ids)
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        while select.select([self._server.stdout], [], [], 60)[0]:
            answer: dict[str, Any] = json.loads(self._server.stdout.readline())
            if answer.get("id") == number:
                assert "result" in answer, answer
                return dict(answer["result"])
        raise TimeoutError(method)

    def connect(self) -> list[Any]:
        about = {"name": "bench", "version": "1"}
        self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about})
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return list(self.ask("tools/list", {})["tools"])

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        result = self.ask("tools/call", {"name": name, "arguments": arguments})
        assert not result.get("isError"), result
        return result

    def _send(self, message: dict[str, Any]) -> None:
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(message).encode() + b"\n")
        self._server.stdin.flush()


def measure_connect(figures: Figures, home: Path, runs: int) -> None:
    """Compare spawn, initialize and tools/list with a one-tool server on the same SDK; then the first call."""
    init_workbench(home, {})
    with_key = open_workbench(home, {}, embedder=WordHashEmbedder())
    place = make_place(with_key)
    environ = {"MEMORY_CORE_HOME": str(home), "MEMORY_CORE_KEY": place.key.text}
    program = str(Path(sys.executable).with_name("memory-core"))
    commands = ([program, "mcp"], [sys.executable, "-c", BARE_SERVER])
    times: tuple[list[float], list[float]] = ([], [])
    for run in range(runs + 1):
        for side in (0, 1) if run % 2 else (1, 0):
            start = time.perf_counter()
            with Client(commands[side], environ) as client:
                tools = client.connect()
                took = time.perf_counter() - start
                assert len(tools) == (4 if side == 0 else 1)
                # The first of each warms the disk's cache.
                if run:
                    times[side].append(took)
    figures.ratio("connect", "stdio, to tools/list", times[0], times[1], 1.2)
    texts = Texts(11)
    for tool in ("recall", "save"):
        first: list[float] = []
        later: list[float] = []
        for run in range(3):
            with Client(commands[0], environ) as client:
                client.connect()
                time.sleep(2)
                domain = f"{tool}-{run}.example"
                calls = [
                    ("outreach_recall_prospect_context", {"domain": domain})
                    if tool == "recall"
                    else ("outreach_save_prospect_research", place.fields(texts.note(30), domain))
                    for _ in range(6)
                ]
                took = [timed(lambda call=call: client.call(*call)) for call in calls]
                first.append(took[0])
                later.append(statistics.median(took[1:]))
        figures.ratio("first call", f"{tool}, 2 s after connect", first, later, None)
    with_key.close()


# -- (c) recall -----------------------------------------------------------------------------------

ROWS = "SELECT * FROM prospect_notes WHERE space_id = ? AND status = 'active'"


def measure_recall(figures: Figures, home: Path, runs: int) -> None:
    """Compare a recall of 50 notes with one SELECT of the same sealed rows and the same answer written as JSON."""
    init_workbench(home, {})
    bench = open_workbench(home, {}, embedder=Remembering())
    texts = Texts(13)
    plain = sqlite3.connect(home / "memory.db", isolation_level=None)
    insert = BareInsert(home / "bare.db")
    for words in (30, 120):
        place = make_place(bench)
        place.fill("kelva.example", [texts.note(words) for _ in range(LIMITS.max_active_notes)])
        given = {"domain": "kelva.example"}
        answer = {"data": recall_json(bench.prospects.recall(place.key, given))}
        assert answer["data"]["note_count"] == len(answer["data"]["notes"]) == LIMITS.max_active_notes

        def ours(place: Place = place, given: dict[str, Any] = given) -> None:
            compact({"data": recall_json(bench.prospects.recall(place.key, given))})

        def base(place: Place = place, answer: dict[str, Any] = answer) -> None:
            assert len(plain.execute(ROWS, (place.space_id,)).fetchall()) == LIMITS.max_active_notes
            json.dumps(answer)

        times: tuple[list[float], list[float], list[float]] = ([], [], [])
        for run in range(runs):
            for side in (0, 1) if run % 2 else (1, 0):
                times[side].append(timed((ours, base)[side]))
            times[2].append(times[1][-1] + timed(lambda: insert(b"receipt", b"")))
        figures.ratio("recall", f"50 notes of {words} words", times[0], times[1], None)
        figures.ratio("recall", "the same, base with a receipt", times[0], times[2], None)
    plain.close()
    bench.close()


# -- (d) several processes ------------------------------------------------------------------------


def _save_many(home: Path, key: str, worker: int, attempts: int, gate: Any, out: Any) -> None:
    bench = open_workbench(home, {})
    bench.embedder.load()
    texts = Texts(100 + worker)
    bodies = [texts.note(30) for _ in range(attempts)]
    place = Place(bench=bench, space_id="", key=KeyText(key))
    gate.wait()
    start = time.monotonic()
    saved, refused = [], 0
    for number, body in enumerate(bodies):
        try:
            done, _ = bench.prospects.save(place.key, place.fields(body, f"w{worker}-{number // 50}.example"))
            saved.append(done.note.note_id)
        except MemoryCoreError as error:
            if error.code != "daily_limit_reached":
                raise
            refused += 1
    out.put((start, time.monotonic(), saved, refused))
    bench.close()


def measure_processes(figures: Figures, home: Path) -> None:
    """Save from one process, then from four at once up to the day's quota, and look that all of it is there."""
    init_workbench(home, {})
    bench = open_workbench(home, {}, embedder=WordHashEmbedder())
    context = multiprocessing.get_context("spawn")
    rates = {}
    for processes, attempts in ((1, 52), (4, 52)):
        place = make_place(bench)
        gate, out = context.Barrier(processes), context.Queue()
        workers = [
            context.Process(target=_save_many, args=(home, place.key.text, worker, attempts, gate, out))
            for worker in range(processes)
        ]
        for worker in workers:
            worker.start()
        done = [out.get(timeout=300) for _ in workers]
        for worker in workers:
            worker.join()
        saved = [note_id for _, _, ids, _ in done for note_id in ids]
        refused = sum(count for *_, count in done)
        took = max(end for _, end, *_ in done) - min(start for start, *_ in done)
        rates[processes] = len(saved) / took
        kept = set(
            bench.transfers.export_notes(place.space_id, lambda rows: [row["note_id"] for row in rows])
        )
        verdict = bench.spaces.verify_receipts(place.space_id)
        wanted = min(processes * attempts, LIMITS.max_saves_per_day)
        assert len(saved) == wanted, (len(saved), refused)
        assert kept == set(saved), "a note was lost"
        assert verdict.ok, verdict.problem
        figures.fact(
            "processes", f"{processes} x {attempts} saves", saved=len(saved), refused=refused, lost=0,
            chain="verified", per_second=round(rates[processes], 1),
            throughput=round(rates[processes] / rates[1], 2),
        )  # fmt: skip
    bench.close()


PARTS: dict[str, Callable[[Figures, Path, int], None]] = {
    "save": measure_save,
    "connect": lambda figures, home, runs: measure_connect(figures, home, max(7, runs // 4)),
    "recall": measure_recall,
    "processes": lambda figures, home, _: measure_processes(figures, home),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("reports/bench.json"))
    parser.add_argument("--only", choices=list(PARTS), action="append")
    parser.add_argument("--runs", type=int, default=31)
    given = parser.parse_args()
    figures = Figures()
    for name in given.only or PARTS:
        # Beside the report, so that the bare insert and the workbench write to the disk people use, not to a RAM disk.
        given.out.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=given.out.parent, prefix=".bench-") as folder:
            PARTS[name](figures, Path(folder), given.runs)
    given.out.write_text(json.dumps({"at": moment(NOW), "figures": figures.rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
