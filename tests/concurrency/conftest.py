"""Real processes on one workbench: they start together at a signal, and whatever is left of them is ended."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

WORKER = Path(__file__).with_name("worker.py")
PATIENCE_S = 120

Act = tuple[str, dict[str, Any]]


@dataclass
class Worker:
    """One process that waits for its acts; `outcomes` are read line by line, so a killed one leaves what it wrote."""

    running: subprocess.Popen[str]
    outcomes: list[dict[str, Any]] = field(default_factory=list)

    def ready(self) -> Worker:
        assert self.running.stdout is not None
        assert self.running.stdout.readline() == "ready\n"
        return self

    def go(self, acts: Sequence[Act]) -> None:
        assert self.running.stdin is not None
        self.running.stdin.write(json.dumps(acts) + "\n")
        self.running.stdin.flush()

    def next(self) -> dict[str, Any] | None:
        """Give the next outcome; None where the process is gone."""
        assert self.running.stdout is not None
        line = self.running.stdout.readline()
        if not line.endswith("\n"):
            return None
        self.outcomes.append(json.loads(line))
        return self.outcomes[-1]

    def finish(self) -> list[dict[str, Any]]:
        while self.next() is not None:
            pass
        self.running.wait(PATIENCE_S)
        return self.outcomes


@pytest.fixture
def start(desk: Any) -> Iterator[Callable[..., Worker]]:
    """Start a worker on the desk's workbench with its key and its time; it has opened the workbench when given."""
    started: list[Worker] = []

    def begin(*options: str, now: str | None = None) -> Worker:
        command = [
            *(sys.executable, str(WORKER), str(desk.bench.home)),
            *("--key", desk.key.text, "--space", desk.space_id, "--now", now or desk.clock.at.isoformat()),
            *options,
        ]
        worker = Worker(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        )
        started.append(worker)
        return worker

    yield begin
    for worker in started:
        if worker.running.poll() is None:
            worker.running.kill()
        worker.running.wait()
        for pipe in (worker.running.stdin, worker.running.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                continue


@pytest.fixture
def together(start: Callable[..., Worker]) -> Callable[..., list[list[dict[str, Any]]]]:
    """Run one list of acts a process, all at once, and give their outcomes in the order of the lists."""

    def run(*lists: Sequence[Act]) -> list[list[dict[str, Any]]]:
        workers = [start() for _ in lists]
        for worker in workers:
            worker.ready()
        for worker, acts in zip(workers, lists, strict=True):
            worker.go(acts)
        done = [worker.finish() for worker in workers]
        for worker, acts, outcomes in zip(workers, lists, done, strict=True):
            assert (worker.running.returncode, len(outcomes)) == (0, len(acts))
        return done

    return run


@pytest.fixture
def finding() -> Callable[..., dict[str, Any]]:
    def make(body: str, domain: str = "kelva.example", **fields: Any) -> dict[str, Any]:
        return {
            "domain": domain,
            "body": body,
            "source_urls": ["https://news.example/kelva"],
            "observed_at": "2026-11-10",
            **fields,
        }

    return make
