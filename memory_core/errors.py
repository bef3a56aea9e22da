"""Every refusal the product can give: a kind, a stable code and details; never a text, a value or a key."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any


class Kind(Enum):
    """What sort of refusal it is; the surfaces map codes to statuses, callers branch on kinds."""

    INVALID = "invalid"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    LIMITED = "limited"
    UNAVAILABLE = "unavailable"


class MemoryCoreError(Exception):
    """A refusal with a stable `code`, a `message` that names fields, rules, counts and ids, and `details`."""

    def __init__(self, kind: Kind, code: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.code = code
        self.message = message
        self.details: dict[str, Any] = dict(details or {})

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.kind, self.code, self.message, self.details))


def invalid(field: str, rule: str, message: str, **details: Any) -> MemoryCoreError:
    """Refuse a field: `rule` is a stable snake_case word, `message` says what would be right."""
    return MemoryCoreError(
        Kind.INVALID, "invalid_input", f"{field}: {message}", {"field": field, "rule": rule, **details}
    )


def too_large(field: str, limit: int, unit: str = "bytes") -> MemoryCoreError:
    """Refuse a body or a request over its limit; nothing is ever cut."""
    return MemoryCoreError(
        Kind.INVALID,
        "payload_too_large",
        f"{field}: at most {limit} {unit}",
        {"field": field, "rule": "max_bytes", "limit": limit},
    )


def unauthenticated(message: str = "the key is missing, unknown, expired or revoked") -> MemoryCoreError:
    """Refuse a caller; one message for every cause, so that nothing can be probed."""
    return MemoryCoreError(Kind.UNAUTHENTICATED, "unauthenticated", message)


def forbidden(code: str, message: str, **details: Any) -> MemoryCoreError:
    """Refuse a known caller: a scope, a role, a flag of the space, or an owner is missing."""
    return MemoryCoreError(Kind.FORBIDDEN, code, message, details)


def not_found(what: str) -> MemoryCoreError:
    """Answer for an id that does not exist in this space; the same words where it exists in another."""
    where = "" if what == "space" else " in this space"
    return MemoryCoreError(Kind.NOT_FOUND, "not_found", f"no such {what}{where}")


def conflict(code: str, message: str, **details: Any) -> MemoryCoreError:
    """Refuse because of the present state; `details` carries the present values."""
    return MemoryCoreError(Kind.CONFLICT, code, message, details)


def limited(code: str, message: str, retry_after_s: int, **details: Any) -> MemoryCoreError:
    """Refuse until later: `retry_after_s` whole seconds, at least 1."""
    return MemoryCoreError(Kind.LIMITED, code, message, {**details, "retry_after_s": max(1, retry_after_s)})


def unavailable(message: str, **details: Any) -> MemoryCoreError:
    """Say that a part of the installation cannot serve now (key, database, model)."""
    return MemoryCoreError(Kind.UNAVAILABLE, "unavailable", message, details)
