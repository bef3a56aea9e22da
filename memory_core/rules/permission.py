"""Who may do what: one table of acts, and the decision for a principal.

A source's key needs the scope (and, to write prospect notes, an owner with the role); a person signed in, or named by
the operator, needs a role; a person's key needs the scope and the role.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from memory_core.errors import forbidden
from memory_core.model import ROLES, Principal

IMPLIED_SCOPES: Mapping[str, str] = MappingProxyType({"context": "agent_memory"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What an act needs. `scope` None: a key of a source may never do it; `by_key`: nobody may without a key."""

    scope: str | None
    by_key: bool = False
    roles: tuple[str, ...]
    owner_roles: tuple[str, ...] = ()
    prospect_memory: bool = False


ACTS: Mapping[str, Act] = MappingProxyType(
    {
        "recall": Act(scope="outreach_read", roles=ROLES, prospect_memory=True),
        "read_guide": Act(scope="outreach_read", roles=ROLES, prospect_memory=True),
        "save": Act(
            scope="outreach_write",
            by_key=True,
            roles=("outreach_admin",),
            owner_roles=("outreach_admin",),
            prospect_memory=True,
        ),
        "compact": Act(
            scope="outreach_write",
            by_key=True,
            roles=("outreach_admin",),
            owner_roles=("outreach_admin",),
            prospect_memory=True,
        ),
        "delete_note": Act(scope=None, roles=("outreach_admin", "admin"), prospect_memory=True),
        "undo_compaction": Act(scope=None, roles=("outreach_admin", "admin"), prospect_memory=True),
        "propose_settings": Act(scope=None, roles=("integration", "admin")),
        "decide_settings": Act(scope=None, roles=("admin",)),
        "read_receipts": Act(scope=None, roles=("admin",)),
    }
)


def check(act: str, principal: Principal) -> None:
    """Refuse (403) where the key lacks the scope, the person or owner the role, or the space the add-on.

    Order: scope, then role, then the flags of the space.
    """
    needs = ACTS[act]
    by_key = principal.actor.key_id is not None
    if needs.by_key and not by_key:
        raise forbidden(
            "scope_missing", "only tools do this: it takes a key with the scope", scope=needs.scope
        )
    by_source = principal.actor.kind == "source"
    if by_source and needs.scope is None:
        raise forbidden(
            "role_missing", "only a person may do this; no key of a source can", roles=list(needs.roles)
        )
    if by_key and needs.scope is not None and needs.scope not in _with_implied(principal.scopes):
        raise forbidden("scope_missing", f"the key lacks the scope {needs.scope}", scope=needs.scope)
    roles = needs.owner_roles if by_source else needs.roles
    if roles and not principal.roles & set(roles):
        whose = "the key's owner" if by_source else "the person"
        raise forbidden(
            "role_missing", f"{whose} needs one of the roles {', '.join(roles)}", roles=list(roles)
        )
    if needs.prospect_memory and not principal.space.outreach:
        raise forbidden("outreach_not_enabled", "the space has no outreach add-on")
    if needs.prospect_memory and not principal.space.subscription:
        raise forbidden("subscription_inactive", "the space's subscription is not active")


def _with_implied(scopes: frozenset[str]) -> frozenset[str]:
    return scopes | {IMPLIED_SCOPES[scope] for scope in scopes if scope in IMPLIED_SCOPES}
