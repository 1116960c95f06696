"""What is read from XMP files: those of exiftool and exiv2 in `xmp/`, and the forms that other programs write."""

import re
import tracemalloc
from pathlib import Path

import pytest

from assetsync.config.document.metadata import XMP_FIELDS
from assetsync.core.xmp import MAX_DEPTH, MAX_KEPT, MAX_TEXT, MAX_XMP_BYTES, Xmp, has_comma, parse_xmp, xmp_metadata
from assetsync.errors import SidecarError
from assetsync.model import Metadata

FILES = Path(__file__).parent / "xmp"
BOATS = {
    "dc:description": ("Harbour at dawn",),
    "dc:subject": ("boat", "Harbour"),
    "dc:creator": ("Ann Example", "Bob Sample"),
    "photoshop:Headline": ("Boats return",),
    "photoshop:City": ("Marseille",),
    "Iptc4xmpCore:Location": ("Old Port",),
    "xmp:Rating": ("4",),
}
SPACES = {
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "dc": "http://purl.org/dc/elements/1.1/",
    "lr": "http://ns.adobe.com/lightroom/1.0/",
    "digiKam": "http://www.digikam.org/ns/1.0/",
    "photoshop": "http://ns.adobe.com/photoshop/1.0/",
    "xmp": "http://ns.adobe.com/xap/1.0/",
    "tiff": "http://ns.adobe.com/tiff/1.0/",
    "exif": "http://ns.adobe.com/exif/1.0/",
    "ext": "http://iptc.org/std/Iptc4xmpExt/2008-02-29/",
}

SHOWN = "<ext:LocationShown><rdf:Bag>{}</rdf:Bag></ext:LocationShown>"


def packet(properties: str, attributes: str = "") -> bytes:
    spaces = " ".join(f'xmlns:{prefix}="{address}"' for prefix, address in SPACES.items() if prefix != "rdf")
    return (
        f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="{SPACES["rdf"]}">'
        f'<rdf:Description rdf:about="" {spaces} {attributes}>{properties}</rdf:Description></rdf:RDF></x:xmpmeta>'
    ).encode()


def numbered(count: int, prefix: str = "") -> str:
    return " ".join(f'{prefix}a{number}=""' for number in range(count))


def read(data: bytes, language: str = "1") -> Xmp:
    return parse_xmp([data], "a.xmp", language)


@pytest.mark.parametrize("name", ["exiftool_elements.xmp", "exiftool_attributes.xmp"])
def test_elements_and_attributes_say_the_same(name):
    assert read((FILES / name).read_bytes()).values == BOATS


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_pieces_of_any_size_say_the_same(size):
    data = (FILES / "exiftool_elements.xmp").read_bytes()
    pieces = (data[start : start + size] for start in range(0, len(data), size))
    assert parse_xmp(pieces, "a.xmp", "1").values == BOATS


@pytest.mark.parametrize(
    ("language", "title"),
    [("2", "Hafen"), ("1", "Harbour"), ("7", "Harbour")],
)
def test_language_of_the_mapping_chooses_the_text(language, title):
    """Without a default text; of a language of which the interface gives no number, the first one counts."""
    assert read((FILES / "exiv2_languages.xmp").read_bytes(), language).values["dc:title"] == (title,)


def test_default_text_precedes_the_language():
    items = '<rdf:li xml:lang="en">English</rdf:li><rdf:li xml:lang="x-default">default</rdf:li>'
    found = read(packet(f"<dc:title><rdf:Alt>{items}</rdf:Alt></dc:title>"))
    assert found.values["dc:title"] == ("default",)


def test_empty_default_text_is_no_text():
    items = '<rdf:li xml:lang="x-default"/><rdf:li xml:lang="fr">Port</rdf:li>'
    found = read(packet(f"<dc:title><rdf:Alt>{items}</rdf:Alt></dc:title>"))
    assert found.values["dc:title"] == ("Port",)


@pytest.mark.parametrize(
    ("properties", "attributes", "name", "texts"),
    [
        ("<dc:title>plain</dc:title>", "", "dc:title", ("plain",)),
        ("<dc:title><![CDATA[R&D]]> &lt;1&gt; &#xE9;</dc:title>", "", "dc:title", ("R&D <1> é",)),
        ("<dc:subject><rdf:Seq><rdf:li> a </rdf:li><rdf:li/></rdf:Seq></dc:subject>", "", "dc:subject", ("a",)),
        ('<dc:title rdf:parseType="Resource"><rdf:value>v</rdf:value></dc:title>', "", "dc:title", ("v",)),
        ('<dc:title><rdf:Description rdf:value="v" xmp:Label="x"/></dc:title>', "", "dc:title", ("v",)),
        ("", 'tiff:ImageDescription="camera"', "dc:description", ("camera",)),
        ("", 'exif:DateTimeOriginal="2026:11:26 15:57:00"', "photoshop:DateCreated", ("2026-11-26T15:57:00",)),
        ("", 'xmp:Rating="4.0"', "xmp:Rating", ("4",)),
        (
            "<lr:hierarchicalSubject><rdf:Bag><rdf:li>places|Bern</rdf:li></rdf:Bag></lr:hierarchicalSubject>",
            "",
            "dc:subject",
            ("Bern",),
        ),
        (
            "<digiKam:TagsList><rdf:Seq><rdf:li>places/Bern</rdf:li></rdf:Seq></digiKam:TagsList>",
            "",
            "lr:hierarchicalSubject",
            ("places|Bern",),
        ),
        (
            SHOWN.format('<rdf:li rdf:parseType="Resource"><ext:City>Paris</ext:City></rdf:li>'),
            "",
            "photoshop:City",
            ("Paris",),
        ),
        (
            '<ext:LocationCreated><rdf:Bag><rdf:li ext:City="Paris"/></rdf:Bag></ext:LocationCreated>',
            "",
            "photoshop:City",
            ("Paris",),
        ),
        (
            SHOWN.format('<rdf:li><rdf:Description ext:City="Paris"/></rdf:li>'),
            "",
            "photoshop:City",
            ("Paris",),
        ),
    ],
)
def test_value_is_read_in_each_form(properties, attributes, name, texts):
    assert read(packet(properties, attributes)).values[name] == texts


@pytest.mark.parametrize("rating", ["6", "-2", "", "four", "4.5"])
def test_impossible_rating_is_none(rating):
    assert "xmp:Rating" not in read(packet("", f'xmp:Rating="{rating}"')).values


def test_fields_of_two_places_are_not_mixed():
    place = (
        '<ext:LocationShown><rdf:Bag><rdf:li ext:City="Paris" ext:Sublocation="Louvre"/></rdf:Bag></ext:LocationShown>'
    )
    found = read(packet(place, 'photoshop:City="Bern"'))
    assert found.values == {"photoshop:City": ("Bern",)}


def test_address_of_the_namespace_decides():
    data = packet("").replace(
        b"<rdf:Description", b'<rdf:Description xmlns:dc="http://example.org/other/" dc:title="no"', 1
    )
    data = data.replace(f'xmlns:dc="{SPACES["dc"]}"'.encode(), f'xmlns:q="{SPACES["dc"]}" q:title="yes"'.encode())
    assert read(data).values == {"dc:title": ("yes",)}


def test_property_within_another_is_not_of_the_file():
    inner = "<xmp:Other><rdf:Description><dc:title>of a layer</dc:title></rdf:Description></xmp:Other>"
    assert read(packet(inner)).values == {}


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_byte_order_mark_is_understood(encoding):
    text = packet("<dc:title>Größe</dc:title>").decode() + "\n" + " " * 2000
    assert read(text.encode(encoding)).values == {"dc:title": ("Größe",)}


def test_bare_rdf_with_comment_is_read():
    data = b"<?xml version='1.0'?>\n<!-- by hand -->\n" + packet("<dc:title>t</dc:title>")
    data = re.sub(rb"</?x:xmpmeta[^>]*>", b"", data)
    assert read(data).values == {"dc:title": ("t",)}


def test_megabytes_of_settings_are_skipped():
    settings = "".join(
        f"<xmp:S{n % 900}><rdf:Seq><rdf:li>0, 0</rdf:li></rdf:Seq></xmp:S{n % 900}>" for n in range(40_000)
    )
    data = packet(f"{settings}<dc:title>t</dc:title>", " ".join(f'xmp:A{n}="0.5"' for n in range(5_000)))
    assert len(data) > 2_000_000
    assert read(data).values == {"dc:title": ("t",)}


@pytest.mark.parametrize(
    ("data", "where", "problem"),
    [
        (b"", "a.xmp: ", "it is empty"),
        (packet("<dc:title>\n")[:-40], "line 2", "ends before"),
        (b"<a>\n</b>", "a.xmp, line 2, column 3", "mismatched tag"),
        (b"description: of another format", "line 1", "not well-formed XML"),
        (b"<html>\n</html>", "line 1", "no rdf:RDF"),
        (b'<!DOCTYPE a [<!ENTITY b "secret">]>\n<a>&b;</a>', "line 1", "holds a DTD"),
        (b'<?xml version="1.0" encoding="gb18030"?><a/>', "line 1", "encoding"),
        (packet("\n" + "<xmp:x>" * MAX_DEPTH), "line 2", "nested more than 100 deep"),
        (packet("<dc:subject>\n" + "<a/>" * MAX_KEPT + "</dc:subject>"), "line 2", "more than 20,000 elements"),
        (packet("\n" + "<dc:title/>" * (MAX_KEPT + 1)), "line 2", "more than 20,000 elements"),
        (packet(f"\n<a {numbered(MAX_KEPT + 1)}/>"), "line 2", "more than 20,000 attributes"),
        (packet(f"<a\n{numbered(620_000)}/>"), "line 1", "more than 20,000 attributes"),
        (
            packet(f"<dc:title {numbered(19_000, 'dc:')}>\n{'<a/>' * 1_001}</dc:title>"),
            "line 2",
            "elements and attributes",
        ),
        (packet("\n" + "".join(f"<a{n}/>" for n in range(MAX_KEPT + 1))), "line 2", "more than 20,000 names"),
        (packet(f"<dc:title>\n{'t' * (MAX_TEXT + 1)}</dc:title>"), "line 2", "more than 1,000,000 characters"),
        (packet("\n<none:title>secret</none:title>"), "line 2", "unbound prefix"),
    ],
)
def test_mistake_names_its_line_and_no_content(data, where, problem):
    with pytest.raises(SidecarError) as caught:
        read(data)
    assert where in str(caught.value)
    assert problem in str(caught.value)
    assert "secret" not in str(caught.value)


def test_too_long_file_is_not_read_to_its_end():
    read_pieces = []

    def pieces():
        for number in range(1000):
            read_pieces.append(number)
            yield b"<a>" + b" " * 1_000_000 if not number else b" " * 1_000_000

    with pytest.raises(SidecarError, match="larger than 10 MB"):
        parse_xmp(pieces(), "a.xmp", "1")
    assert len(read_pieces) == MAX_XMP_BYTES // 1_000_000


def test_default_table_has_three_keys():
    found = xmp_metadata(Xmp(BOATS), XMP_FIELDS, {})
    assert found == Metadata(description="Harbour at dawn", keywords=("boat", "Harbour"), location="Old Port")


def test_table_names_fields_and_custom_fields():
    table = {"photoshop:Headline": "headline", "dc:creator": "Photographer", "xmp:Rating": "img_rating"}
    found = xmp_metadata(Xmp(BOATS), table, {"Photographer": "E0F9"})
    assert found.meta == (("headline", "Boats return"), ("img_rating", "4"))
    assert found.custom == (("Photographer", "Ann Example, Bob Sample"),)


def test_properties_of_one_field_are_joined():
    table = {"Iptc4xmpCore:Location": "location", "photoshop:City": "location", "photoshop:Country": "location"}
    assert xmp_metadata(Xmp(BOATS), table, {}).location == "Old Port, Marseille"


def test_rejected_is_no_number():
    xmp = read((FILES / "exiv2_languages.xmp").read_bytes())
    assert xmp.values["xmp:Rating"] == ("-1",)
    assert xmp_metadata(xmp, {"xmp:Rating": "img_rating"}, {}) == Metadata()


def test_comma_in_a_keyword_does_not_part_it():
    xmp = Xmp({"dc:subject": ("Bern, Switzerland", "snow")})
    assert xmp_metadata(xmp, XMP_FIELDS, {}).keywords == ("Bern Switzerland", "snow")
    assert has_comma(xmp, XMP_FIELDS)
    assert not has_comma(Xmp(BOATS), XMP_FIELDS)


@pytest.mark.parametrize(("extension", "is_for"), [(None, True), ("jpg", True), (".JPG", True), ("NEF", False)])
def test_named_ending_decides_for_whom(extension, is_for):
    found = read(packet("", "" if extension is None else f'photoshop:SidecarForExtension="{extension}"'))
    assert found.is_for(b"a/photo.jpg") is is_for


def test_long_namespace_fills_no_memory():
    """The parser could put the address before each name: 2 GB for a file of 300 KB."""
    space = "u" * 100_000
    data = packet(f'<p:a xmlns:p="{space}" {numbered(19_000, "p:")}/><dc:title>t</dc:title>')
    tracemalloc.start()
    try:
        assert read(data).values == {"dc:title": ("t",)}
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
