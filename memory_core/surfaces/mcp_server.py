"""The prospect memory over MCP: four tools and one prompt, over stdio or streamable HTTP.

Nothing but the protocol reaches stdout. Storage and model are opened shortly after the start, in the background, so
that a client connects at once and its first call waits for nothing.
"""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from memory_core.errors import MemoryCoreError, not_found, too_large, unauthenticated, unavailable
from memory_core.formats.canonical import compact
from memory_core.policy import Policy
from memory_core.surfaces import wire
from memory_core.surfaces.faults import HTTP_STATUS, fault_json

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from memory_core.compose import Workbench

# A client that connects and lists tools is served before these threads compete for the interpreter.
_OPEN_AFTER_S = 0.5

INSTRUCTIONS = (
    "Research memory about companies. Recall a company before any web search; save each finding once, with its "
    "source and date; leave merging and deleting to a person."
)

Open = Callable[[], "Workbench"]
KeyOf = Callable[[], str]

# The key of the HTTP request that is being served. Set nowhere but behind the check of the key, and without a default:
# a call that came another way fails.
_KEY: ContextVar[str] = ContextVar("key")


def build_server(open_workbench: Open, key_of: KeyOf) -> Server[dict[str, Any]]:
    """Give the server; `key_of` is asked at each call for the caller's key."""

    async def list_tools(_: object, __: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=_tools())

    async def call_tool(_: object, params: types.CallToolRequestParams) -> types.CallToolResult:
        key, arguments = key_of(), params.arguments or {}
        return await anyio.to_thread.run_sync(lambda: _call(open_workbench, key, params.name, arguments))

    async def list_prompts(_: object, __: object) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[_prompt()])

    async def get_prompt(_: object, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        return _prompt_text(params.name, params.arguments or {})

    return Server(
        "memory-core",
        version=version("memory-workbench"),
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
    )


def serve_stdio(open_workbench: Open, key: str) -> None:
    """Serve one client over stdin and stdout until it hangs up."""
    log_to_stderr()
    opened = Shared(open_workbench)
    opened.soon()
    server = build_server(opened, lambda: key)

    async def run() -> None:
        async with stdio_server(stdin=_Lines()) as (read, write):  # type: ignore[arg-type]
            await server.run(read, write, server.create_initialization_options())

    anyio.run(run)


def serve_http(open_workbench: Open, host: str, port: int) -> None:
    """Serve many clients over streamable HTTP at /mcp; each call carries its key as a bearer token.

    Raises `unavailable` where the workbench does not open or the port cannot be had.
    """
    import uvicorn

    log_to_stderr()
    opened = Shared(open_workbench)
    # A server of many clients opens before it listens: what is missing is told once, at the start.
    opened.ready()
    app = build_server(opened, _KEY.get).streamable_http_app(
        json_response=True,
        stateless_http=True,
        host=host,
        max_request_body_size=Policy().max_request_bytes,
    )
    config = uvicorn.Config(_keyed(app, opened), log_config=None, access_log=False)
    with _listening(host, port) as listener:
        shown = f"[{host}]" if ":" in host else host
        sys.stderr.write(f"listening on http://{shown}:{listener.getsockname()[1]}/mcp\n")
        sys.stderr.flush()
        # Ctrl-C is how a person ends the server.
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listener])


def _listening(host: str, port: int) -> socket.socket:
    # Bound here, not by the web server, which would log a taken port and go on to shut down what it had started.
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        # A server that was just stopped leaves its port waiting; a port that another one listens on stays refused.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen()
    except OSError as error:
        listener.close()
        raise unavailable(f"port {port} cannot be served: {error.strerror}") from error
    return listener


def _keyed(app: ASGIApp, open_workbench: Open) -> ASGIApp:
    """Put the first two checks of every surface before the app: the size of the request, then its key."""
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse

    async def keyed(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            body = await _body(request)
            key = await _recognised_key(request, open_workbench)
        except ClientDisconnect:
            # Nobody is left to answer.
            return
        except Exception as error:  # noqa: BLE001 - the web server would log its words
            fault = fault_json(error)
            headers = {"WWW-Authenticate": "Bearer"} if fault["code"] == "unauthenticated" else None
            await JSONResponse(fault, HTTP_STATUS[fault["code"]], headers)(scope, receive, send)
            return
        unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return unread.pop() if unread else await receive()

        # The tools run in tasks that the app starts from this one, each with a copy of this context.
        _KEY.set(key)
        await app(scope, replay, send)

    return keyed


async def _body(request: Request) -> bytes:
    """Read the body. Raises `payload_too_large` before reading where the length is told, else as soon as it is over."""
    limit = Policy().max_request_bytes
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise too_large("request", limit)
    body = bytearray()
    async for chunk in request.stream():
        if len(body) + len(chunk) > limit:
            raise too_large("request", limit)
        body += chunk
    return bytes(body)


async def _recognised_key(request: Request, open_workbench: Open) -> str:
    """Give the bearer key's text; the tools check scope and role themselves. Raises `unauthenticated`."""
    from memory_core.admission import KeyText

    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    key = key.strip()
    if scheme.lower() != "bearer" or not key:
        raise unauthenticated()
    await anyio.to_thread.run_sync(lambda: open_workbench().admission.recognise(KeyText(key)))
    return key


def log_to_stderr() -> None:
    """Send what is logged to stderr; libraries below a warning stay silent."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s"
    )


class Shared:
    """A workbench opened once a process, on first use or shortly after start, whichever comes first."""

    def __init__(self, open_workbench: Open) -> None:
        self._open = open_workbench
        self._lock = threading.Lock()
        self._workbench: Workbench | None = None

    def __call__(self) -> Workbench:
        with self._lock:
            if self._workbench is None:
                self._workbench = self._open()
            return self._workbench

    def ready(self) -> None:
        """Open, and load what first calls would wait for. Raises `unavailable` where the workbench does not open.

        A model that does not load is told by the answers that would have needed it.
        """
        from memory_core.rules.domains import registrable_domain

        bench = self()
        try:
            # The list of public suffixes is read on first use (35 ms), the model on its own.
            registrable_domain("company.example")
            bench.embedder.load()
        except MemoryCoreError as error:
            logging.getLogger("memory_core").warning("not ready: %s", error.message)

    def soon(self) -> None:
        """Get ready in the background; a workbench that does not open ends the process with one clear line."""

        def prepare() -> None:
            try:
                self.ready()
            except MemoryCoreError as error:
                sys.stderr.write(f"error: {error.message} ({error.code})\n")
                sys.stderr.flush()
                os._exit(1)

        timer = threading.Timer(_OPEN_AFTER_S, prepare)
        timer.daemon = True
        timer.start()


# -- tools ----------------------------------------------------------------------------------------


def _call(open_workbench: Open, key: str, name: str, arguments: Mapping[str, Any]) -> types.CallToolResult:
    try:
        answer = _answer(open_workbench, key, name, arguments)
    except Exception as error:  # noqa: BLE001 - the last place before the protocol
        fault = fault_json(error)
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=compact(fault))],
            is_error=True,
            _meta={"error": fault},
        )
    return types.CallToolResult(content=[types.TextContent(type="text", text=compact({"data": answer}))])


def _answer(open_workbench: Open, key: str, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    from memory_core.admission import KeyText
    from memory_core.formats import answers

    if name not in wire.TOOLS:
        open_workbench().admission.recognise(KeyText(key))
        raise not_found("tool")
    size_bytes = len(json.dumps(arguments, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    prospects, caller = open_workbench().prospects, KeyText(key)
    if name == "outreach_recall_prospect_context":
        return answers.recall_json(prospects.recall(caller, arguments, size_bytes=size_bytes))
    if name == "outreach_save_prospect_research":
        return answers.saved_json(*prospects.save(caller, arguments, size_bytes=size_bytes))
    if name == "outreach_compact_prospect_context":
        return answers.compacted_json(prospects.compact(caller, arguments, size_bytes=size_bytes))
    language, text = prospects.writing_guide(caller, arguments, size_bytes=size_bytes)
    return {"language": language, "guide": text}


def _tools() -> list[types.Tool]:
    return [
        types.Tool(
            name=name,
            description=tool.description,
            input_schema=tool.schema(),
            annotations=types.ToolAnnotations(
                read_only_hint=tool.read_only,
                destructive_hint=tool.destructive,
                idempotent_hint=tool.read_only or name == "outreach_save_prospect_research",
                open_world_hint=False,
            ),
        )
        for name, tool in wire.TOOLS.items()
    ]


# -- prompt ---------------------------------------------------------------------------------------


def _prompt() -> types.Prompt:
    return types.Prompt(
        name=wire.PROMPT_NAME,
        description=wire.PROMPT_DESCRIPTION,
        arguments=[
            types.PromptArgument(name="campaign", description="The campaign's name.", required=True),
            types.PromptArgument(name="language", description="The campaign's language.", required=False),
        ],
    )


def _prompt_text(name: str, arguments: Mapping[str, str]) -> types.GetPromptResult:
    from mcp.shared.exceptions import MCPError

    if name != wire.PROMPT_NAME or not arguments.get("campaign", "").strip():
        raise MCPError(code=types.INVALID_PARAMS, message="daily_research_pass needs a campaign")
    text = wire.daily_research_pass(arguments["campaign"].strip(), arguments.get("language"))
    message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
    return types.GetPromptResult(description=wire.PROMPT_DESCRIPTION, messages=[message])


# -- transport ------------------------------------------------------------------------------------

# A pair, a lone surrogate, or any other escape: read from the left, so that an escaped backslash hides none.
_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}|\\."
)
_LONE_CHARS = 6


class _Lines:
    """Lines of stdin for the transport, in which no lone surrogate is left.

    The protocol's parser drops a message that holds one, and its sender would wait until its own time-out. The
    surrogate is replaced by NUL, which every text field refuses with an error that names the field.
    """

    async def __aiter__(self) -> AsyncIterator[str]:
        stream = sys.stdin.buffer
        while line := await anyio.to_thread.run_sync(stream.readline, abandon_on_cancel=True):
            yield _mended(line.decode("utf-8", "replace"))


def _mended(line: str) -> str:
    # The text alone is looked at: parsing it here would give a deeply nested message the chance to end the server.
    return _ESCAPE.sub(lambda found: r"\u0000" if len(found[0]) == _LONE_CHARS else found[0], line)
