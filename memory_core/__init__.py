"""The compact core of Memory Workbench: what a program needs to open a workbench and speak to its memories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memory_core.compose import Workbench, init_workbench, open_workbench
    from memory_core.errors import MemoryCoreError

__all__ = ["MemoryCoreError", "Workbench", "init_workbench", "open_workbench"]


def __getattr__(name: str) -> Any:
    # Late, so that a server that only wants to say hello does not wait for the database's library.
    if name in __all__:
        from memory_core import compose, errors

        return getattr(errors if name == "MemoryCoreError" else compose, name)
    raise AttributeError(name)
