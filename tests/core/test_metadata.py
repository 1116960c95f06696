"""Sidecars: texts arrive as written, mistakes are told with their place, levels merge."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from assetsync.config.document import loader
from assetsync.config.document.metadata import KINDS, METADATA_FIELDS, FieldNames
from assetsync.core.metadata import (
    FieldMistake,
    Sendable,
    check_skip_event,
    digest,
    expand,
    folder_sidecars,
    form_fields,
    is_sidecar_name,
    language_of,
    merge,
    parse_sidecar,
    sendable,
    sidecar_for,
    upload_options,
)
from assetsync.errors import SidecarError
from assetsync.model import Metadata, UploadOptions

CUSTOM = {"Photographer": "E0F9560F-5E76", "Agency": "A1"}

FULL = """\
description: The old harbour at dawn
keywords: [harbour, dawn, 2026]
location: Tromsø, NO
language: 1
meta: {headline: Harbour}
custom: {Photographer: Ansel}
upload: {upl_template: "7", skip_event: [on_file_add], zip_extract: false}
"""


@pytest.fixture(params=["CBaseLoader", "BaseLoader"])
def either_parser(request, monkeypatch):
    """Run with PyYAML's C parser and with its own one."""
    monkeypatch.setattr(loader, "_LOADER", getattr(yaml, request.param))


def parse(text):
    return parse_sidecar(text.encode(), "a/photo.jpg.yaml", CUSTOM)


def test_every_key_of_a_sidecar_is_read():
    assert parse(FULL) == Metadata(
        description="The old harbour at dawn",
        keywords=("harbour", "dawn", "2026"),
        location="Tromsø, NO",
        language="1",
        meta=(("headline", "Harbour"),),
        custom=(("Photographer", "Ansel"),),
        zip_extract=False,
        skip_event=("on_file_add",),
        upl_template="7",
    )


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "---\n", "\ufeff", "{}", "meta:\ncustom:\nupload:\n"])
def test_sidecar_without_values_is_empty(text):
    assert parse(text) == Metadata()


@pytest.mark.usefixtures("either_parser")
@pytest.mark.parametrize(
    "text",
    [
        "NO",
        "no",
        "yes",
        "012",
        "0x1f",
        "0o17",
        "12:30",
        "2024-01-01",
        "2024-01-01 10:00:00",
        "1e5",
        "1.50",
        "+1",
        ".5",
        "null",
        "~",
        "true",
        "Off",
        "1_000",
        ".inf",
        ".nan",
        "=",
        "y",
        "N",
        "-",
        "it's",
        'say "x"',
        "{dir}x",
        "a#b",
    ],
)
def test_scalar_is_kept_as_written_text(text):
    plain = text if text not in {"-", "{dir}x", "="} else f"'{text}'"
    document = f"description: {plain}\nkeywords: [{plain}]\nmeta: {{img_x: {plain}}}\n"
    assert parse(document) == Metadata(description=text, keywords=(text,), meta=(("img_x", text),))


_INVISIBLE = ("Cc", "Cs", "Zl", "Zp")
printable_line = st.text(st.characters(exclude_categories=_INVISIBLE, exclude_characters="\ufeff\ufffe\uffff"))
_FIRST = r"[A-Za-z0-9_./+~=<(äé日🎉]"
_NEXT = r"""[A-Za-z0-9_./+~=<(äé日🎉:#,'"\-!&*?|>%@` ]*"""


def _is_plain(text):
    """Whether YAML takes the text without quotes."""
    return text == text.strip() and ": " not in text and " #" not in text and not text.endswith(":")


plain_scalar = st.from_regex(_FIRST + _NEXT, fullmatch=True).filter(_is_plain)


@pytest.mark.usefixtures("either_parser")
class TestFidelity:
    @given(printable_line)
    def test_single_quoted_text_is_unchanged(self, text):
        quoted = text.replace("'", "''")
        assert parse(f"description: '{quoted}'\n").description == text

    @given(st.text(st.characters(exclude_categories=("Cs",))))
    def test_double_quoted_text_is_unchanged(self, text):
        escaped = "".join(c if c.isalnum() and c.isascii() else f"\\U{ord(c):08x}" for c in text)
        assert parse(f'location: "{escaped}"\n').location == text

    @given(plain_scalar)
    def test_any_plain_text_arrives_as_written(self, text):
        assert parse(f"description: {text}\n").description == text

    @given(st.lists(printable_line.filter(lambda line: line == line.strip() and line), min_size=1))
    def test_block_lines_are_unchanged(self, lines):
        block = "".join(f"  {line}\n" for line in lines)
        assert parse(f"description: |-\n{block}").description == "\n".join(lines)


@pytest.mark.usefixtures("either_parser")
@pytest.mark.parametrize(
    ("text", "line", "column", "said"),
    [
        ("description: a\ndescription: b\n", 2, 1, "description: this key is repeated, first in line 1"),
        ("descripton: a\n", 1, 1, "descripton: this key is unknown: did you mean `description`?"),
        ("debug: 1\n", 1, 1, "debug: this key is unknown"),
        ("headline: a\n", 1, 1, "headline: this key is unknown"),
        ("upload: {debug: 1}\n", 1, 10, "upload.debug: this key is unknown"),
        ("upload: {emailto: a@b}\n", 1, 10, "upload.emailto: this key is unknown"),
        ("upload: {skip_event: [on_foo]}\n", 1, 10, "upload.skip_event: it holds an unknown event"),
        ("upload: {zip_extract: perhaps}\n", 1, 10, "upload.zip_extract: it must be yes or no"),
        ("upload: 7\n", 1, 1, "upload: it must be a group"),
        (
            "meta: {lang_id_r: 1}\n",
            1,
            8,
            "meta.lang_id_r: the language is not a metadata field: write it as `language: 1`",
        ),
        ("meta: {a-b: 1}\n", 1, 8, "meta.a-b: it is not a valid name of a metadata field"),
        (f"meta: {{{'a' * 65}: 1}}\n", 1, 8, "it is not a valid name of a metadata field"),
        ("meta: {a: [1]}\n", 1, 8, "meta.a: it must be one text"),
        ("meta: {metacf_a_b-c: 1}\n", 1, 8, "meta.metacf_a_b-c: it is not a valid name of a metadata field"),
        ("\ncustom: {Genre: 1}\n", 2, 10, "custom.Genre: no custom field has this name: add it with its id to service"),
        ("custom: {Fotographer: 1}\n", 1, 10, "no custom field has this name: did you mean `Photographer`?"),
        ("custom: {Photographer: [1]}\n", 1, 10, "custom.Photographer: it must be one text"),
        ("custom: 1\n", 1, 1, "custom: it must be a group"),
        ("description: [a]\n", 1, 1, "description: it must be one text"),
        ("keywords: {a: b}\n", 1, 1, "keywords: it must be a list of texts, or one text"),
        ("keywords: [a, [b]]\n", 1, 1, "keywords: it must be a list of texts, or one text"),
        ("language: English\n", 1, 1, "language: it must be the number of a language"),
        ("language:\n", 1, 1, "language: it must be the number of a language"),
        ("description: &a x\nlocation: *a\n", 1, 14, "anchors (&name) are not supported"),
        ("description: !!str x\n", 1, 14, "tags (!name) are not supported"),
        ("<<: {description: x}\n", 1, 1, "merge keys (<<) are not supported"),
        ("a: b\n--- \nc: d\n", 2, 1, "a second document begins here"),
        ("? [a]\n: b\n", 1, 3, "a key must be a plain word"),
        ("keywords: " + "[" * 40 + "\n", 1, 27, "it is nested more than 16 deep"),
        ("just a text\n", 1, 1, "it must be a group of `key: value` lines"),
        ("- a\n", 1, 1, "it must be a group of `key: value` lines"),
        ("description: a: b\n", 1, 15, "this is not YAML: put quotes around a text that holds a colon and a"),
        ("keywords:\n\t- a\n", 2, 1, "this is not YAML: indent with spaces; a tab is not allowed here"),
        ("description: @home\n", 1, 14, "this is not YAML: a text with @ here needs quotes"),
        ("keywords: [a, b\n", 1, 11, "this is not YAML: the [ here is not closed,"),
        ("keywords: [a, b\nlocation: c\n", 1, 11, "this is not YAML: the [ here is not closed,"),
        ("description: 'x\nlocation: y\n", 1, 14, "this is not YAML: the ' here is not closed,"),
        ("ok: 1\ndescription: \x07\n", 2, 14, "the character U+0007 is not allowed in a YAML file"),
    ],
)
def test_mistake_has_line_and_column(text, line, column, said):
    with pytest.raises(SidecarError) as caught:
        parse(text)
    error = caught.value
    assert (error.path, error.line, error.column) == ("a/photo.jpg.yaml", line, column)
    assert said in str(error)
    assert error.hint


def test_first_mistake_is_reported():
    with pytest.raises(SidecarError, match=r"line 2, column 1: foo"):
        parse("description: a\nfoo: b\nbar: c\n")


def test_invalid_utf8_is_reported_with_place():
    with pytest.raises(SidecarError, match="line 2, column 14: it is not UTF-8"):
        parse_sidecar(b"language: 1\ndescription: \xe9\n", "x.yaml")


def test_sidecar_above_64_kib_is_refused():
    fits = b"description: " + b"a" * (64 * 1024 - 13)
    assert len(parse_sidecar(fits, "x.yaml").description) == 64 * 1024 - 13
    with pytest.raises(SidecarError, match="larger than 64 KiB"):
        parse_sidecar(fits + b"a", "x.yaml")


@given(st.binary(max_size=200))
def test_any_bytes_are_metadata_or_one_error(data):
    try:
        outcome = parse_sidecar(data, "x.yaml")
    except SidecarError as exc:
        outcome = exc
    assert isinstance(outcome, Metadata) or "\n" not in str(outcome)


@pytest.mark.parametrize(
    "text",
    [
        "description: CANARY: x",
        "CANARY",
        "language: CANARY",
        "meta: {a: [CANARY]}",
        "upload: {skip_event: CANARY}",
        "description: *CANARY",
        "description: &CANARY x",
        "description: !CANARY x",
        "a: 'CANARY",
        "@CANARY",
    ],
)
def test_error_never_quotes_sidecar_content(text):
    with pytest.raises(SidecarError) as caught:
        parse(text)
    error = caught.value
    while error is not None:
        assert "CANARY" not in str(error)
        error = error.__cause__ if error.__suppress_context__ else error.__context__


# ── merge ──

texts = st.none() | st.sampled_from(["", "a", "b"])
metadata = st.builds(
    Metadata,
    description=texts,
    keywords=st.none() | st.sampled_from(["", "k", (), ("k",), ("l", "m")]),
    location=texts,
    language=st.none() | st.sampled_from(["1", "2"]),
    meta=st.dictionaries(st.sampled_from("xyz"), st.sampled_from(["", "1", "2"])).map(lambda meta: tuple(meta.items())),
    zip_extract=st.none() | st.booleans(),
    skip_event=st.none() | st.sampled_from([(), ("on_file_add",)]),
    upl_template=texts,
)


@given(metadata)
def test_merging_with_nothing_is_identity(level):
    assert merge([Metadata(), level]) == merge([level, Metadata()]) == level


@given(metadata, metadata, metadata)
def test_levels_may_be_merged_in_steps(first, second, third):
    assert (
        merge([first, second, third])
        == merge([merge([first, second]), third])
        == merge([first, merge([second, third])])
    )


@given(metadata, metadata)
def test_later_level_overrides_its_values(first, second):
    merged = merge([first, second])
    for key in ("description", "keywords", "location", "language", "zip_extract", "skip_event", "upl_template"):
        said = getattr(second, key)
        assert getattr(merged, key) == (getattr(first, key) if said is None else said)
    assert dict(merged.meta) == dict(first.meta) | dict(second.meta)


def test_a_list_replaces_a_list():
    levels = [Metadata(keywords=("photo", "site")), Metadata(keywords=("harbour",))]
    assert merge(levels).keywords == ("harbour",)


# ── form fields ──


@pytest.mark.parametrize(
    ("kind", "description", "keywords"),
    [
        ("img", "img_description", "img_keywords"),
        ("vid", "vid_description", "vid_keywords"),
        ("aud", "aud_description", "aud_keywords"),
        ("doc", "file_desc", "file_keywords"),
        ("other", "file_desc", "file_keywords"),
    ],
)
def test_fields_depend_on_the_kind(kind, description, keywords):
    said = Metadata(description="d", keywords=("a", "b"), location="l", meta=(("headline", "h"),))
    expected = ((description, "d"), (keywords, "a,b"), ("location", "l"), ("headline", "h"))
    assert form_fields(said, kind, METADATA_FIELDS) == expected


def test_a_keyword_text_is_sent_as_it_is():
    assert form_fields(Metadata(keywords="a; b"), "img", METADATA_FIELDS) == (("img_keywords", "a; b"),)


def test_meta_field_is_sent_once():
    said = Metadata(description="general", meta=(("img_description", "special"),))
    assert form_fields(said, "img", METADATA_FIELDS) == (("img_description", "special"),)


def test_custom_field_is_its_own_form_field():
    said = Metadata(custom=(("Photographer", "Ansel"),), meta=(("metacf_B-2", "x"),))
    expected = (("metacf_E0F9560F-5E76", "Ansel"), ("metacf_B-2", "x"))
    assert form_fields(said, "img", METADATA_FIELDS, CUSTOM) == expected


def test_meta_takes_precedence_over_custom():
    said = Metadata(custom=(("Agency", "by name"),), meta=(("metacf_A1", "by id"),))
    assert form_fields(said, "img", METADATA_FIELDS, CUSTOM) == (("metacf_A1", "by id"),)


def test_custom_fields_merge_by_name():
    levels = [
        Metadata(custom=(("Agency", "a"), ("Photographer", "p"))),
        parse('custom: {Agency: b, Photographer: ""}\n'),
    ]
    assert form_fields(merge(levels), "doc", METADATA_FIELDS, CUSTOM) == (("metacf_A1", "b"),)


def test_empty_text_clears_inherited_value():
    merged = merge([Metadata(description="folder"), parse('description: ""\n')])
    assert form_fields(merged, "img", METADATA_FIELDS) == ()


def test_config_table_overrides_field_names():
    table = METADATA_FIELDS | {"img": ("title", "tags")}
    assert form_fields(Metadata(description="d", keywords="k"), "img", table) == (("title", "d"), ("tags", "k"))


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("{dir}", b"photos/2026/oslo/a.b.jpg", "oslo"),
        ("{dirs}", b"photos/2026/oslo/a.jpg", "photos/2026/oslo"),
        ("{stem}", b"photos/a.b.jpg", "a.b"),
        ("{stem}", b".hidden", ".hidden"),
        ("{dir}|{dirs}|{stem}", b"a.jpg", "||a"),
        ("{{{stem}}} {{dir}}", b"x/a.jpg", "{a} {dir}"),
        ("{stem}", b"x/{dir}.jpg", "{dir}"),
        ("{dir}", b"a\nb/\xff.jpg", "a_b"),
    ],
)
def test_placeholders_name_parts_of_the_path(text, path, expected):
    said = Metadata(description=text, location=text, meta=(("img_x", text),), custom=(("Agency", text),))
    filled = Metadata(
        description=expected, location=expected, meta=(("img_x", expected),), custom=(("Agency", expected),)
    )
    assert expand(said, path) == filled


def test_placeholder_in_custom_field_alone_is_replaced():
    assert expand(Metadata(custom=(("Agency", "{stem}"),)), b"a.jpg").custom == (("Agency", "a"),)


@pytest.mark.parametrize("keywords", [("photo", "{dirs}"), "photo,{dirs}"])
def test_each_folder_becomes_a_keyword(keywords):
    filled = expand(Metadata(keywords=keywords), b"2026/oslo/a.jpg")
    assert form_fields(filled, "img", METADATA_FIELDS) == (("img_keywords", "photo,2026,oslo"),)


def test_keyword_expanded_to_nothing_is_dropped():
    assert expand(Metadata(keywords=("{dir}", "x")), b"a.jpg").keywords == ("x",)


# ── options, digest, names ──


def test_sidecar_sets_only_three_options():
    mapping = UploadOptions(debug=True, emailto="a@b", skip_event=("on_file_add", "on_file_edit"), upl_template="1")
    said = Metadata(zip_extract=True, skip_event=("on_file_edit",), upl_template="7")
    expected = UploadOptions(
        debug=True, emailto="a@b", skip_event=("on_file_edit",), upl_template="7", zip_extract=True
    )
    assert upload_options(said, mapping) == expected
    assert upload_options(Metadata(), mapping) == mapping


def test_skip_event_beyond_mapping_is_error():
    said = Metadata(skip_event=("on_file_add", "on_file_move"))
    with pytest.raises(SidecarError, match=r"a\.yaml: upload\.skip_event: .* skip on_file_move: remove it here, or a"):
        check_skip_event(said, UploadOptions(skip_event=("on_file_add",)), "a.yaml")
    check_skip_event(said, UploadOptions(skip_event=("on_file_move", "on_file_add")), "a.yaml")
    check_skip_event(Metadata(), UploadOptions(), "a.yaml")


def test_digest_ignores_the_order_of_values():
    fields = [("a", "1"), ("b", "2")]
    one = digest(fields, UploadOptions(skip_event=("on_file_add", "on_file_edit")))
    assert one == digest(fields[::-1], UploadOptions(skip_event=("on_file_edit", "on_file_add"), debug=True))
    assert len(one) == 64


@pytest.mark.parametrize(
    "other",
    [
        digest([("a", "2")], UploadOptions()),
        digest([("a", "1")], UploadOptions(), "2"),
        digest([("a", "1")], UploadOptions(zip_extract=True)),
        digest([("a", "1")], UploadOptions(skip_event=("on_file_add",))),
        digest([("a", "1")], UploadOptions(upl_template="7")),
        digest([], UploadOptions()),
    ],
)
def test_digest_depends_on_every_value(other):
    assert other != digest([("a", "1")], UploadOptions())


def test_digest_of_earlier_releases_still_holds():
    """The digest covers fields that are no longer sent, so that no file drifts at the upgrade."""
    said = Metadata(description="d", keywords=("a", "b"), location="l", meta=(("img_headline", "h"),))
    options = UploadOptions(skip_event=("on_file_add",), upl_template="7")
    sent = form_fields(said, "img", METADATA_FIELDS, CUSTOM)
    assert digest(sent, options, "2") == "b4629190eb3bb84c32de7fb7b2bd09685d4b1c4b346dc18a753d40cbef34013d"
    assert digest((), UploadOptions()) == "93ebd861eb671e029b7e95725bec5be33d0a279c8eb9144cf6e84789618eaaec"


def test_language_defaults_to_english():
    assert [language_of(Metadata()), language_of(Metadata(language="2"))] == ["1", "2"]


def test_the_paths_of_the_sidecars_of_a_file():
    assert sidecar_for(b"a/photo.jpg") == b"a/photo.jpg.yaml"
    assert folder_sidecars(b"a/b/photo.jpg") == (b"_folder.yaml", b"a/_folder.yaml", b"a/b/_folder.yaml")
    assert folder_sidecars(b"photo.jpg") == (b"_folder.yaml",)


@pytest.mark.parametrize(
    ("name", "is_sidecar"),
    [(b"photo.jpg.yaml", True), (b"_folder.yaml", True), (b"x.YAML", False), (b"x.yml", False), (b"yaml", False)],
)
def test_a_sidecar_is_told_by_its_ending(name, is_sidecar):
    assert is_sidecar_name(name) is is_sidecar


def test_json_sidecar_is_read():
    said = {"description": "a: b", "keywords": ["x"], "meta": {"img_y": "ü"}}
    assert parse(json.dumps(said)) == Metadata(description="a: b", keywords=("x",), meta=(("img_y", "ü"),))


LONG = {"headline": 1000, "location": 500, "citelwork": 300, "datecreated": 200, "colorspace": 50, "xres": 30}


def sent(*fields, kind="img", proven=None, **names):
    return sendable(fields, kind, FieldNames(**names), lambda each: (proven or {}).get(each, ()))


@pytest.mark.parametrize(
    ("name", "kind", "having"),
    [
        ("headline", "doc", "pictures"),
        ("location", "vid", "pictures"),
        ("vid_title", "img", "videos"),
        ("file_desc", "img", "documents"),
        ("aud_keywords", "other", "audio files"),
        ("IMG_KEYWORDS", "aud", "pictures"),
    ],
)
def test_field_of_another_kind_is_left_out(name, kind, having):
    assert sent((name, "x"), kind=kind) == Sendable((), (f"{name} (only {having} have it)",))


@pytest.mark.parametrize(
    ("name", "kind"),
    [("title", "img"), ("Headline", "img"), ("vid_title", "vid"), ("file_desc", "other"), ("metacf_A-1", "doc")],
)
def test_field_of_its_kind_is_sent(name, kind):
    assert sent((name, "x"), kind=kind) == Sendable(((name, "x"),))


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("img_headline", "headline"), ("img_keyword", "img_keywords"), ("vid_titel", "vid_title"), ("z", None)],
)
def test_unknown_field_names_the_nearest(name, nearest):
    mistake = sent(("title", "x"), (name, "x")).mistake
    assert mistake.name == name
    assert mistake.hint.partition("? ")[0] == (f"did you mean `{nearest}`" if nearest else mistake.hint)
    assert "service.meta_fields" in mistake.hint


@pytest.mark.parametrize("name", ["file_name", "host_id", "id_inc", "id_r", "img_id_r", "FOLDER_ID_R", "asset_type"])
def test_records_of_the_service_are_never_sent(name):
    found = sent((name, "x"), listed=frozenset({name.lower()}), proven={"img": {name}, "doc": {name}})
    assert (found.fields, found.mistake.name) == ((), name)
    assert "never sent" in found.mistake.problem


@pytest.mark.parametrize(
    ("listed", "kinds"),
    [
        ("img_credit_line", {"img"}),
        ("vid_credit", {"vid"}),
        ("aud_credit", {"aud"}),
        ("file_credit", {"doc", "other"}),
        ("creditline", {"img"}),
        ("our_credit", {"img", "vid", "aud", "doc", "other"}),
    ],
)
def test_listed_field_is_sent_by_its_prefix(listed, kinds):
    found = {kind: sent((listed, "x"), kind=kind, listed=frozenset({listed})) for kind in KINDS}
    assert {kind for kind, each in found.items() if each.fields} == kinds
    assert not any(each.mistake for each in found.values())


def test_proven_field_is_sent_for_its_kind_alone():
    proven = {"doc": {"file_owner"}}
    assert sent(("file_owner", "x"), kind="doc", proven=proven) == Sendable((("file_owner", "x"),))
    assert sent(("file_owner", "x"), kind="img", proven=proven).left_out == ("file_owner (only documents have it)",)


def test_configured_names_of_a_kind_are_known():
    table = METADATA_FIELDS | {"doc": ("doc_text", "doc_words")}
    assert sent(("doc_text", "x"), kind="doc", by_kind=table) == Sendable((("doc_text", "x"),))
    assert sent(("doc_text", "x"), kind="img", by_kind=table).left_out == ("doc_text (only documents have it)",)


@pytest.mark.parametrize(
    ("name", "value", "becomes", "count"),
    [
        ("img_description", "a \N{WATER WAVE} b", "a  b", "1 character"),
        ("img_description", "\N{WATER WAVE}\N{WATER WAVE}", None, "2 characters"),
        ("img_description", "sun\U0001f3d6\ufe0f", "sun", "1 character"),
        ("img_keywords", "\N{WATER WAVE},sea,\N{WATER WAVE} ,dawn \N{WATER WAVE}", "sea,dawn ", "3 characters"),
        ("headline", "\U0001d504", None, "1 character"),
        ("metacf_A-1", "𠀀 x", " x", "1 character"),
    ],
)
def test_characters_beyond_bmp_are_left_out(name, value, becomes, count):
    fields = () if becomes is None else ((name, becomes),)
    assert sent((name, value)) == Sendable(fields, (f"{count} of {name} (outside the Basic Multilingual Plane)",))
    assert sent((name, value), bmp_only=False) == Sendable(((name, value),))


def test_other_characters_are_sent_as_they_are():
    text = "Grüße 東京 \u2603 e\u0301 \ufe0f,,"
    assert sent(("img_keywords", text)) == Sendable((("img_keywords", text),))


@pytest.mark.parametrize(("name", "most"), LONG.items())
def test_value_is_limited_by_its_column(name, most):
    assert sent((name, "ü" * most)).mistake is None
    problem = f"it has {most + 1:,} characters, and the service keeps {most:,}"
    assert sent((name, "ü" * (most + 1))).mistake == FieldMistake(name, problem, "shorten it")


@pytest.mark.parametrize("name", ["img_description", "rights", "metacf_A-1"])
def test_text_is_limited_by_its_bytes(name):
    assert sent((name, "x" * 65_535)).mistake is None
    assert sent((name, "ü" * 32_768)).mistake.problem == "it has 65,536 bytes, and the service keeps 65,535"


def test_length_counts_without_what_is_left_out():
    assert sent(("headline", "x" * 1000 + "\N{WATER WAVE}" * 9)).mistake is None
