"""Decide from the answer to an upload whether the file was accepted, refused, not sent, or may be stored.

Pure: the answer and the extent of the request that was sent go in, an `Outcome` comes out. Only known answers are
believed (interface section 4.3; observed: the HTTP status means nothing, failures come with 200). The table `MESSAGES`
has all known messages. Sending the request and reading the answer are left to `service.client`, deciding whether a
doubtful upload was stored to `core.doubt`, and acting on the outcome to `sync.upload.results` and `core.gate`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import parse_qsl
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

from assetsync.model import AddressProbe, Answer, Fault, Outcome, SentExtent
from assetsync.text import amount


@dataclass(frozen=True, slots=True)
class Message:
    """A known message of the service with its meaning, for an answer with a code of `codes` or a text like `pattern`.

    The pattern is matched from the beginning of the text, whose whitespace is collapsed, without regard to case.
    `answer` is REFUSED only if it is known that nothing was stored; `shown` is the message in its readable form.
    `fault` decides what follows a refusal: FILE blocks the file, FOLDER also holds its folder, KEY blocks nothing.
    """

    reason: str
    answer: Answer
    fault: Fault
    shown: str
    pattern: re.Pattern[str]
    detail: str
    codes: frozenset[str] = frozenset()


def _starts(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


REFUSED_KEY = "the service refuses the API key"
"""The sentence about a refused key, without what helps: `config.key.key_help` names the file of the key."""

ANSWERS_LOST = "answers to uploads are lost"
"""What a pause is, while searches are answered and uploads may arrive; also the key of its notice."""

UPLOAD_ADDRESS_HELP = "correct service.upload_url: it is the address of the index file of your tenant"
"""The hint for an address for uploads at which something else answers."""

SERVICE_FAILS_HELP = "the service fails: see its log, and the logs of proxies before it"
"""The hint for a 5xx of an address that has stored uploads before."""

MESSAGES = (
    # A wrong key: seen in the XML, and for search and index alike; with `redirectto` the message is "nosession". A key
    # that was refused once was still refused after it had become valid (cached for up to a day).
    Message(
        "key_refused",
        Answer.REFUSED,
        Fault.KEY,
        "Login not valid! …",
        _starts(r"login not valid!|nosession\Z"),
        REFUSED_KEY,
    ),
    # Seen with an id of the right form that names no folder. The service checks it before it looks at the file.
    Message(
        "unknown_folder",
        Answer.REFUSED,
        Fault.FOLDER,
        "Specified folder '…' does not exist",
        _starts(r"specified folder '.*' does not exist\.?\Z"),
        "the service has no such folder: correct destfolderid in the configuration",
    ),
    # Seen when the part is missing or has another name; a proxy that drops the body has the same effect.
    Message(
        "no_filedata",
        Answer.REFUSED,
        Fault.FILE,
        "Missing 'filedata' parameter",
        _starts(r"missing 'filedata' parameter\.?\Z"),
        "the service found no file in the upload: check the proxies between here and the service, then retry",
    ),
    # Seen for files of 0 bytes, and for bodies that were cut. The pattern is anchored at its end: other texts with this
    # beginning are doubtful.
    Message(
        "empty_file",
        Answer.REFUSED,
        Fault.FILE,
        "Upload failed There was no appropriate FILE found in the upload",
        _starts(r"upload failed\s+there was no appropriate file found in the upload\.?\Z"),
        "the service received an empty file: if the file has content, check the proxies between here and the service,"
        " then retry",
    ),
    # Interface section 7. The number must be the error's number: "Error at line 10001" is another error.
    Message(
        "too_large",
        Answer.REFUSED,
        Fault.FILE,
        "Error 10001",
        _starts(
            r"(?!.*\berror at line\b)(?:.*\berror(?: code| no\.?| number)?\s*[:#=]?\s*10001\b|10001\s*(?:\Z|[:;,.-]))"
        ),
        "the file is larger than the service accepts in one request (error 10001): raise its limit, or leave the file "
        "out with max_file_size",
        codes=frozenset({"10001"}),
    ),
    # The service compares MD5s over the whole host. <assetid> then holds a converted file name (observed), so it is not
    # read.
    Message(
        "duplicate",
        Answer.DUPLICATE,
        Fault.FILE,
        "File already exists in Razuna",
        _starts(r"file already exists\b"),
        "the service reports this content as a duplicate, and names no asset",
    ),
    # Seen with a parameter missing; the error path of a stored upload sends the same text (source).
    Message(
        "error_at_line",
        Answer.DOUBT,
        Fault.SERVICE,
        "Upload failed Error at line …",
        _starts(r"upload failed\s+error at line\b"),
        "the service failed during the upload, and may have stored a part",
    ),
)
"""Every message of an upload that was seen or is documented. A message in no row is a doubt: `unknown_message`."""


def known_message(code: str, text: str) -> Message | None:
    """Return the row that matches an answer with this result code and message; None for an unknown one."""
    plain = " ".join(text.split())
    return next((known for known in MESSAGES if code in known.codes or known.pattern.match(plain)), None)


ANSWER_LIMIT = 1024 * 1024
"""Most bytes of an upload's answer that are read; a longer answer is not one of this interface (observed: under 1 KiB).
"""

_SOUND_ID = re.compile(r"(?!(?i:all)\Z)[A-Za-z0-9-]{1,64}")
_CODE_NAMES = ("responsecode", "response")
_FILETYPES = frozenset({"img", "vid", "aud", "doc", "other"})
_TEXT_LIMIT = 500
# Usually a proxy sends this status and has passed nothing on, but that is not certain.
_STATUS_MEANS = {504: " (a proxy before the service timed out)"}
TOO_LARGE_FOR_PROXY = "too_large_for_proxy"
"""The reason of an upload that a proxy before the service refused by 413 (observed with nginx, above 1 MB)."""

REFUSED_BY_PROXY = "refused_by_proxy"
"""The reason of an upload that no proxy of this configuration passes on: see `_OF_A_PROXY`."""

HTTP_STATUS = "http_status"
"""The reason of an upload that was answered by any other status that is not the application's."""

_OF_A_PROXY = {
    HTTPStatus.LENGTH_REQUIRED: REFUSED_BY_PROXY,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: TOO_LARGE_FOR_PROXY,
    HTTPStatus.REQUEST_URI_TOO_LONG: REFUSED_BY_PROXY,
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: REFUSED_BY_PROXY,
    HTTPStatus.NOT_IMPLEMENTED: REFUSED_BY_PROXY,
}
"""Statuses by which a proxy refuses a request before it passes any of it on, and the reason that each becomes."""

# 500 is the application's own failure. A gate in front of it refuses by 413 and 429 and passes nothing on. Every other
# status may come from a proxy that no longer waits for the application.
_FINAL_STATUSES = frozenset({413, 429, 500})


class Reply(NamedTuple):
    """An HTTP answer; `location` is empty and `retry_after` (seconds) None if it has none.

    `is_delimited`: a length or chunks mark the end of the body, and it arrived to that end. Any other body ended with
    its connection, or is longer than ANSWER_LIMIT, and may be cut off.
    """

    status: int
    content_type: str = ""
    body: bytes = b""
    location: str = ""
    retry_after: float | None = None
    is_delimited: bool = False


class _Unreadable(Exception):
    """The answer is not in a form of the interface; args are the reason word and the sentence."""


def refuses_key(message: str) -> bool:
    """Return whether this message, of any of the three operations, reports that the API key is not valid."""
    known = known_message("", message)
    return known is not None and known.reason == "key_refused"


def is_sound_id(text: str) -> bool:
    """Return whether a text can be an asset's id: safe to store, and to use in a query and in a call of searchIndex.

    In searchIndex the word `all` means every asset (interface section 4.2), so it is not accepted as an id.
    """
    return _SOUND_ID.fullmatch(text) is not None


def read_upload_answer(
    reply: Reply, left: SentExtent, *, redirectto: str | None = None, size: int | None = None
) -> Outcome:
    """Return the outcome that the answer to an upload means.

    `left` is how much of the request was sent when the answer came; `redirectto` is the address that the request asked
    for; `size` is that of the file in bytes, if it is known.

    - ACCEPTED needs code 0 and a valid id in the interface's form, after the whole request was sent.
    - REFUSED needs a message that is known to come before anything is stored.
    - DUPLICATE needs the message for it, after the whole request was sent.
    - Any other answer is DOUBT, or UNSENT if nothing was sent.

    It is `answered` if the whole request was sent and the answer is complete: XML of the interface with a code, or one
    of the statuses 500, 413 and 429.
    """
    try:
        fields = _read_fields(reply, redirectto)
    except _Unreadable as problem:
        reason, detail = problem.args
        if reason == TOO_LARGE_FOR_PROXY and size is not None:
            detail = f"{detail}, {amount(size)}"
        outcome = read_silence(left, detail, reason=reason, retry_after=reply.retry_after)
        is_final = left is SentExtent.ALL and reply.status in _FINAL_STATUSES and _is_complete(reply)
        return outcome._replace(answered=True) if is_final else outcome
    # XML that parses is whole, however its end was marked.
    is_final = left is SentExtent.ALL and _is_success(reply.status)
    return _judge(fields, left, reply.retry_after, answered=is_final)


def read_silence(
    left: SentExtent, problem: str, *, reason: str = "no_answer", retry_after: float | None = None
) -> Outcome:
    """Return the outcome of an upload without a trustworthy answer; `problem` describes what came instead.

    It depends on how much was sent, never on how the connection failed.
    """
    if left is SentExtent.NOTHING:
        return Outcome(
            Answer.UNSENT,
            reason="unsent",
            detail=f"{problem}; nothing had been sent",
            fault=Fault.SERVICE,
            retry_after=retry_after,
        )
    share = "all" if left is SentExtent.ALL else "a part"
    detail = f"{problem}; {share} of the upload had been sent, so the service may have stored it"
    return Outcome(Answer.DOUBT, reason=reason, detail=detail, fault=Fault.SERVICE, retry_after=retry_after)


UNREADABLE_WHILE_SENT = "unreadable_while_sent"
"""The reason of an upload that was cut because its file could not be read to the end."""


def read_giving_up(left: SentExtent, problem: str, *, changed: bool) -> Outcome:
    """Return the outcome of an upload whose file was not sent to its end: it `changed`, or it could not be read."""
    word, while_sent = ("changed", "changed_while_sent") if changed else ("unreadable", UNREADABLE_WHILE_SENT)
    if left is SentExtent.NOTHING:
        return Outcome(Answer.UNSENT, reason=word, detail=problem, fault=Fault.FILE)
    detail = f"{problem}; a part of it had been sent, so the service may have stored a damaged asset"
    return Outcome(Answer.DOUBT, reason=while_sent, detail=detail, fault=Fault.FILE)


def too_large_for_proxy(size: int) -> str:
    """Return the sentence about a file that is not sent because a proxy refused an upload of this size in bytes."""
    return (
        f"refused by a proxy: 413, {amount(size)}: raise its limit (client_max_body_size in nginx), or leave such files"
        " out with upload.max_file_size; once a day one of them is tried"
    )


def not_the_upload_address(address: str, detail: str) -> str:
    """Return the sentence about an address at which something else answers; `detail` is about its answer."""
    return f"service.upload_url: what answers at {address} is not the upload operation of the service: {detail}"


# These come from a gate or an overload before the service, whatever its address.
_NOT_OF_AN_ADDRESS = frozenset({408, 413, 429, 502, 503, 504})


def read_upload_probe(reply: Reply) -> AddressProbe:
    """Return what the answer to a form without a file shows of an address for uploads.

    XML of the interface comes from the upload operation, whatever it says of the form or the key. A redirect, an HTML
    page and a 404 come from something else (observed: a login page). Any other answer proves nothing.
    """
    try:
        fields = _read_fields(reply, None)
    except _Unreadable as problem:
        is_page = _kind(reply) == "an HTML page" or b"<html" in reply.body[:_TEXT_LIMIT].lower()
        is_missing = reply.status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)
        is_redirect = 300 <= reply.status < 400  # noqa: PLR2004 - the class of redirects
        if is_redirect or is_missing or (is_page and reply.status not in _NOT_OF_AN_ADDRESS):
            return AddressProbe(is_right=False, detail=str(problem.args[1]))
        return AddressProbe()
    return AddressProbe(is_right=True, key_refused=refuses_key(fields.get("message", "")))


def _judge(fields: Mapping[str, str], left: SentExtent, retry_after: float | None, *, answered: bool) -> Outcome:
    code = fields["responsecode"]
    message = " ".join(fields.get("message", "").split())
    known = known_message(code, message)
    quoted = f'code {_short(code)}, "{_short(message)}"'
    filetype = fields.get("filetype", "").lower()
    outcome = partial(
        Outcome,
        filetype=filetype if filetype in _FILETYPES else None,
        responsecode=_short(code),
        message=_short(message),
        renamefilebody=_short(fields.get("renamefilebody", "")) or None,
        comingfrom=_short(fields.get("comingfrom", "")) or None,
        answered=answered,
    )

    def silence(reason: str, problem: str) -> Outcome:
        silent = read_silence(left, problem, reason=reason)
        return outcome(
            silent.answer, reason=silent.reason, detail=silent.detail, fault=silent.fault, retry_after=retry_after
        )

    if code == "0":
        assetid = fields.get("assetid", "")
        if known is not None:
            return silence("contradiction", f"the service answered success and an error at once ({quoted})")
        if not is_sound_id(assetid):
            return silence("unsound_id", "the service answered success without a valid asset id")
        if left is not SentExtent.ALL:
            # Observed: a cut upload is stored as far as it came, and reported as a success.
            return silence("success_of_part", f"the service answered success (asset {assetid}) before it had the file")
        return outcome(Answer.ACCEPTED, reason="accepted", assetid=assetid)
    if known is None:
        # The error path of the service may leave something stored (source): only known messages prove that nothing was.
        problem = f"the service answered with {quoted}, which does not prove that nothing was stored"
        return silence("unknown_message", problem)
    if known.answer is Answer.DOUBT:
        return silence(known.reason, f"{known.detail} ({quoted})")
    if known.answer is Answer.DUPLICATE and left is not SentExtent.ALL:
        # The service compares MD5s: the MD5 of a part proves nothing about the file.
        return silence("duplicate_of_part", "the service reports the upload as a duplicate")
    return outcome(known.answer, reason=known.reason, detail=known.detail, fault=known.fault, retry_after=retry_after)


def _short(text: str) -> str:
    return text if len(text) <= _TEXT_LIMIT else text[:_TEXT_LIMIT] + "…"


def _read_fields(reply: Reply, redirectto: str | None) -> dict[str, str]:
    if 300 <= reply.status < 400:  # noqa: PLR2004 - the class of redirects
        return _read_redirect(reply, redirectto)
    if not _is_success(reply.status):
        if reply.status in _OF_A_PROXY:
            raise _Unreadable(_OF_A_PROXY[HTTPStatus(reply.status)], f"refused by a proxy: {reply.status}")
        means = _STATUS_MEANS.get(reply.status, "")
        raise _Unreadable(HTTP_STATUS, f"the answer was HTTP status {reply.status}{means}")
    if len(reply.body) > ANSWER_LIMIT:
        raise _Unreadable("answer_too_long", f"the answer was longer than {ANSWER_LIMIT} bytes")
    return _read_xml(reply)


def _is_success(status: int) -> bool:
    return 200 <= status < 300  # noqa: PLR2004 - the class of success


def _is_complete(reply: Reply) -> bool:
    """Return whether an answer was not cut: it came to its marked end, or its document is closed.

    A 500 without a body is no answer of the application: a gateway that lost it sends one.
    The service closes the connection after each answer (observed). A process that dies in the middle of its answer does
    the same, while its request may still be worked on elsewhere.
    """
    if reply.status == HTTPStatus.INTERNAL_SERVER_ERROR and not reply.body.strip():
        return False
    if reply.is_delimited or reply.body.rstrip().lower().endswith(b"</html>"):
        return len(reply.body) <= ANSWER_LIMIT
    try:
        _read_xml(reply)
    except _Unreadable:
        return False
    return True


def _read_xml(reply: Reply) -> dict[str, str]:
    body = reply.body.strip()  # bodies have blank lines around them (observed)
    if not body:
        raise _Unreadable("empty_answer", "the answer was empty")
    no_xml = _Unreadable("unreadable_answer", f"the answer was {_kind(reply)}, not the service's XML")
    if b"xmlns" in body.replace(b"\0", b""):
        # The parser keeps the whole namespace with each name: an answer of 1 MB could fill the memory.
        raise no_xml
    try:
        root: Element = fromstring(body, forbid_dtd=True)
    except (ParseError, DefusedXmlException, ValueError, LookupError) as exc:
        raise no_xml from exc
    fields: dict[str, str] = {}
    for child in root:
        name = child.tag.lower()
        # Section 4.3 names the code `Response`; the live service uses that name for the root, and `responsecode` for
        # the code.
        name = "responsecode" if name in _CODE_NAMES else name
        if name in fields or len(child):
            raise _Unreadable("unreadable_answer", f"the answer's element <{_short(name)}> is ambiguous")
        fields[name] = (child.text or "").strip()
    if not fields.get("responsecode"):
        raise _Unreadable("no_code", f"the answer was {_kind(reply)} without a result code")
    return fields


def _kind(reply: Reply) -> str:
    start = reply.body.lstrip()[:1]
    kind = reply.content_type.partition(";")[0].strip().lower()
    if "html" in kind:
        return "an HTML page"
    if "json" in kind or start in (b"{", b"["):
        return "JSON"
    return "XML" if start == b"<" and "xml" in kind else f"of the type {_short(kind)!r}" if kind else "of no known form"


def _read_redirect(reply: Reply, redirectto: str | None) -> dict[str, str]:
    """Read the query that the service appended to the requested address, and nothing else of the redirect."""
    if redirectto is None:
        raise _Unreadable("redirect_unasked", f"the answer was an unexpected redirect (HTTP status {reply.status})")
    # The service inserts a session id before the first question mark (observed). The query of `redirectto` itself is
    # cut off, so that it cannot be taken for the service's. `redirecttoparams` comes after the answer and must not
    # repeat its fields.
    path, question, query = redirectto.partition("?")
    asked = re.escape(path) + r"(?:;jsessionid=[^?&#;/]*)?" + re.escape(question + query) + r"[?&](?P<answer>.*)"
    match = re.fullmatch(asked, reply.location, re.DOTALL)
    if match is None:
        raise _Unreadable("redirect_elsewhere", "the answer was a redirect to an unexpected address")
    fields: dict[str, str] = {}
    for key, value in parse_qsl(match["answer"], keep_blank_values=True):
        name = key.lower()
        if name in fields and name in ("responsecode", "message", "assetid", "filetype"):
            raise _Unreadable("unreadable_answer", f"the redirect holds {name} twice")
        fields[name] = value.strip()
    if not match["answer"].lower().startswith("responsecode=") or not fields.get("responsecode"):
        raise _Unreadable("no_code", "the answer was a redirect without a result code")
    return fields
