"""The key of a company: the registrable domain of an e-mail address, a URL or a host name.

Every spelling of one host gives one key, in lower-case ASCII; the key is no proof of who the company is.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache
from ipaddress import ip_address
from urllib.parse import unquote

import ada_url
import idna
from publicsuffixlist import PublicSuffixList

from memory_core.errors import MemoryCoreError, invalid
from memory_core.policy import Policy

_MAX_BYTES = Policy().max_url_bytes
_MAX_HOST_CHARS = 253
_MAX_LABEL_CHARS = 63
_MAX_LOCAL_CHARS = 64

_REFUSED = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_NAMED = re.compile(r"[^<>]*<([^<>]+)>")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_REST = re.compile(r"[/?#]")
_PORT = re.compile(r":[0-9]{0,5}\Z")
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_LOCAL = re.compile(r"[^\s()<>\[\]:;,\\\"@]+")

# Providers that give an address to anyone, by the first label and the suffixes it is used under.
_FREEMAIL_SUFFIXES = {
    "yahoo": """com co.uk fr de it es ie gr se no dk fi nl be pl pt ro cz hu at ch ca in co.in co.jp ne.jp co.id
        co.nz co.th co.kr co.za com.au com.br com.ar com.mx com.co com.pe com.ve com.cl com.tr com.vn com.ph com.sg
        com.my com.hk com.tw com.cn cn cl in""",
    "ymail": "com ne.jp",
    "rocketmail": "com",
    "myyahoo": "com",
    "gmail": "com",
    "googlemail": "com co.uk de",
    "hotmail": """com co.uk fr de it es be nl se no dk fi gr ch at ca pt pl cz hu ro rs lt lv my ph sg co.jp co.kr
        co.th co.il co.in co.id co.nz co.za com.au com.br com.ar com.mx com.tr com.hk com.tw com.vn cl""",
    "outlook": """com fr de it es be dk ie pt at cz hu lv sk ro bg pl cl co.il co.id co.th com.au com.br com.ar
        com.gr com.tr com.vn com.pe jp kr in my ph sa sg co""",
    "live": """com co.uk fr de it es be nl se no dk fi at ch ca ie pt cl cn in ru com.au com.ar com.mx com.my com.ph
        com.pt com.sg co.kr co.za hk jp""",
    "msn": "com",
    "passport": "com",
    "windowslive": "com",
    "gmx": "net de at ch com org info biz eu us co.uk fr es it li lu pt se tm",
    "yandex": "ru com by kz ua com.tr com.ge fr az uz",
    "aol": "com co.uk de fr it es nl be se pl ca jp in at ch com.au com.br com.mx com.ar",
    "aim": "com",
    "verizon": "net",
    "zoho": "com eu in com.au",
    "zohomail": "com eu in",
    "mail": "com ru ua ee de",
    "email": "com de it cz",
    "protonmail": "com ch",
    "proton": "me",
    "pm": "me",
    "tutanota": "com de",
    "tutamail": "com",
    "tuta": "com io",
    "keemail": "me",
    "fastmail": "com fm cn co.uk com.au de es fr in jp net nl org us to im",
    "inbox": "com ru lv lt ee",
    "rediffmail": "com",
    "tiscali": "it co.uk fr",
    "terra": "com.br com es com.ar cl",
    "sapo": "pt ao cv mz",
    "seznam": "cz",
    "centrum": "cz sk",
    "netscape": "net",
    "excite": "com it co.jp",
    "lycos": "com de fr it es co.uk nl",
    "caramail": "com fr",
    "libertysurf": "fr",
    "naver": "com",
    "sina": "com cn com.cn",
    "sohu": "com",
    "tom": "com",
    "walla": "com co.il",
    "mailfence": "com",
    "hushmail": "com me",
    "bigpond": "com net.au com.au",
    "optusnet": "com.au",
}
_FREEMAIL_SINGLE = """
    icloud.com me.com mac.com hey.com duck.com mozmail.com privaterelay.appleid.com posteo.de posteo.net posteo.eu
    posteo.at posteo.ch mailbox.org web.de email.de t-online.de magenta.de freenet.de arcor.de online.de onlinehome.de
    vodafonemail.de o2online.de o2mail.de 1und1.de unitybox.de kabelmail.de versanet.de ewe.net ewetel.net osnanet.de
    netcologne.de htp-tel.de alice-dsl.net alice.de firemail.de mail.de gmx.info bluewin.ch hispeed.ch sunrise.ch
    swissonline.ch aon.at chello.at inode.at a1.net utanet.at kabsi.at
    orange.fr wanadoo.fr free.fr laposte.net sfr.fr neuf.fr bbox.fr numericable.fr club-internet.fr cegetel.net
    aliceadsl.fr dbmail.com voila.fr noos.fr
    libero.it virgilio.it alice.it tin.it tim.it inwind.it iol.it blu.it giallo.it fastwebnet.it poste.it teletu.it
    vodafone.it email.it katamail.com
    wp.pl o2.pl onet.pl onet.eu op.pl vp.pl poczta.onet.pl poczta.onet.eu interia.pl interia.eu interia.com poczta.fm
    int.pl gazeta.pl tlen.pl go2.pl prokonto.pl buziaczek.pl spoko.pl autograf.pl neostrada.pl poczta.pl
    uol.com.br bol.com.br ig.com.br oi.com.br globo.com globomail.com r7.com zipmail.com.br superig.com.br
    pop.com.br click21.com.br netcabo.pt clix.pt iol.pt telepac.pt mail.telepac.pt oninet.pt
    telefonica.net movistar.es ono.com orangemail.es wanadoo.es ya.com jazzfree.com euskaltel.net arnet.com.ar
    fibertel.com.ar speedy.com.ar ciudad.com.ar prodigy.net.mx infinitum.com.mx vtr.net
    bk.ru list.ru internet.ru xmail.ru rambler.ru lenta.ru autorambler.ru myrambler.ru ro.ru ya.ru narod.ru
    ukr.net i.ua meta.ua bigmir.net tut.by email.ua online.ua
    qq.com vip.qq.com foxmail.com 163.com vip.163.com 126.com vip.126.com yeah.net 188.com 139.com 189.cn wo.cn
    aliyun.com 21cn.com 263.net
    hanmail.net daum.net nate.com empas.com korea.com kakao.com docomo.ne.jp ezweb.ne.jp au.com softbank.ne.jp
    i.softbank.jp nifty.com biglobe.ne.jp ocn.ne.jp so-net.ne.jp plala.or.jp
    rediff.com sify.com indiatimes.com in.com pchome.com.tw hinet.net ms.hinet.net seed.net.tw netvigator.com
    singnet.com.sg
    comcast.net att.net sbcglobal.net bellsouth.net cox.net charter.net earthlink.net optonline.net juno.com
    netzero.net roadrunner.com rr.com windstream.net frontier.com frontiernet.net centurylink.net embarqmail.com
    q.com mindspring.com ptd.net suddenlink.net usa.net usa.com sympatico.ca bell.net rogers.com shaw.ca telus.net
    videotron.ca cogeco.ca btinternet.com btopenworld.com talktalk.net sky.com virginmedia.com virgin.net
    ntlworld.com blueyonder.co.uk plus.net plusnet.com o2.co.uk orange.net tesco.net eircom.net
    skynet.be telenet.be proximus.be scarlet.be voo.be pandora.be ziggo.nl kpnmail.nl planet.nl home.nl xs4all.nl
    hetnet.nl upcmail.nl casema.nl quicknet.nl zonnet.nl chello.nl online.nl
    bredband.net spray.se comhem.se passagen.se online.no broadpark.no frisurf.no jubii.dk sol.dk mail.dk
    post.tele.dk tdcadsl.dk kolumbus.fi luukku.com suomi24.fi elisanet.fi pp.inet.fi
    post.cz volny.cz atlas.cz azet.sk zoznam.sk post.sk pobox.sk freemail.hu citromail.hu indamail.hu vipmail.hu
    t-online.hu abv.bg mail.bg dir.bg one.lt delfi.lt one.lv otenet.gr forthnet.gr in.gr mynet.com superonline.com
    ttmail.com bezeqint.net netvision.net.il 012.net.il zahav.net.il maktoob.com
    xtra.co.nz slingshot.co.nz iinet.net.au internode.on.net tpg.com.au westnet.com.au mweb.co.za telkomsa.net
    vodamail.co.za webmail.co.za
    tutanota.com tuta.io disroot.org riseup.net runbox.com startmail.com countermail.com mailo.com netcourrier.com
    zaclys.net ctemplar.com skiff.com simplelogin.com anonaddy.com 33mail.com mailinator.com guerrillamail.com
    yopmail.com 10minutemail.com trashmail.com tempmail.com sharklasers.com
    lavabit.com gawab.com myself.com consultant.com europe.com post.com dr.com engineer.com cheerful.com techie.com
    accountant.com asia.com iname.com writeme.com linuxmail.org email.com contractor.net usa.com mail-me.com
"""


@cache
def _freemail() -> frozenset[str]:
    by_label = {f"{label}.{suffix}" for label, all_ in _FREEMAIL_SUFFIXES.items() for suffix in all_.split()}
    return frozenset(by_label | set(_FREEMAIL_SINGLE.split()))


@cache
def _suffixes() -> PublicSuffixList:
    # A suffix that the list does not know counts as one label, as the list's own algorithm says.
    return PublicSuffixList(accept_unknown=True)


def registrable_domain(text: object) -> str:
    """Resolve an address, a URL or a host to the registrable domain; private suffixes count.

    Raises `invalid_input` for `domain` by rule: type, empty, too_long, characters, credentials, not_a_domain,
    ip_address, single_label, public_suffix, freemail.
    """
    return address_and_domain(text)[1]


def address_and_domain(text: object) -> tuple[str | None, str]:
    """Give the address in lower case, where the text is one, and the registrable domain.

    Takes `mailto:` and `Name <address>` too. Only an address is refused for a freemail provider: the bare name of
    such a provider is a company's own domain. Raises as `registrable_domain` does.
    """
    local, host = _local_and_host(_checked(text))
    host, domain = _resolved(host)
    if local is None:
        return None, domain
    if not _freemail().isdisjoint((host, domain)):
        raise _refused("freemail", "an address at a freemail provider; give the company's domain")
    return f"{local}@{host}", domain


def is_public_suffix(host: str) -> bool:
    """Say whether a lower-case ASCII host is a public suffix by itself."""
    return bool(_suffixes().is_public(host))


def _refused(rule: str, message: str) -> MemoryCoreError:
    return invalid("domain", rule, message)


def _checked(text: object) -> str:
    if not isinstance(text, str):
        raise _refused("type", "must be a text: a domain, a URL or an e-mail address")
    if len(text) > _MAX_BYTES or len(text.encode(errors="surrogatepass")) > _MAX_BYTES:
        raise _refused("too_long", f"at most {_MAX_BYTES} bytes")
    text = text.strip()
    if not text:
        raise _refused("empty", "must not be empty")
    if _REFUSED.search(text):
        raise _refused("characters", "must hold no control character and no lone surrogate")
    return text


def _local_and_host(text: str) -> tuple[str | None, str]:
    """Split what was given into the local part of an address, if it is one, and the host as it was written."""
    scheme = _SCHEME.match(text)
    if scheme:
        if scheme[1].lower() not in ("http", "https"):
            raise _refused("not_a_domain", "a URL starts with http:// or https://")
        return None, _authority_host(_REST.split(text[scheme.end() :], maxsplit=1)[0])
    named = _NAMED.fullmatch(text)
    if named:
        text = named[1].strip()
    mailto = text[:7].lower() == "mailto:"
    if mailto:
        text = unquote(text[7:].partition("?")[0])
    head = _REST.split(text.removeprefix("//"), maxsplit=1)[0]
    if not (named or mailto or "@" in head):
        return None, _authority_host(head)
    local, at, host = text.rpartition("@")
    if not at or not local or not host:
        raise _refused("not_a_domain", "must be a whole e-mail address")
    if ":" in local:
        raise _refused("credentials", "must carry no user name and password")
    if len(local) > _MAX_LOCAL_CHARS or not _LOCAL.fullmatch(local) or _REFUSED.search(local):
        raise _refused("characters", "the part before the @ holds a character that an address cannot have")
    return unicodedata.normalize("NFC", local.lower()), host


def _authority_host(authority: str) -> str:
    if "@" in authority:
        raise _refused("credentials", "a URL must carry no user name or password")
    if authority.startswith("[") or _is_ip(authority):
        raise _refused("ip_address", "must be a name, not an IP address")
    return _PORT.sub("", authority)


def _ascii(host: str) -> str:
    """Give the host in lower-case ASCII (IDNA 2008, UTS 46 non-transitional) without dots at its end."""
    if len(host) > _MAX_HOST_CHARS + 3:
        raise _refused("not_a_domain", f"a domain has at most {_MAX_HOST_CHARS} characters")
    if re.search(r"[^\w.\-\u00b7-\U0010ffff]|_", host) or re.search(r"\s", host):
        raise _refused("characters", "a domain has letters, digits, hyphens and dots only")
    host = unicodedata.normalize("NFKC", host).replace("\u3002", ".").rstrip(".").lower()
    if not host:
        raise _refused("not_a_domain", "must name a host")
    if _is_ip(host):
        raise _refused("ip_address", "must be a name, not an IP address")
    try:
        ascii_host = idna.encode(host, uts46=True, std3_rules=True).decode() if _needs_idna(host) else host
    except idna.InvalidCodepoint:
        raise _refused("characters", "a domain has letters, digits, hyphens and dots only") from None
    except (idna.IDNAError, UnicodeError):
        raise _refused("not_a_domain", "must be a domain that can be registered") from None
    ascii_host = ascii_host.lower().rstrip(".")
    labels = ascii_host.split(".")
    if len(ascii_host) > _MAX_HOST_CHARS or not all(
        len(label) <= _MAX_LABEL_CHARS and _LABEL.fullmatch(label) for label in labels
    ):
        raise _refused("not_a_domain", "must be labels of 1 to 63 letters, digits and inner hyphens")
    if _is_ip(ascii_host):
        raise _refused("ip_address", "must be a name, not an IP address")
    return ascii_host


def _needs_idna(host: str) -> bool:
    return not host.isascii() or host.startswith("xn--") or ".xn--" in host


@lru_cache(maxsize=4_096)
def _resolved(host: str) -> tuple[str, str]:
    # Kept, since the saves of a run follow the recall of the same company.
    plain = _ascii(host)
    return plain, _registrable(plain)


def _registrable(host: str) -> str:
    labels = host.split(".")
    if len(labels) == 1:
        raise _refused("single_label", "must have a dot, such as acme.example")
    if labels[-1].isdigit():
        raise _refused("not_a_domain", "a top-level domain is not a number")
    domain = _suffixes().privatesuffix(host)
    if domain is None:
        raise _refused("public_suffix", "is a public suffix; give the company's name before it")
    if str(domain).startswith("www."):
        # A name was left out: `www.` is what a typed address begins with, and no company's own name.
        raise _refused("public_suffix", "is www before a public suffix; give the company's name between them")
    return str(domain)


def _is_ip(host: str) -> bool:
    """Recognise every spelling that a browser takes for an IP address: 127.1, 0x7f.1, 2130706433, [::1]."""
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        pass
    else:
        return True
    # Only a last label that starts with a digit can make a host an IPv4 address (WHATWG URL, "ends in a number").
    if not re.search(r"(?:^|\.)[0-9][0-9a-fx]*\.?\Z", host, re.IGNORECASE):
        return False
    try:
        return bool(ada_url.URL(f"https://{host}").host_type != ada_url.HostType.DEFAULT)
    except ValueError:
        return False


__all__ = ["address_and_domain", "is_public_suffix", "registrable_domain"]
