"""Where a workbench lies: apart from `compose`, so that a server can look for it without opening a database."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from memory_core.errors import MemoryCoreError, unavailable

DATABASE = "memory.db"
KEY_FILE = "master-keys.json"
REPORTS = "reports"


def home_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Give the folder of the workbench: MEMORY_CORE_HOME, else ~/.memory-core."""
    return Path(environ.get("MEMORY_CORE_HOME") or Path.home() / ".memory-core").expanduser().absolute()


def no_workbench(home: Path) -> MemoryCoreError:
    """Make the refusal of a folder without a workbench."""
    return unavailable(f"there is no workbench in {home}; run `memory-core init` first")
