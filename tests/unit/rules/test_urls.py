"""Two spellings of one page share a key; what a reader could take for another page does not."""

from __future__ import annotations

import pytest

from memory_core.errors import MemoryCoreError
from memory_core.rules.urls import canonical_url


def _rule(url: object) -> str:
    with pytest.raises(MemoryCoreError) as refusal:
        canonical_url(url)
    assert refusal.value.details["field"] == "source_urls"
    return str(refusal.value.details["rule"])


@pytest.mark.parametrize(
    "url",
    [
        "https://acme.example/about?x=1",
        "http://acme.example/about/?x=1",
        "HTTPS://WWW.Acme.example:443/about?x=1#y",
        "http://acme.example:80/about?x=1",
        "https://acme.example./about?x=1",
        "https://acme.example/./team/../about?x=1",
        "https://acme.example/%61bout?x=1",
        "https://acme.example/about?utm_source=mail&x=1&fbclid=abc",
        "https://acme.example/about?x=1&",
    ],
)
def test_case_058_spellings_of_a_page_share_a_key(url: str) -> None:
    assert canonical_url(url) == "acme.example/about?x=1"


def test_case_062_www_is_dropped_only_where_a_domain_is_left() -> None:
    assert canonical_url("https://www.com/") == "www.com"
    assert canonical_url("https://www.co.uk/") == "www.co.uk"
    assert canonical_url("https://www.acme.co.uk/") == "acme.co.uk"


def test_case_064_a_parameter_without_a_value_is_dropped_and_a_nested_url_stays_whole() -> None:
    url = "https://a.example/?utm_campaign&continue=https%3A%2F%2Fb.example%2F%3Futm_campaign%3Dz"
    assert canonical_url(url) == "a.example?continue=https%3A%2F%2Fb.example%2F%3Futm_campaign%3Dz"


@pytest.mark.parametrize(
    "name",
    [
        "utm_source",
        "UTM_Medium",
        "utm_id",
        "gclid",
        "fbclid",
        "msclkid",
        "mc_cid",
        "mc_eid",
        "igshid",
        "_hsenc",
        "_hsmi",
        "yclid",
        "dclid",
        "gbraid",
        "wbraid",
        "twclid",
        "ttclid",
        "li_fat_id",
        "vero_id",
        "oly_anon_id",
        "oly_enc_id",
        "s_cid",
        "ref_src",
    ],
)
def test_tracking_parameters_are_dropped(name: str) -> None:
    assert canonical_url(f"https://a.example/p?{name}=1&q=2") == "a.example/p?q=2"


@pytest.mark.parametrize("name", ["ref", "source", "id", "page", "lang", "v", "spm_id", "utmost", "campaign"])
def test_parameters_that_can_select_a_page_are_kept(name: str) -> None:
    assert canonical_url(f"https://a.example/p?{name}=1") == f"a.example/p?{name}=1"


def test_parameters_are_sorted_by_name_and_repeated_ones_keep_their_order() -> None:
    assert canonical_url("https://a.example/?b=2&a=9&b=1&a=3") == "a.example?a=9&a=3&b=2&b=1"
    assert canonical_url("https://a.example/?flag&a=") == "a.example?a=&flag"


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/%7euser", "/~user"),
        ("/a%2fb", "/a%2Fb"),
        ("/ä", "/%C3%A4"),
        ("/%c3%a4", "/%C3%A4"),
        ("/%zz", "/%25zz"),
        ("/a//b", "/a//b"),
        ("/a|b", "/a%7Cb"),
        ("/A", "/A"),
        ("/%252e", "/%252e"),
        ("/a/%2e%2e/b", "/b"),
        ("", ""),
        ("//", ""),
    ],
)
def test_percent_encoding_and_dot_segments_are_normalised(path: str, key: str) -> None:
    """RFC 3986 section 6.2.2: unreserved characters are decoded, reserved ones stay encoded, in capitals."""
    assert canonical_url(f"https://a.example{path}") == f"a.example{key}"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://a.example:8443/", "https://a.example/"),
        ("https://a.example/x", "https://a.example/X"),
        ("https://a.example/a%2Fb", "https://a.example/a/b"),
        ("https://a.example/?q=a%26b", "https://a.example/?q=a&b"),
        ("https://notkelva.example/", "https://kelva.example/"),
        ("https://a.example/?page=1", "https://a.example/?page=2"),
    ],
)
def test_other_pages_have_other_keys(one: str, other: str) -> None:
    assert canonical_url(one) != canonical_url(other)


def test_an_internationalised_host_and_its_punycode_are_one_page() -> None:
    assert (
        canonical_url("https://straße.example/")
        == canonical_url("https://xn--strae-oqa.example")
        == ("xn--strae-oqa.example")
    )


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        (None, "type"),
        (5, "type"),
        (b"https://a.example", "type"),
        ("", "empty"),
        ("https://" + "a" * 2_040, "max_bytes"),
        ("https://a.example/" + "ä" * 1_020, "max_bytes"),
        ("ftp://a.example/", "scheme"),
        ("javascript:alert(1)", "scheme"),
        ("file:///etc/passwd", "scheme"),
        ("data:text/html,x", "scheme"),
        ("a.example/x", "not_a_url"),
        ("//a.example/x", "not_a_url"),
        ("https:a.example", "not_a_url"),
        ("https:/a.example", "not_a_url"),
        ("https:///a.example", "host"),
        ("https://", "host"),
        ("https://:80/", "host"),
        ("https://?x", "host"),
        ("https://user:pw@a.example/", "credentials"),
        ("https://user@a.example/", "credentials"),
        ("https://@a.example/", "credentials"),
        ("https://a.example\\@evil.example/", "characters"),
        ("https://a.example/a b", "characters"),
        (" https://a.example/", "characters"),
        ("https://a.example/\n", "characters"),
        ("https://a.exa\tmple/", "characters"),
        ("https://a.example/\u202e", "characters"),
        ("https://a.example/\ud83d", "characters"),
        ("https://%61.example/", "characters"),
        ("https://a.example:99999/", "not_a_url"),
        ("https://a<b.example/", "not_a_url"),
    ],
)
def test_what_is_no_page_is_refused_by_a_rule(url: object, rule: str) -> None:
    assert _rule(url) == rule


def test_a_url_of_2047_bytes_is_the_longest() -> None:
    url = "https://a.example/" + "x" * (2_047 - len("https://a.example/"))
    assert canonical_url(url)
    assert _rule(url + "x") == "max_bytes"


def test_a_refusal_never_repeats_the_url() -> None:
    with pytest.raises(MemoryCoreError) as refusal:
        canonical_url("https://user:hunter2@a.example/?key=hunter2", "evidence")
    assert "hunter2" not in str(refusal.value) + repr(refusal.value.details)
    assert refusal.value.details["field"] == "evidence"
