"""One way to write a value as text: times in UTC of one width, RFC 8785 for hashes, compact JSON for what is sent."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import rfc8785


def moment(at: datetime) -> str:
    """Write an aware time in UTC with microseconds; equal widths sort as time."""
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def canonical(value: Any) -> str:
    """Write the RFC 8785 form, for hashes and digests."""
    return rfc8785.dumps(value).decode()


def compact(value: Any) -> str:
    """Write the JSON that is sent: no spaces, characters as they are; its size is counted in UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def size(value: Any) -> int:
    """Count the bytes of the JSON that is sent."""
    return len(compact(value).encode())
