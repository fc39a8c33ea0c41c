r"""Replace credentials in a text by `[redacted:kind]`.

Most services give their tokens a prefix so that they can be found; these rules follow the formats that the
services document. A rule that goes by a name (`password = …`) needs a value that looks random besides. All
rules are searched in one pass of RE2, in linear time; only those that match something are then applied.

Patterns see bytes: classes and `\b` are ASCII, so that no character of another script is ever split.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import re2

PASSES_MAX = 8
"""Replacing a secret can uncover another one beside it; more than two passes never do in practice."""

ENTROPY_BITS_MIN = 3.0
"""Of each character of a value that only its name makes a secret; words of a language are below."""

_END = r"(?:[^A-Za-z0-9_]|$)"
_ASSIGNED = r"""["']?\s{0,3}(?:=|:|=>|:=)\s{0,3}["'`]?"""
_NAME = (
    r"(?:passw(?:or)?d|passphrase|pwd|secret|token|api_?-?key|apikey|access_?-?key|auth_?-?key|"
    r"client_?-?secret|private_?-?key|signing_?-?key|encryption_?-?key|credentials?)"
)

RULES: Mapping[str, str] = {
    "private-key": r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:\s|\\[nr])+"
    r"(?:[A-Za-z-]{1,20}: [^\n\\]{0,200}(?:\s|\\[nr])+)*[A-Za-z0-9+/=]{16,}[A-Za-z0-9+/=\s\\]*"
    r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?",
    "age-key": r"AGE-SECRET-KEY-1[A-Z0-9]{58}",
    "engram-key": r"engram_sk_[a-z]{2,10}_[A-Za-z0-9_-]{16,}",
    "anthropic-key": r"\bsk-ant-[a-z0-9]{2,12}-[A-Za-z0-9_-]{20,}",
    "openrouter-key": r"\bsk-or-v1-[0-9a-f]{32,}",
    "openai-key": r"\bsk-(?:(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,}|[A-Za-z0-9]{32,})",
    "github-token": r"\b(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255})",
    "gitlab-token": r"\b(?:gl(?:pat|dt|ft|soat|rt|rtr|cbt|imt|ptt|agent|oas|ffct|wt)-[A-Za-z0-9_.-]{20,}"
    r"|GR1348941[A-Za-z0-9_-]{20,})",
    "aws-access-key": r"\b((?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16})" + _END,
    "aws-secret-key": r"(?i)aws[a-z0-9_. -]{0,20}(?:secret|private)[a-z0-9_. -]{0,20}"
    + _ASSIGNED
    + r"([A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+]|$)",
    "google-key": r"\bAIza[0-9A-Za-z_-]{35}",
    "google-oauth": r"\b(?:GOCSPX-[A-Za-z0-9_-]{28}|ya29\.[A-Za-z0-9_-]{30,}|1//0[A-Za-z0-9_-]{40,})",
    "azure-key": r"\b(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{42,86}={0,2})",
    "azure-secret": r"\b[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}",
    "cloudflare-token": r"\b(?:v1\.0-[a-f0-9]{24}-[a-f0-9]{146}|cf(?:ut|at|k)_[A-Za-z0-9_-]{40,})",
    "digitalocean-token": r"\bdo[opr]_v1_[a-f0-9]{64}",
    "fly-token": r"\b(?:fo1_[A-Za-z0-9_-]{43}|fm[12][ar]?_[A-Za-z0-9+/=]{80,})",
    "vercel-token": r"\bvc[pickar]_[A-Za-z0-9]{24,}",
    "heroku-key": r"\bHRKU-[A-Za-z0-9_-]{36,}",
    "supabase-key": r"\b(?:sbp_[a-f0-9]{40}|sb_secret_[A-Za-z0-9_-]{20,})",
    "planetscale-token": r"\bpscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{32,}",
    "databricks-token": r"\bdapi[0-9a-f]{32}(?:-[0-9])?",
    "vault-token": r"\bhv[sbr]\.[A-Za-z0-9_-]{24,}",
    "terraform-token": r"\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}",
    "pulumi-token": r"\bpul-[a-f0-9]{40}",
    "doppler-token": r"\bdp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9_.-]{40,}",
    "onepassword-token": r"\b(?:ops_eyJ[A-Za-z0-9+/=_-]{100,}|A3-[A-Z0-9]{6}-[A-Z0-9]{6}-[A-Z0-9-]{15,23})",
    "docker-token": r"\bdckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}",
    "npm-token": r"\bnpm_[A-Za-z0-9]{36}",
    "pypi-token": r"\bpypi-AgE[A-Za-z0-9_-]{50,}",
    "rubygems-key": r"\brubygems_[a-f0-9]{48}",
    "crates-token": r"\bcio[A-Za-z0-9]{32}\b",
    "huggingface-token": r"\b(?:hf_|api_org_)[A-Za-z0-9]{30,}",
    "replicate-token": r"\br8_[A-Za-z0-9]{37}",
    "groq-key": r"\bgsk_[A-Za-z0-9]{40,}",
    "xai-key": r"\bxai-[A-Za-z0-9]{60,}",
    "perplexity-key": r"\bpplx-[A-Za-z0-9]{40,}",
    "tavily-key": r"\btvly-[A-Za-z0-9_-]{24,}",
    "langsmith-key": r"\blsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}",
    "slack-token": r"\b(?:xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{20,}|xoxe\.xox[bp]-[A-Za-z0-9-]{20,})",
    "slack-webhook": r"https://hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_-]{20,}",
    "discord-token": r"\b[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38}",
    "discord-webhook": r"https://(?:canary\.|ptb\.)?discord(?:app)?\.com/api/webhooks/[0-9]+/[A-Za-z0-9_-]{40,}",
    "telegram-token": r"\b([0-9]{8,10}:AA[A-Za-z0-9_-]{33})" + _END,
    "teams-webhook": r"https://[a-z0-9-]+\.webhook\.office\.com/webhookb2/[A-Za-z0-9@/-]{40,}",
    "stripe-key": r"\b(?:[sr]k_(?:live|test|prod)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{24,})",
    "square-token": r"\b(?:EAAA[A-Za-z0-9_-]{60}|sq0(?:atp|csp)-[A-Za-z0-9_-]{22,43})",
    "shopify-token": r"\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}",
    "twilio-key": r"\b((?:SK|AC)[0-9a-f]{32})" + _END,
    "sendgrid-key": r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{32,}",
    "mailgun-key": r"\bkey-[0-9a-f]{32}",
    "mailchimp-key": r"\b([0-9a-f]{32}-us[0-9]{1,2})" + _END,
    "brevo-key": r"\bxkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}",
    "postman-key": r"\bPMAK-[a-f0-9]{24}-[a-f0-9]{34}",
    "notion-token": r"\b(?:ntn_[A-Za-z0-9]{40,}|secret_[A-Za-z0-9]{43})",
    "linear-key": r"\blin_(?:api|oauth)_[A-Za-z0-9]{32,}",
    "atlassian-token": r"\bATATT3[A-Za-z0-9_=-]{100,}|\bATCTT3[A-Za-z0-9_=-]{60,}",
    "figma-token": r"\bfig[dou][rh]?_[A-Za-z0-9_-]{40,}",
    "airtable-token": r"\bpat[A-Za-z0-9]{14}\.[a-f0-9]{64}",
    "dropbox-token": r"\bsl\.(?:u\.)?[A-Za-z0-9_-]{130,}",
    "grafana-token": r"\b(?:glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}|glc_eyJ[A-Za-z0-9+/=]{40,})",
    "newrelic-key": r"\bNR(?:AK|JS|II|IQ)-[A-Za-z0-9_-]{19,40}",
    "sentry-token": r"\bsntry[su]_[A-Za-z0-9_=+/.-]{40,}",
    "datadog-key": r"(?i)\bdd_?(?:api|app|application)_?key" + _ASSIGNED + r"([a-f0-9]{32,40})\b",
    "json-web-token": r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    "authorization": r"(?i)\bauthorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:bearer|basic|token)\s{1,3}"
    r"([A-Za-z0-9._~+/=-]{16,})",
    "url-password": r"://[^\s/:@\"'<>\[\]{}$]{0,200}:([^\s/@\"'<>\[\]{}$]{3,})@",
    "environment": r"\b[A-Z0-9_]{0,40}(?:PASSW(?:OR)?D|SECRET|TOKEN|API_?KEY|ACCESS_KEY|PRIVATE_KEY)[A-Z0-9_]{0,20}="
    r"""["']?([^\s"'`$<>\[\]{}()\\]{6,})(?:["'`\s\\]|$)""",
    "assigned": r"(?i)[a-z0-9_.-]{0,40}"
    + _NAME
    + r"[a-z0-9_.-]{0,20}"
    + _ASSIGNED
    + r"([A-Za-z0-9_+/=.~!@#%^&*$-]{10,})",
}
"""Patterns by the kind that the replacement names; a group is the secret, if not all of the match is."""


class _Rule(NamedTuple):
    kind: str
    pattern: re2._Regexp  # pyright: ignore[reportPrivateUsage]: re2 exports no public name
    is_secret: Callable[[bytes], bool]


def redact(text: str) -> str:
    """Replace every secret in a text by its kind; a text without one is returned as it is."""
    data = text.encode("utf-8", "surrogatepass")
    for _ in range(PASSES_MAX):
        cleaned = _redact_once(data)
        if cleaned == data:
            break
        data = cleaned
    else:
        return "[redacted:text]"
    return data.decode("utf-8", "surrogatepass")


def looks_random(value: bytes) -> bool:
    """Return True if a value mixes letters and digits as generated secrets do."""
    if not any(48 <= byte <= 57 for byte in value) or value.isdigit():
        return False
    counts = Counter(value).values()
    bits = -sum(count / len(value) * math.log2(count / len(value)) for count in counts)
    return bits >= ENTROPY_BITS_MIN


def _redact_once(data: bytes) -> bytes:
    rules, found = _compiled()
    # In the order of the rules: the last ones go by names, and would hide the kind.
    for index in sorted(found.Match(data) or ()):
        data = _apply(rules[index], data)
    return data


def _apply(rule: _Rule, data: bytes) -> bytes:
    pieces, end = list[bytes](), 0
    for match in rule.pattern.finditer(data):
        start, stop = match.span(rule.pattern.groups)
        if start < end or not rule.is_secret(data[start:stop]):
            continue
        pieces += data[end:start], b"[redacted:%b]" % rule.kind.encode()
        end = stop
    return b"".join((*pieces, data[end:]))


def _always(_value: bytes) -> bool:
    return True


def _is_word(value: bytes) -> bool:
    return not value.isdigit()


_CHECKS: Mapping[str, Callable[[bytes], bool]] = {"environment": _is_word, "assigned": looks_random}
"""What the values of a rule must look like besides."""


@cache
def _compiled() -> tuple[list[_Rule], re2.Set]:
    """Compile the rules; the set of all tells in one pass which of them match."""
    import re2  # noqa: PLC0415 most processes never need it

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    options.max_mem = 64 * 1024 * 1024
    together = re2.Set.SearchSet(options)
    rules = list[_Rule]()
    for kind, pattern in RULES.items():
        together.Add(pattern.encode())
        check = _CHECKS.get(kind, _always)
        rules.append(_Rule(kind, re2.compile(pattern.encode(), options), check))
    together.Compile()
    return rules, together
