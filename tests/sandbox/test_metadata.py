"""What a live installation does with the metadata of an upload that it cannot hold (observed).

Covers `sandbox/upload.py`.
"""

import pytest

EMOJI = "\N{WATER WAVE}"
TEXTS = {"metadata": "1", "meta_lang_id_r": "1"}
PICTURE = TEXTS | {"meta_img_description": "dawn", "meta_img_keywords": "sea", "meta_location": "Oslo"}
DOCUMENT = TEXTS | {"meta_file_desc": "dawn", "meta_file_keywords": "sea"}
CUSTOM = "metacf_E0F9560F-5E76-4807-8CE3AC0B369B4C5C"
EMPTY = ("", "")


def shown(caller, name, **fields):
    """Return the description and keywords that a search shows, None of an asset that is not processed."""
    caller.upload(name, **fields)
    (row,) = caller.found(name, dbdirect="true")
    return (row["description"], row["keywords"]) if row["md5hash"] else None


def kept(caller):
    """Return the metadata fields that the newest asset has kept."""
    return {name for name in caller.sandbox.assets()[-1].metadata if "meta_" in name or "metacf_" in name}


@pytest.mark.parametrize(
    ("name", "field", "becomes"),
    [
        ("a.jpg", "meta_img_headline", EMPTY),
        ("a.pdf", "meta_img_headline", None),
        ("a.zip", "meta_img_headline", None),
        ("a.mp4", "meta_img_headline", None),
        ("a.mp3", "meta_aud_title", None),
        ("a.jpg", "meta_file_desc", EMPTY),
        ("a.jpg", "meta_headline", ("dawn", "sea")),
        ("a.pdf", "meta_headline", ("dawn", "sea")),
        ("a.jpg", "meta_headlines", ("dawn", "sea")),
    ],
)
def test_unknown_column_destroys_metadata(make_caller, name, field, becomes):
    caller = make_caller(refuses_fields=True)
    fields = {"a.jpg": PICTURE, "a.pdf": DOCUMENT}.get(name, TEXTS) | {field: "x", "zip_extract": "0"}
    assert shown(caller, name, **fields) == becomes


def test_unknown_column_takes_the_location_too(make_caller):
    caller = make_caller(refuses_fields=True)
    shown(caller, "a.jpg", **PICTURE, meta_img_headline="x", **{CUSTOM: "Ansel"})
    assert kept(caller) == {"meta_lang_id_r", CUSTOM}


def test_only_pictures_have_columns_without_underscore(make_caller):
    caller = make_caller(refuses_fields=True)
    shown(caller, "a.jpg", **PICTURE, meta_title="x")
    assert "meta_title" in kept(caller)
    shown(caller, "a.pdf", **DOCUMENT, meta_title="x")
    assert "meta_title" not in kept(caller)


def test_field_file_name_renames_the_asset(make_caller):
    caller = make_caller(refuses_fields=True)
    caller.upload("a.jpg", **PICTURE, meta_file_name="b.jpg")
    assert caller.names("%", dbdirect="true") == ["b.jpg"]


@pytest.mark.parametrize(
    ("name", "field", "becomes"),
    [
        ("a.jpg", "meta_img_description", ("", "sea")),
        ("a.jpg", "meta_img_keywords", ("dawn", "")),
        ("a.jpg", "meta_location", ("dawn", "sea")),
        ("a.jpg", CUSTOM, ("dawn", "sea")),
        ("a.pdf", "meta_file_desc", None),
        ("a.pdf", CUSTOM, None),
        ("a.pdf", "meta_location", None),
    ],
)
def test_character_beyond_bmp_destroys_the_value(make_caller, name, field, becomes):
    caller = make_caller(bmp_only=True)
    fields = (PICTURE if name == "a.jpg" else DOCUMENT) | {field: f"wave {EMOJI}"}
    assert shown(caller, name, **fields) == becomes
    assert field not in kept(caller)


def test_character_beyond_bmp_cuts_the_subject_of_pdf(make_caller):
    caller = make_caller(bmp_only=True, pdf_keeps_own=True)
    content = f"%PDF-1.4 << /Subject (a {EMOJI} b) /Keywords (c) >>".encode()
    caller.upload("a.pdf", content)
    assert [caller.found("a.pdf", dbdirect="true")[0][name] for name in ("description", "keywords")] == ["a ", "c"]


@pytest.mark.parametrize(("language", "becomes"), [("1", ("dawn", "sea")), ("2", (None, None))])
def test_searches_show_one_language(make_caller, language, becomes):
    caller = make_caller(one_language=True)
    assert shown(caller, "a.jpg", **PICTURE | {"meta_lang_id_r": language}) == becomes


def test_all_metadata_is_kept_by_default(caller):
    assert shown(caller, "a.pdf", **DOCUMENT, meta_img_headline=EMOJI) == ("dawn", "sea")
