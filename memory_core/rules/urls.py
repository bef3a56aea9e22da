"""One canonical form a cited page; two spellings of it share the form, and nothing is ever fetched."""

from __future__ import annotations

import re
from urllib.parse import unquote_plus

import ada_url

from memory_core.errors import invalid
from memory_core.policy import Policy
from memory_core.rules.domains import is_public_suffix

_MAX_BYTES = Policy().max_url_bytes

# Parameters that only say where a visitor came from. Names that can select a page (ref, source, id, lang) are kept:
# two pages taken for one would hide a source, one page taken for two costs a line in a report.
_TRACKING = """
    gclid gclsrc dclid gbraid wbraid gad gad_source gad_campaignid srsltid _ga _gl
    fbclid fb_action_ids fb_action_types fb_source fb_ref
    msclkid yclid ysclid _openstat ymclid twclid ttclid li_fat_id rdt_cid epik igshid igsh sccid scclid
    mc_cid mc_eid mkt_tok _hsenc _hsmi __hssc __hstc __hsfp hsctatracking vero_id vero_conv
    oly_anon_id oly_enc_id s_cid s_kwcid ef_id icid ncid wickedid irclickid irgwc cjevent
    _branch_match_id _branch_referrer _kx _ke dm_i ck_subscriber_id ref_src ref_url
    ml_subscriber ml_subscriber_hash rb_clickid mibextid wt_mc at_medium at_campaign
    """
_TRACKING_NAMES = frozenset(_TRACKING.split())
_TRACKING_PREFIXES = ("utm_", "hsa_", "pk_", "mtm_", "matomo_", "piwik_")

_AUTHORITY = re.compile(r"https?://([^/?#]*)", re.IGNORECASE)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
# White space, controls, the backslash that browsers read as a slash, and what makes two readers see two URLs.
_REFUSED = re.compile(
    r"[\x00-\x20\x7f-\x9f\\\u1680\u2000-\u200f\u2028-\u202f\u205f-\u2064\u3000\ufeff\xa0\xad]"
)
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})|[^A-Za-z0-9\-._~:/?@!$&'()*+,;=]")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def canonical_url(url: object, field: str = "source_urls") -> str:
    """Give the key of a page, `host[:port]/path?query`; putting a scheme before it and asking again changes nothing.

    Raises `invalid_input` for the field by rule: type, max_bytes, characters, scheme, host, credentials, not_a_url.
    The host follows the WHATWG URL standard, percent-encoding RFC 3986 section 6.2.2.
    """
    if not isinstance(url, str):
        raise invalid(field, "type", "must be a URL as a text")
    if len(url) > _MAX_BYTES or len(url.encode(errors="surrogatepass")) > _MAX_BYTES:
        raise invalid(field, "max_bytes", f"a URL has at most {_MAX_BYTES} bytes", limit=_MAX_BYTES)
    if not url:
        raise invalid(field, "empty", "a URL must not be empty")
    if _REFUSED.search(url) or any("\ud800" <= character <= "\udfff" for character in url):
        raise invalid(field, "characters", "a URL holds no white space, control character or backslash")
    authority = _AUTHORITY.match(url)
    if authority is None:
        if _SCHEME.match(url) and not url.lower().startswith(("http:", "https:")):
            raise invalid(field, "scheme", "a URL starts with http:// or https://")
        raise invalid(field, "not_a_url", "must be a whole URL that starts with http:// or https://")
    if "@" in authority[1]:
        raise invalid(field, "credentials", "a URL carries no user name or password")
    if not authority[1].partition(":")[0]:
        raise invalid(field, "host", "a URL names a host")
    if "%" in authority[1]:
        raise invalid(field, "characters", "a URL's host is not percent-encoded")
    parsed = _parse(url, field)
    host = _host(parsed.hostname, field)
    # The scheme is ignored, so the default port of either is.
    port = f":{parsed.port}" if parsed.port not in ("", "80", "443") else ""
    path = _escaped(parsed.pathname).rstrip("/")
    query = _query(parsed.search[1:])
    return f"{host}{port}{path}{'?' if query else ''}{query}"


def _parse(url: str, field: str) -> ada_url.URL:
    try:
        return ada_url.URL(url)
    except ValueError:
        raise invalid(field, "not_a_url", "must be a URL that a browser would open") from None


def _host(host: str, field: str) -> str:
    host = host.rstrip(".")
    if not host:
        raise invalid(field, "host", "a URL names a host")
    while host.startswith("www.") and "." in host[4:] and not is_public_suffix(host[4:]):
        host = host[4:]
    return host


def _query(query: str) -> str:
    pairs = [(_name(pair), _escaped(pair)) for pair in query.split("&") if pair]
    # Sorted by name alone: the order of values under one name can mean something.
    return "&".join(pair for name, pair in sorted(pairs, key=lambda named: named[0]) if not _tracks(name))


def _name(pair: str) -> str:
    return unquote_plus(pair.partition("=")[0])


def _tracks(name: str) -> bool:
    name = name.lower()
    return name in _TRACKING_NAMES or name.startswith(_TRACKING_PREFIXES)


def _escaped(text: str) -> str:
    return _ESCAPE.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    if found[1] is None:
        return "".join(f"%{byte:02X}" for byte in found[0].encode())
    character = chr(int(found[1], 16))
    return character if character in _UNRESERVED else found[0].upper()


__all__ = ["canonical_url"]
