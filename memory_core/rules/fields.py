"""Which fields a verb takes: what is missing or unknown is refused before any value is looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memory_core.errors import invalid


def check_fields(
    fields: Mapping[str, Any], required: Sequence[str], optional: Sequence[str] = ()
) -> dict[str, Any]:
    """Give all fields of a verb, absent ones as None; null counts as absent.

    Refuses by rule unknown_field (counted, since the name itself may be anything) and required.
    """
    known = (*required, *optional)
    unknown = len(set(fields) - set(known))
    if unknown:
        raise invalid("arguments", "unknown_field", f"{unknown} unknown; known are {', '.join(known)}")
    for name in required:
        if fields.get(name) is None:
            raise invalid(name, "required", "is required")
    return {name: fields.get(name) for name in known}
