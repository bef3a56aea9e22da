"""Which way things depend, what rules may not do, and that the documents are written from the code."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = ROOT / "memory_core"
RULES = sorted((CORE / "rules").glob("*.py"))
MODULES = sorted(path for part in ("memory_core", "app", "eval") for path in (ROOT / part).rglob("*.py"))

# Rules decide from their arguments alone: no files, no clock, no chance, no processes, no log.
IMPURE = {
    "io",
    "logging",
    "os",
    "pathlib",
    "random",
    "secrets",
    "shutil",
    "socket",
    "subprocess",
    "tempfile",
    "time",
}
BANNED = {"manager", "helper", "helpers", "utils", "util", "data", "info", "process"}


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_the_contracts_between_the_layers_hold(tmp_path: Path) -> None:
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = run(sys.executable, "-c", program, "--cache-dir", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_the_core_imports_neither_the_console_nor_the_harness() -> None:
    for path in CORE.rglob("*.py"):
        assert not {each.split(".")[0] for each in imports(path)} & {"app", "eval"}, name_of(path)


def test_sql_is_spoken_in_storage_and_wired_in_compose_only() -> None:
    speakers = {
        name_of(path)
        for path in MODULES
        if any(each.split(".")[0] in ("sqlalchemy", "alembic") for each in imports(path))
    }
    elsewhere = {path for path in speakers if not path.startswith("memory_core/storage/")}
    assert elsewhere <= {"memory_core/compose.py"}


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
def test_a_rule_has_no_files_no_clock_and_no_chance(path: Path) -> None:
    assert not {each.split(".")[0] for each in imports(path)} & IMPURE
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            assert called not in ("now", "utcnow", "today", "open", "print", "input"), f"line {node.lineno}"


def test_no_module_has_a_name_that_says_nothing() -> None:
    for path in MODULES:
        assert not set(path.stem.split("_")) & BANNED, name_of(path)


def test_every_module_says_what_it_is() -> None:
    for path in MODULES:
        if path.stat().st_size and "versions" not in path.parts:
            assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), name_of(path)


@pytest.mark.parametrize("document", ["README.md", "ARCHITECTURE.md"])
def test_what_a_document_says_of_the_code_is_written_from_the_code(document: str) -> None:
    done = run(sys.executable, "-m", "cogapp", "--check", document)
    assert done.returncode == 0, done.stdout + done.stderr
