"""A company's key is one whatever spelling it comes in, and what is no company's domain is refused by a rule."""

from __future__ import annotations

from typing import NoReturn

import pytest

from memory_core.errors import MemoryCoreError
from memory_core.rules import domains
from memory_core.rules.domains import address_and_domain, is_public_suffix, registrable_domain


def _rule(text: object) -> str:
    with pytest.raises(MemoryCoreError) as refusal:
        registrable_domain(text)
    assert refusal.value.code == "invalid_input"
    assert refusal.value.details["field"] == "domain"
    return str(refusal.value.details["rule"])


@pytest.mark.parametrize(
    "spelling",
    [
        "acme.example",
        "ACME.example",
        "www.acme.example",
        "acme.example/",
        "acme.example/about?x=1",
        "acme.example:8443",
        "HTTPS://WWW.Acme.example:443/about?x=1#y",
        "//acme.example/about",
        "Jo@ACME.example",
        "mailto:jo@acme.example?subject=hi",
        "Jo Doe <jo@acme.example>",
        "  acme.example\n",
        "ａｃｍｅ.example",
        "acme。example",
    ],
)
def test_case_058_all_spellings_of_a_host_are_one_key(spelling: str) -> None:
    assert registrable_domain(spelling) == "acme.example"


@pytest.mark.parametrize(
    "spelling", ["acme.example.", "acme.example..", "https://acme.example./", "jo@acme.example."]
)
def test_case_059_dots_at_the_end_make_no_other_company(spelling: str) -> None:
    assert registrable_domain(spelling) == "acme.example"


@pytest.mark.parametrize("text", ["www.com", "https://www.co.uk/a", "www.www.com", "jo@www.com"])
def test_case_062_www_before_a_public_suffix_is_refused_and_never_becomes_the_suffix(text: str) -> None:
    with pytest.raises(MemoryCoreError) as caught:
        registrable_domain(text)
    assert caught.value.details["rule"] == "public_suffix"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("co.uk", "public_suffix"),
        ("localhost", "single_label"),
        ("10.0.0.1", "ip_address"),
        ("", "empty"),
        ("  ", "empty"),
        ("user@", "not_a_domain"),
        ("@acme.example", "not_a_domain"),
        ("example", "single_label"),
    ],
)
def test_case_062_what_is_no_company_is_refused_with_its_reason(text: str, rule: str) -> None:
    assert _rule(text) == rule


@pytest.mark.parametrize("other", ["notkelva.com", "kelva.com.ar", "kelvalabs.com", "kelva.co"])
def test_case_122_a_look_alike_is_another_company(other: str) -> None:
    assert registrable_domain("kelva.com") == "kelva.com"
    assert registrable_domain(other) == other


@pytest.mark.parametrize(
    "text", ["kel%a.com", "kel_a.com", "*.kelva.com", "kel va.com", "kelva.com\\x", "i❤.ws", "xn--i-7iq.ws"]
)
def test_case_122_a_host_with_a_character_no_domain_has_is_refused(text: str) -> None:
    assert _rule(text) == "characters"


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("shop.acme.co.uk", "acme.co.uk"),
        ("acme.github.io", "acme.github.io"),
        ("docs.acme.github.io", "acme.github.io"),
        ("mail.kelva.com.ar", "kelva.com.ar"),
        ("a.city.kawasaki.jp", "city.kawasaki.jp"),
        ("r3---sn.acme.dev", "acme.dev"),
        ("deep.sub.acme.unknowntld", "acme.unknowntld"),
    ],
)
def test_the_domain_is_one_label_more_than_the_public_suffix(text: str, domain: str) -> None:
    assert registrable_domain(text) == domain


def test_a_private_suffix_by_itself_is_refused() -> None:
    assert _rule("github.io") == "public_suffix"
    assert is_public_suffix("github.io")
    assert not is_public_suffix("acme.github.io")


@pytest.mark.parametrize(
    ("one", "other", "key"),
    [
        ("straße.de", "XN--STRAE-OQA.de", "xn--strae-oqa.de"),
        ("bücher.example", "xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("bu\u0308cher.example", "BÜCHER.example", "xn--bcher-kva.example"),
        ("食狮.公司.cn", "xn--85x722f.xn--55qx5d.cn", "xn--85x722f.xn--55qx5d.cn"),
    ],
)
def test_an_internationalised_name_and_its_punycode_are_one_key(one: str, other: str, key: str) -> None:
    assert registrable_domain(one) == registrable_domain(other) == key


def test_a_sharp_s_is_not_double_s() -> None:
    """IDNA 2008 keeps the sharp s; the standard library's codec would send it to another company."""
    assert registrable_domain("straße.de") != registrable_domain("strasse.de")


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1",
        "127.1",
        "0x7f.1",
        "0x7f000001",
        "017700000001",
        "2130706433",
        "１２７.0.0.1",
        "127.0.0.1.",
        "[::1]",
        "::1",
        "2001:db8::1",
        "https://[::1]:8080/x",
        "http://127.1/",
        "jo@127.0.0.1",
    ],
)
def test_an_ip_address_is_refused_in_every_spelling_a_browser_takes(text: str) -> None:
    assert _rule(text) == "ip_address"


@pytest.mark.parametrize(
    "text", ["https://jo:pw@acme.dev", "https://jo@acme.dev/", "https://@acme.dev", "jo:pw@acme.dev"]
)
def test_a_url_with_credentials_is_refused(text: str) -> None:
    assert _rule(text) == "credentials"


@pytest.mark.parametrize(
    "text",
    [
        "acme..dev",
        ".acme.dev",
        "-acme.dev",
        "acme-.dev",
        "x" * 64 + ".dev",
        "x." * 200 + "dev",
        "ftp://acme.dev",
        "https://",
        "https:///acme.dev",
        "1.2.3.4.5",
        "xn--a.dev",
        "...",
        "acme.dev:port",
    ],
)
def test_what_cannot_be_registered_is_refused(text: str) -> None:
    assert _rule(text) in ("not_a_domain", "characters")


@pytest.mark.parametrize("value", [None, 5, True, ["acme.dev"], {"domain": "acme.dev"}, b"acme.dev"])
def test_only_a_text_is_a_domain(value: object) -> None:
    assert _rule(value) == "type"


@pytest.mark.parametrize("text", ["acme\ud83d.dev", "acme\x00.dev", "acme\n.dev"])
def test_surrogates_and_controls_are_refused(text: str) -> None:
    assert _rule(text) == "characters"


class Unread(str):
    """A text whose length may be asked, and that fails when it is read."""

    __slots__ = ()

    def _read(self, *_: object, **__: object) -> NoReturn:
        raise AssertionError

    encode = strip = split = lower = partition = rpartition = __iter__ = _read


def test_twenty_megabytes_are_refused_by_their_length_before_anything_reads_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(domains, "_REFUSED", None)
    assert _rule(Unread("x" * 20_000_000)) == "too_long"
    monkeypatch.undo()
    assert _rule("ä" * 1_100 + ".dev") == "too_long"


@pytest.mark.parametrize(
    "address",
    [
        "jo@gmail.com",
        "Jo <JO@GoogleMail.com>",
        "mailto:jo@gmx.net",
        "jo@mail.gmx.net",
        "jo@yahoo.co.uk",
        "jo@hotmail.fr",
        "jo@outlook.es",
        "jo@web.de",
        "jo@t-online.de",
        "jo@orange.fr",
        "jo@wp.pl",
        "jo@uol.com.br",
        "jo@sapo.pt",
        "jo@libero.it",
        "jo@mail.ru",
        "jo@yandex.ru",
        "jo@163.com",
        "jo@qq.com",
        "jo@naver.com",
        "jo@icloud.com",
        "jo@proton.me",
        "jo@pm.me",
        "jo@hey.com",
    ],
)
def test_an_address_at_a_freemail_provider_is_refused(address: str) -> None:
    assert _rule(address) == "freemail"


@pytest.mark.parametrize("text", ["gmx.net", "https://www.gmx.net/", "web.de"])
def test_the_domain_of_a_freemail_provider_is_a_company_when_it_is_no_address(text: str) -> None:
    assert registrable_domain(text) in ("gmx.net", "web.de")


def test_no_company_domain_is_mistaken_for_a_freemail_provider() -> None:
    for domain in ("acme.dev", "mygmail.com", "gmail.com.acme.dev", "yahoo.acme.dev", "orange.example"):
        assert registrable_domain(f"jo@{domain}")


def test_an_address_comes_back_in_lower_case_with_its_own_host() -> None:
    assert address_and_domain("Jo+News@Mail.ACME.dev") == ("jo+news@mail.acme.dev", "acme.dev")
    assert address_and_domain("Jo <jo@bücher.example>") == (
        "jo@xn--bcher-kva.example",
        "xn--bcher-kva.example",
    )
    assert address_and_domain("acme.dev") == (None, "acme.dev")
    assert address_and_domain("https://acme.dev/@jo") == (None, "acme.dev")


@pytest.mark.parametrize(
    "text", ["jo doe@acme.dev", "jo(x)@acme.dev", '"jo"@acme.dev', "a@b@acme.dev", "x" * 65 + "@a.dev"]
)
def test_a_local_part_that_no_address_has_is_refused(text: str) -> None:
    assert _rule(text) == "characters"


def test_a_refusal_never_repeats_what_was_given() -> None:
    with pytest.raises(MemoryCoreError) as refusal:
        registrable_domain("https://secret:token@acme.dev/?key=1")
    assert "secret" not in str(refusal.value)
    assert "token" not in repr(refusal.value.details)
