"""A workbench on disk with a real clock, and the ways in from outside: MCP over stdio, over HTTP, the command line."""

from __future__ import annotations

import json
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from anyio.from_thread import start_blocking_portal
from click.testing import CliRunner, Result
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from memory_core.compose import init_workbench, open_workbench
from memory_core.surfaces.cli import main

PROGRAM = Path(sys.executable).with_name("memory-core")
PATIENCE_S = 60


def clean_environment(home: Path, **environ: str) -> dict[str, str]:
    """Give this process's environment for a workbench in `home`, without any other setting of the product."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MEMORY_CORE_")}
    return {**kept, "HF_HUB_OFFLINE": "1", "MEMORY_CORE_HOME": str(home), **environ}


@dataclass(frozen=True)
class Office:
    """One space on disk: an admin, an outreach admin who owns the source's key, and that key."""

    home: Path
    space_id: str
    admin_id: str
    owner_id: str
    source_id: str
    key: str

    def files(self) -> bytes:
        return b"".join(path.read_bytes() for path in sorted(self.home.rglob("*")) if path.is_file())


def add_space(home: Path, name: str) -> Office:
    """Add a space to the workbench in `home`, which is made where there is none."""
    init_workbench(home, {})
    bench = open_workbench(home, {})
    space_id = bench.spaces.create_space(name).space_id
    admin, _ = bench.spaces.create_person(space_id, "Ana", ("admin",))
    owner, _ = bench.spaces.create_person(space_id, "Olu", ("outreach_admin",))
    source = bench.spaces.create_source(space_id, "Scout")
    _, key = bench.spaces.create_key(
        space_id,
        source_id=source.source_id,
        person_id=owner.person_id,
        scopes=("outreach_read", "outreach_write"),
    )
    bench.close()
    return Office(
        home=home,
        space_id=space_id,
        admin_id=admin.person_id,
        owner_id=owner.person_id,
        source_id=source.source_id,
        key=key,
    )


@pytest.fixture(scope="session")
def make_office() -> Callable[..., Office]:
    return add_space


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return add_space(tmp_path / "home", "Halden")


def days_ago(days: int) -> str:
    return (datetime.now(UTC) - timedelta(days=days)).date().isoformat()


@pytest.fixture(scope="session")
def finding() -> Callable[..., dict[str, Any]]:
    """Give the arguments of a save, about Kelva unless told, true ten days ago."""

    def give(body: str = "Kelva raised 12 million.", **fields: Any) -> dict[str, Any]:
        return {
            "domain": "kelva.dev",
            "body": body,
            "source_urls": ["https://news.example/kelva"],
            "observed_at": days_ago(10),
            **fields,
        }

    return give


class Agent:
    """The real MCP client, spoken to from ordinary tests."""

    def __init__(self, portal: Any, client: Client) -> None:
        self._portal = portal
        self.client = client

    def ask(self, method: Callable[..., Any], *arguments: Any) -> Any:
        return self._portal.call(method, *arguments)

    def result(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        return self.ask(self.client.call_tool, tool, dict(arguments))

    def call(self, tool: str, arguments: Mapping[str, Any]) -> tuple[bool, dict[str, Any]]:
        """Give (refused, the content: what stands under `data`, or the fault)."""
        result = self.result(tool, arguments)
        content = json.loads(result.content[0].text)
        return bool(result.is_error), content if result.is_error else content["data"]

    def answer(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        refused, content = self.call(tool, arguments)
        assert not refused, content
        return content

    def refusal(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        refused, content = self.call(tool, arguments)
        assert refused, content
        return content


@contextmanager
def _speaking(server: Any, mode: str) -> Iterator[Agent]:
    client = Client(server, mode=mode, read_timeout_seconds=PATIENCE_S)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(client) as entered:
        yield Agent(portal, entered)


@pytest.fixture(scope="session")
def in_process() -> Callable[..., AbstractContextManager[Agent]]:
    """Speak to a server object without a transport: the protocol and everything behind it."""
    return lambda server, mode="auto": _speaking(server, mode)


@pytest.fixture(scope="session")
def over_stdio() -> Callable[..., AbstractContextManager[Agent]]:
    """Start `memory-core mcp` for a workbench and a key, and speak to it over stdio."""

    def start(
        home: Path, key: str, *, mode: str = "auto", errlog: Any = sys.stderr, **environ: str
    ) -> AbstractContextManager[Agent]:
        parameters = StdioServerParameters(
            command=str(PROGRAM), args=["mcp"], env=clean_environment(home, MEMORY_CORE_KEY=key, **environ)
        )
        return _speaking(stdio_client(parameters, errlog=errlog), mode)

    return start


@contextmanager
def serve_over_http(home: Path, errors: Path, **environ: str) -> Iterator[str]:
    """Run `memory-core mcp --http` on a free port until the block ends; give its URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with errors.open("wb") as errlog:
        server = subprocess.Popen(
            [PROGRAM, "mcp", "--http", "--port", str(port)],
            env=clean_environment(home, **environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errlog,
        )
        try:
            _wait_for(server, port)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            server.terminate()
            server.wait(PATIENCE_S)


def _wait_for(server: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        assert server.poll() is None, "the server ended before it listened"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert time.monotonic() < deadline, "the server never listened"
            time.sleep(0.02)
        else:
            return


@pytest.fixture(scope="session")
def http_server() -> Callable[..., AbstractContextManager[str]]:
    return serve_over_http


@pytest.fixture(scope="session")
def over_http() -> Callable[..., AbstractContextManager[Agent]]:
    """Speak to a running server over streamable HTTP with a bearer key."""

    @contextmanager
    def start(url: str, key: str, *, mode: str = "auto") -> Iterator[Agent]:
        http_client = httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=PATIENCE_S)
        transport = streamable_http_client(url, http_client=http_client)
        client = Client(transport, mode=mode, read_timeout_seconds=PATIENCE_S)
        with (
            start_blocking_portal() as portal,
            portal.wrap_async_context_manager(http_client),
            portal.wrap_async_context_manager(client) as entered,
        ):
            yield Agent(portal, entered)

    return start


class Wire:
    """The server's bare stdin and stdout, for messages that no client would send."""

    def __init__(self, server: subprocess.Popen[bytes]) -> None:
        self.server = server
        self.lines: list[bytes] = []
        self._arrived: queue.Queue[bytes] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.server.stdout is not None
        for line in self.server.stdout:
            self.lines.append(line)
            self._arrived.put(line)

    def send(self, line: str) -> None:
        assert self.server.stdin is not None
        self.server.stdin.write(line.encode() + b"\n")
        self.server.stdin.flush()

    def receive(self) -> dict[str, Any]:
        received: dict[str, Any] = json.loads(self._arrived.get(timeout=PATIENCE_S))
        return received

    def ask(self, number: int, method: str, parameters: str = "{}") -> dict[str, Any]:
        """Send a request whose `params` are this text, escapes and all, and give the reply."""
        self.send(f'{{"jsonrpc":"2.0","id":{number},"method":"{method}","params":{parameters}}}')
        reply = self.receive()
        assert reply["id"] == number, reply
        return reply

    def call(self, number: int, tool: str, arguments: str) -> tuple[bool, dict[str, Any]]:
        """Call a tool with arguments as JSON text; give (refused, content)."""
        reply = self.ask(number, "tools/call", f'{{"name":"{tool}","arguments":{arguments}}}')
        content = json.loads(reply["result"]["content"][0]["text"])
        return reply["result"].get("isError", False), content

    def hang_up(self) -> tuple[int, str]:
        """Close stdin; give the exit code and everything on stderr."""
        assert self.server.stdin is not None
        assert self.server.stderr is not None
        self.server.stdin.close()
        code = self.server.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code, self.server.stderr.read().decode()


@pytest.fixture(scope="session")
def wired() -> Callable[..., AbstractContextManager[Wire]]:
    """Start `memory-core mcp` and shake hands by hand, as a client of the protocol's 2025-06-18 revision."""

    @contextmanager
    def start(home: Path, key: str, **environ: str) -> Iterator[Wire]:
        with subprocess.Popen(
            [PROGRAM, "mcp"],
            env=clean_environment(home, MEMORY_CORE_KEY=key, **environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as server:
            wire = Wire(server)
            try:
                hello = {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {},
                    "clientInfo": {"name": "tests", "version": "1"},
                }
                wire.ask(0, "initialize", json.dumps(hello))
                wire.send('{"jsonrpc":"2.0","method":"notifications/initialized"}')
                yield wire
            finally:
                server.kill()

    return start


@dataclass(frozen=True)
class Shell:
    """The command line of one workbench, run in this process."""

    home: Path

    def run(self, *arguments: str, **environ: str) -> Result:
        runner = CliRunner(env={"MEMORY_CORE_HOME": str(self.home), **environ})
        return runner.invoke(main, list(arguments), prog_name="memory-core")

    def document(self, *arguments: str, **environ: str) -> dict[str, Any]:
        """Run with `--json` and give the one document; stderr must be empty."""
        result = self.run(*arguments, "--json", **environ)
        assert (result.exit_code, result.stderr) == (0, ""), result.output
        document: dict[str, Any] = json.loads(result.stdout)
        return document

    def fault(self, *arguments: str, **environ: str) -> dict[str, Any]:
        """Run with `--json`, expect a refusal, and give it."""
        result = self.run(*arguments, "--json", **environ)
        assert (result.exit_code, result.stderr) == (1, ""), result.output
        fault: dict[str, Any] = json.loads(result.stdout)
        assert list(fault)[:2] == ["code", "message"]
        return fault


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    for name in [name for name in os.environ if name.startswith("MEMORY_CORE_")]:
        monkeypatch.delenv(name)
    return Shell(tmp_path / "home")


@pytest.fixture(scope="session")
def program() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the installed program as a shell would."""

    def run(home: Path, arguments: Sequence[str], **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PROGRAM, *arguments],
            env=clean_environment(home, **environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    return run
