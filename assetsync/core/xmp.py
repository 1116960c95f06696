"""Read XMP sidecars, as Lightroom, darktable, exiftool and others write them, and turn them into metadata.

Pure: pieces of bytes go in, values come out. The XML is parsed as a stream, and of its elements only those in the table
of properties are kept. expat is used directly: the libraries around it let it put the address of the namespace before
each name, so that a long address and many names fill the memory. A DTD is refused, so that there are no entities.
Finding the XMP file that belongs to a file is left to `core.metadata` (names) and `sync.intake.sidecars`; which form
field a property becomes is left to the configuration (`service.xmp_fields`).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn
from xml.parsers import expat

from assetsync.config.document.metadata import XMP_TO_DESCRIPTION, XMP_TO_KEYWORDS, XMP_TO_LOCATION
from assetsync.core.names import printable
from assetsync.errors import SidecarError
from assetsync.model import Metadata

MAX_XMP_BYTES = 10_000_000
"""Most bytes of an XMP file. Programs that keep masks in it write several megabytes."""

MAX_DEPTH = 100
"""Most elements around an element. Nested settings of real programs need about 20."""

MAX_KEPT = 20_000
"""Most elements, attributes and parts of texts of all properties that are kept together, most attributes of an element,
and most names in a file. A picture has some hundred keywords at most, and programs need few of the others."""

MAX_TEXT = 1_000_000
"""Most characters of all properties that are kept together: four times what a form may hold."""

_SLICE = 64 * 1024
_ATTRIBUTE = re.compile(rb"=[\s\0]*[\"']")
"""The end of an attribute's name, in UTF-8 and UTF-16."""

_SPACES = {
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "dc": "http://purl.org/dc/elements/1.1/",
    "lr": "http://ns.adobe.com/lightroom/1.0/",
    "digiKam": "http://www.digikam.org/ns/1.0/",
    "photoshop": "http://ns.adobe.com/photoshop/1.0/",
    "xmp": "http://ns.adobe.com/xap/1.0/",
    "tiff": "http://ns.adobe.com/tiff/1.0/",
    "exif": "http://ns.adobe.com/exif/1.0/",
    "Iptc4xmpCore": "http://iptc.org/std/Iptc4xmpCore/1.0/xmlns/",
    "Iptc4xmpExt": "http://iptc.org/std/Iptc4xmpExt/2008-02-29/",
}
_USUAL = {address: prefix for prefix, address in _SPACES.items()}

# Where the value of a property is looked for, in this order. What is last is older, or written by fewer programs.
_SOURCES = {
    "dc:description": ("dc:description", "tiff:ImageDescription"),
    "photoshop:DateCreated": ("photoshop:DateCreated", "exif:DateTimeOriginal", "xmp:CreateDate"),
}
_PLAIN = (
    *("dc:title", "dc:rights", "photoshop:Headline", "photoshop:Credit", "xmp:Label"),
    *("photoshop:City", "photoshop:State", "photoshop:Country", "Iptc4xmpCore:Location", "Iptc4xmpCore:CountryCode"),
)
_LISTS = ("dc:subject", "dc:creator", "lr:hierarchicalSubject")
# The newer places: a picture has either what it shows, or where it was taken. They count if none of the old fields is
# set, because fields of two places would make a third.
_PLACES = ("Iptc4xmpExt:LocationShown", "Iptc4xmpExt:LocationCreated")
_OF_PLACE = {
    "Iptc4xmpCore:Location": "Iptc4xmpExt:Sublocation",
    "photoshop:City": "Iptc4xmpExt:City",
    "photoshop:State": "Iptc4xmpExt:ProvinceState",
    "photoshop:Country": "Iptc4xmpExt:CountryName",
    "Iptc4xmpCore:CountryCode": "Iptc4xmpExt:CountryCode",
}
_OTHER = ("xmp:Rating", "digiKam:TagsList", "photoshop:SidecarForExtension")
_KEPT = frozenset((*_PLAIN, *_LISTS, *_PLACES, *_OTHER, *(name for names in _SOURCES.values() for name in names)))

_RDF, _DESCRIPTION, _LI, _VALUE = ("rdf:RDF", "rdf:Description", "rdf:li", "rdf:value")
_CONTAINERS = frozenset(("rdf:Alt", "rdf:Bag", "rdf:Seq"))
_LANG = "xml:lang"
_DEFAULT = "x-default"
_DATE_WITH_COLONS = re.compile(r"(\d{4}):(\d\d):(\d\d) (?=\d)")
_RATING = re.compile(r"(-?\d)(?:\.0*)?")
_REJECTED = "-1"
_LANGUAGES = {"1": "en", "2": "de"}
"""The languages of which the interface gives the number (section 4.3), as XMP names them."""


@dataclass(frozen=True, slots=True)
class Xmp:
    """The properties of an XMP file, by their usual names; each has at least one text.

    `extension`: the only ending of file names that a `photo.xmp` is for; None if it names none.
    """

    values: Mapping[str, tuple[str, ...]]
    extension: str | None = None

    def is_for(self, path: bytes) -> bool:
        """Return whether a `photo.xmp` beside the file may describe it: another ending may be named."""
        ending = path.rpartition(b".")[2].decode("utf-8", "surrogateescape")
        return self.extension is None or self.extension.casefold().lstrip(".") == ending.casefold()


def parse_xmp(pieces: Iterable[bytes], path: str, language: str) -> Xmp:
    """Return the properties in an XMP file at `path`, read in pieces.

    `language` is the number of the service's language whose text is preferred where none is marked as the default.
    Raise SidecarError, with line and column, for the first mistake; the message never quotes the content. An empty or
    cut file is a mistake.
    """
    reader = _Reader()
    parser = expat.ParserCreate(intern=reader.names)
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = reader.start, reader.end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = reader.data, reader.doctype
    size = 0
    try:
        for piece in _slices(pieces):
            size += len(piece)
            if size > MAX_XMP_BYTES:
                problem = f"it is larger than {MAX_XMP_BYTES // 1_000_000} MB"
                raise SidecarError(printable(path), problem, hint="check that this is an XMP file")
            parser.Parse(piece, False)
        parser.Parse(b"", True)
    except expat.ExpatError as exc:
        problem = _problem_of(exc) if size else "it is empty"
        _fail(path, problem, exc.lineno if size else 0, exc.offset, "save it again in the program that wrote it")
    except _UnfitError as exc:
        _fail(path, exc.problem, parser.CurrentLineNumber, parser.CurrentColumnNumber, exc.hint)
    except (LookupError, ValueError):
        place = parser.CurrentLineNumber, parser.CurrentColumnNumber
        _fail(path, "it is in an encoding that cannot be read", *place, "save it as UTF-8")
    if not reader.has_rdf:
        _fail(path, "it is XML, but no XMP: it has no rdf:RDF", 1, 0, "check that this is an XMP file")
    found = _Found(reader.found, _LANGUAGES.get(language, ""))
    return Xmp(dict(found.values()), found.one("photoshop:SidecarForExtension"))


def _slices(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces, divided into slices. Raise _UnfitError before a tag with more than MAX_KEPT attributes ends.

    The parser holds all attributes of a tag before it reports the first. A slice has no room for too many of them, so
    that only a tag that is longer has to be looked at.
    """
    count = 0
    for piece in pieces:
        for start in range(0, len(piece), _SLICE):
            part = piece[start : start + _SLICE]
            before, tag, _ = part.partition(b"<")
            count += len(_ATTRIBUTE.findall(before))
            if count > MAX_KEPT:
                raise _UnfitError(_ATTRIBUTES)
            if tag:
                count = len(_ATTRIBUTE.findall(part, part.rindex(b"<")))
            yield part


def _problem_of(error: expat.ExpatError) -> str:
    if error.code == expat.errors.codes[expat.errors.XML_ERROR_NO_ELEMENTS]:
        return "it ends before its last element does"
    return f"it is not well-formed XML: {expat.ErrorString(error.code)}"


def _fail(path: str, problem: str, line: int, column: int, hint: str) -> NoReturn:
    # Not chained: the message of the library may show the content.
    raise SidecarError(printable(path), problem, line=line, column=column + 1 if line else 0, hint=hint) from None


_ATTRIBUTES = f"one of its elements has more than {MAX_KEPT:,} attributes"


class _UnfitError(Exception):
    """The file is no XMP, or exceeds a limit."""

    def __init__(self, problem: str, hint: str = "check that this is XMP") -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint


@dataclass(slots=True)
class _Node:
    """An element of a property that is kept, or an attribute that stands for one."""

    tag: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    children: list["_Node"] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.texts).strip()


class _Reader:
    """What the parser calls: it keeps the properties of the table and skips everything else.

    A property is an attribute or a child of an rdf:Description directly in rdf:RDF.
    """

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        """All names in the file; the parser fills it."""
        # The usual prefix for each prefix in the file, "" for a namespace without properties; the innermost is last.
        self._spaces: dict[str, list[str]] = {"": [""], "xml": ["xml"], "xmlns": [""]}
        self._declared: list[Sequence[str]] = []
        self.has_rdf = False
        self.found: dict[str, list[_Node]] = {}
        self._kept = self._characters = 0
        self._depth = 0
        self._rdf_depth = 0
        self._is_described = False
        self._open: list[_Node] = []

    def doctype(self, *_declared: object) -> None:
        raise _UnfitError("it holds a DTD, which is refused", "remove the line that begins with <!DOCTYPE")

    def start(self, raw: str, attributes: Mapping[str, str]) -> None:
        if len(attributes) > MAX_KEPT:
            raise _UnfitError(_ATTRIBUTES)
        if len(self.names) > MAX_KEPT:
            raise _UnfitError(f"it has more than {MAX_KEPT:,} names")
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _UnfitError(f"its elements are nested more than {MAX_DEPTH} deep")
        self._declare(attributes)
        below_rdf = self._depth - self._rdf_depth if self._rdf_depth else 0
        self._place(self._usual(raw, self._spaces[""][-1]), attributes, below_rdf)

    def _place(self, tag: str, attributes: Mapping[str, str], below_rdf: int) -> None:
        if self._open:
            node = self._node(tag, dict(self._attributes(attributes)))
            self._open[-1].children.append(node)
            self._open.append(node)
        elif tag == _RDF and not self._rdf_depth:
            self.has_rdf, self._rdf_depth = True, self._depth
        elif below_rdf == 1:
            self._is_described = tag == _DESCRIPTION
            if self._is_described:
                for name, text in self._attributes(attributes):
                    if name in _KEPT:
                        self.found.setdefault(name, []).append(self._node(name, {}, text))
        elif below_rdf == 2 and self._is_described and tag in _KEPT:  # noqa: PLR2004 - a property of a description
            self._open.append(self._node(tag, dict(self._attributes(attributes))))

    def _declare(self, attributes: Mapping[str, str]) -> None:
        """Note the namespaces that an element declares, until its end."""
        declared = [name for name in attributes if name.startswith("xmlns:") or name == "xmlns"]
        for name in declared:
            self._spaces.setdefault(name[6:], []).append(_USUAL.get(attributes[name], ""))
        self._declared.append(declared)

    def _usual(self, raw: str, unprefixed: str) -> str:
        """Return a name with its usual prefix, "" in a namespace without properties: the address decides."""
        prefix, colon, local = raw.rpartition(":")
        spaces = self._spaces.get(prefix)
        if not spaces:
            raise _UnfitError("it is not well-formed XML: unbound prefix")
        space = spaces[-1] if colon else unprefixed
        return f"{space}:{local}" if space else ""

    def _attributes(self, attributes: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        named = ((self._usual(raw, ""), text) for raw, text in attributes.items())
        return ((name, text) for name, text in named if name)

    def _node(self, tag: str, attributes: Mapping[str, str], *texts: str) -> _Node:
        self._count(1 + len(attributes), *attributes.values(), *texts)
        return _Node(tag, attributes, [*texts])

    def _count(self, kept: int, *texts: str) -> None:
        self._kept += kept
        self._characters += sum(map(len, texts))
        if self._characters > MAX_TEXT:
            raise _UnfitError(f"its properties hold more than {MAX_TEXT:,} characters")
        if self._kept > MAX_KEPT:
            raise _UnfitError(f"its properties hold more than {MAX_KEPT:,} elements and attributes")

    def data(self, text: str) -> None:
        if self._open:
            texts = self._open[-1].texts
            self._count(bool(texts), text)
            texts.append(text)

    def end(self, _raw: str) -> None:
        for name in self._declared.pop():
            self._spaces[name[6:]].pop()
        if self._open and len(self._open) == 1:
            node = self._open[0]
            self.found.setdefault(node.tag, []).append(node)
        if self._open:
            self._open.pop()
        if self._depth == self._rdf_depth:
            self._rdf_depth = 0
        self._depth -= 1


class _Found:
    """The properties that were found, read in the forms that RDF has for a value."""

    def __init__(self, nodes: Mapping[str, list[_Node]], language: str) -> None:
        self._nodes = nodes
        self._language = language

    def values(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield each property that has a value, with its texts."""
        singles = {name: self.one(*_SOURCES.get(name, (name,))) for name in (*_PLAIN, "dc:description")}
        if not any(singles[name] for name in _OF_PLACE):
            singles |= self._place()
        date = self.one(*_SOURCES["photoshop:DateCreated"])
        singles["photoshop:DateCreated"] = date and _DATE_WITH_COLONS.sub(r"\1-\2-\3T", date)
        rating = _RATING.fullmatch(self.one("xmp:Rating") or "")
        if rating is not None and -1 <= int(rating[1]) <= 5:  # noqa: PLR2004 - the range of XMP
            singles["xmp:Rating"] = rating[1]
        yield from ((name, (text,)) for name, text in singles.items() if text)
        tags = [tag.replace("/", "|") for tag in self._all("digiKam:TagsList")]
        hierarchies = self._all("lr:hierarchicalSubject") or tags
        keywords = self._all("dc:subject") or [path.rpartition("|")[2].strip() for path in hierarchies]
        lists = {"dc:subject": keywords, "lr:hierarchicalSubject": hierarchies, "dc:creator": self._all("dc:creator")}
        yield from ((name, without_doubles(texts)) for name, texts in lists.items() if texts)

    def one(self, *names: str) -> str | None:
        """Return the text of the first property that has one: the default, that of the language, else the first."""
        for name in names:
            texts = self._texts(name)
            wanted = (_DEFAULT, self._language)
            preferred = (text for want in wanted for lang, text in texts if want and _is_language(lang, want))
            if (text := next(preferred, texts[0][1] if texts else None)) is not None:
                return text
        return None

    def _all(self, name: str) -> list[str]:
        return [text for _lang, text in self._texts(name)]

    def _texts(self, name: str) -> list[tuple[str, str]]:
        """Return language and text of each value of a property; of several properties of the name, the first counts."""
        return next(filter(None, (list(_texts_of(node)) for node in self._nodes.get(name, ()))), [])

    def _place(self) -> dict[str, str | None]:
        """Return the fields of the first place that the file names."""
        nodes = (node for name in _PLACES for node in self._nodes.get(name, ()))
        parts = next(filter(None, (dict(_parts_of(node)) for node in nodes)), {})
        return {name: parts.get(part) for name, part in _OF_PLACE.items()}


def without_doubles(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the texts, of those that differ by letter case only the first, without empty ones."""
    first: dict[str, str] = {}
    for text in texts:
        first.setdefault(text.casefold(), text)
    return tuple(text for text in first.values() if text)


def _is_language(lang: str, wanted: str) -> bool:
    return lang == wanted or lang.partition("-")[0] == wanted


def _texts_of(node: _Node, lang: str = "") -> Iterator[tuple[str, str]]:
    """Yield language and text of the values of a property, or of an item: an array, a qualified value, or a text."""
    lang = node.attributes.get(_LANG, lang).lower()
    if (value := node.attributes.get(_VALUE)) is not None:
        yield from [(lang, value.strip())] * bool(value.strip())
        return
    inner = [child for child in node.children if child.tag in _CONTAINERS or child.tag in {_LI, _VALUE, _DESCRIPTION}]
    for child in inner:
        yield from _texts_of(child, lang)
    if not inner and node.text:
        yield lang, node.text


def _parts_of(node: _Node) -> Iterator[tuple[str, str]]:
    """Yield the fields of a structure, of several the first: as attributes, as elements, or in an rdf:Description."""
    if node.tag in _CONTAINERS:
        yield from next(filter(None, (list(_parts_of(item)) for item in node.children)), [])
        return
    yield from ((name, text.strip()) for name, text in node.attributes.items() if text.strip())
    for child in node.children:
        if child.tag in _CONTAINERS or child.tag == _DESCRIPTION:
            yield from _parts_of(child)
        elif (text := next((text for _lang, text in _texts_of(child)), None)) is not None:
            yield child.tag, text


def xmp_metadata(xmp: Xmp, table: Mapping[str, str], custom_fields: Mapping[str, str]) -> Metadata:
    """Return the metadata that the properties give by the table of `service.xmp_fields`.

    Several properties of one field are joined. A keyword must not hold the comma that separates keywords. A rating
    that means "rejected" is never sent as a number.
    """
    fields: dict[str, list[str]] = {}
    for name, target in table.items():
        texts = xmp.values.get(name, ())
        if name == "xmp:Rating" and texts == (_REJECTED,):
            continue
        if texts:
            fields.setdefault(target, []).extend(texts)
    keywords = fields.pop(XMP_TO_KEYWORDS, None)
    joined = {target: ", ".join(texts) for target, texts in fields.items()}
    description, location = joined.pop(XMP_TO_DESCRIPTION, None), joined.pop(XMP_TO_LOCATION, None)
    return Metadata(
        description=description,
        keywords=None if keywords is None else without_doubles(map(_without_comma, keywords)),
        location=location,
        meta=tuple((name, text) for name, text in joined.items() if name not in custom_fields),
        custom=tuple((name, text) for name, text in joined.items() if name in custom_fields),
    )


def _without_comma(keyword: str) -> str:
    return " ".join(keyword.replace(",", " ").split()) if "," in keyword else keyword


def has_comma(xmp: Xmp, table: Mapping[str, str]) -> bool:
    """Return whether a keyword of the file is sent with another character in place of its comma."""
    names = (name for name, target in table.items() if target == XMP_TO_KEYWORDS)
    return any("," in text for name in names for text in xmp.values.get(name, ()))
