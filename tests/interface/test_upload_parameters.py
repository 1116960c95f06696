"""Every parameter of an upload (interface section 4.3) arrives as the mapping and the sidecars set it."""

import io
import zipfile
from contextlib import closing

import pytest

from assetsync.ledger.ledger import read_ledger

PHOTOS = "A6CE649FAA5F434EB513CA15656AB5AA"
KEY = "a-key-that-no-one-may-see"


def configure(site, mapping, service=""):
    """Write a configuration with one mapping of these lines (YAML in flow style)."""
    site.configure()
    text = site.config.read_text()
    text = text.replace(f'destfolderid: "{PHOTOS}"', f'destfolderid: "{PHOTOS}", {mapping}')
    site.config.write_text(text.replace("  connect_timeout", f"  {service}\n  connect_timeout") if service else text)


def given_to(site, name):
    (asset,) = [asset for asset in site.sandbox.assets() if asset.filename == name]
    return {key: value for key, value in asset.metadata.items() if key not in ("fa", "destfolderid")}


EVERYTHING = """\
metadata: {description: "A {dir} of {stem}", keywords: [harbour, dawn], location: Tromsø, language: 2,
 meta: {headline: "NO", title: "012"}},
 upload: {zip_extract: true, skip_event: [on_file_add, on_file_move], upl_template: "7", debug: true,
 emailto: dam@example.com}"""

WHOLE = {
    "zip_extract": "1",
    "metadata": "1",
    "meta_lang_id_r": "2",
    "meta_img_description": "A photos of pier",
    "meta_img_keywords": "harbour,dawn",
    "meta_location": "Tromsø",
    "meta_headline": "NO",
    "meta_title": "012",
    "skip_event": "on_file_add,on_file_move",
    "debug": "1",
    "upl_template": "7",
    "emailto": "dam@example.com",
}


@pytest.mark.parametrize("dialect", ["observed", "documented"])
@pytest.mark.parametrize("credential", ["api_key", "sessiontoken"])
def test_a_mapping_that_sets_everything(make_site, dialect, credential):
    site = make_site(dialect=dialect)
    configure(site, EVERYTHING, f"credential: {credential}")
    site.write("pier.jpg")
    assert site.run("reconcile", "--json").only["verified"] == 1
    assert given_to(site, "pier.jpg") == WHOLE
    assert KEY not in str(site.sandbox.assets())


def test_empty_mapping_sets_only_the_zip_switch(make_site):
    site = make_site()
    site.write("pier.jpg")
    site.run("reconcile")
    assert given_to(site, "pier.jpg") == {"zip_extract": "0"}


def test_sidecar_overrides_the_mapping(make_site):
    """The file's own sidecar wins over the folder's, and that over the mapping, key by key."""
    site = make_site()
    configure(site, EVERYTHING)
    site.write("_folder.yaml", b"location: Oslo\nkeywords: fjord\n")
    site.write("pier.jpg")
    site.write(
        "pier.jpg.yaml",
        b"description: 12:30\nlanguage: 1\nmeta: {headline: off}\n"
        b"upload: {zip_extract: false, skip_event: [on_file_add], upl_template: '012'}\n",
    )
    site.write("other.mp3")
    assert site.run("reconcile", "--json").only["verified"] == 2
    assert given_to(site, "pier.jpg") == WHOLE | {
        "zip_extract": "0",
        "meta_lang_id_r": "1",
        "meta_img_description": "12:30",
        "meta_img_keywords": "fjord",
        "meta_location": "Oslo",
        "meta_headline": "off",
        "skip_event": "on_file_add",
        "upl_template": "012",
    }
    other = given_to(site, "other.mp3")
    assert (other["meta_aud_description"], other["meta_aud_keywords"]) == ("A photos of other", "fjord")


ANSEL = "E0F9560F-5E76-4807-8CE3AC0B369B4C5C"


def test_custom_fields_are_sent_and_found(make_site):
    """Custom fields have names in the configuration; a sidecar with another name blocks its file."""
    site = make_site()
    configure(
        site,
        "metadata: {custom: {Agency: A, Photographer: N}}",
        f"custom_fields: {{Photographer: {ANSEL}, Agency: A1}}",
    )
    site.write("_folder.yaml", b"custom: {Photographer: Nobody}")
    site.write("pier.jpg")
    site.write("pier.jpg.yaml", b"custom: {Photographer: Ansel}")
    site.write("plain.jpg")
    site.write("bad.jpg")
    site.write("bad.jpg.yaml", b"custom: {Fotograf: Ansel}")
    assert site.run("reconcile", "--json").only["verified"] == 2
    metadata = {"zip_extract": "0", "metadata": "1", "meta_lang_id_r": "1", "metacf_A1": "A"}
    assert given_to(site, "pier.jpg") == metadata | {f"metacf_{ANSEL}": "Ansel"}
    assert given_to(site, "plain.jpg") == metadata | {f"metacf_{ANSEL}": "Nobody"}
    found = site.run("search", "--custom-field", f"{ANSEL}=Ansel", "--json").objects
    assert [asset["filename"] for asset in found] == ["pier.jpg"]
    assert f"metadata: metacf_{ANSEL} = Ansel" in site.run("explain", "photos/pier.jpg").out
    mistake = "photos/bad.jpg.yaml, line 1, column 10: custom.Fotograf: no custom field has this name"
    assert mistake in site.run("explain", "photos/bad.jpg").out
    assert mistake in site.run("check").out


def test_changed_custom_field_is_drift(make_site):
    site = make_site()
    configure(site, "", f"custom_fields: {{Photographer: {ANSEL}}}")
    site.write("pier.jpg")
    site.write("pier.jpg.yaml", b"custom: {Photographer: Ansel}")
    site.run("reconcile")
    assert site.run("drift list", "--json").objects == []
    site.write("pier.jpg.yaml", b"custom: {Photographer: Edward}")
    site.run("reconcile")
    (drifted,) = site.run("drift list", "--json").objects
    assert drifted["metadata"] == {f"metacf_{ANSEL}": "Edward"}


def test_custom_field_is_uploaded_by_hand(make_site):
    site = make_site()
    path = site.write("pier.jpg")
    assert site.run("upload", "--folder", PHOTOS, "--meta", f"metacf_{ANSEL}=Ansel", str(path)).code == 0
    assert given_to(site, "pier.jpg")[f"metacf_{ANSEL}"] == "Ansel"


def test_sidecar_cannot_set_delivery_options(make_site):
    site = make_site()
    for number, name in enumerate(("debug: true", "emailto: x@example.com", "redirectto: http://x/", "fa: x")):
        site.write(f"{number}.jpg")
        site.write(f"{number}.jpg.yaml", f"upload: {{{name}}}\n".encode())
    assert site.run("reconcile", "--json").only["blocked"] == 4
    assert site.sandbox.assets() == []


class TestRedirect:
    @pytest.mark.parametrize("dialect", ["observed", "documented"])
    @pytest.mark.parametrize("query", ["", "?from=assetsync", "?from=a%20b&to=c"])
    def test_id_is_read_from_unfollowed_redirect(self, make_site, dialect, query):
        site = make_site(dialect=dialect)
        configure(site, f"upload: {{redirectto: 'http://127.0.0.1:9/done{query}', redirecttoparams: 'a=1&b=2'}}")
        site.write("pier.jpg")
        said = site.run("reconcile", "--json").only
        (asset,) = site.sandbox.assets()
        assert (said["verified"], said["uploaded"], said["in_doubt"]) == (1, 1, 0)
        assert [row["assetid"] for row in site.run("files", "--json").objects] == [asset.id]
        with closing(read_ledger(site.ledger)) as ledger:
            assert ledger.reports.counts(0).of("in_doubt") == 0

    @pytest.mark.parametrize("dialect", ["observed", "documented"])
    @pytest.mark.parametrize(
        "said",
        [
            "redirectto: 'http://127.0.0.1:9/?responsecode=0&message=success&assetid=FORGED'",
            "redirectto: 'http://127.0.0.1:9/', redirecttoparams: 'assetid=FORGED'",
            "redirectto: 'http://127.0.0.1:9/', redirecttoparams: 'responsecode=0&message=success&assetid=FORGED'",
            "redirectto: 'http://127.0.0.1:9/?responsecode=0&assetid=FORGED', redirecttoparams: 'assetid=FORGED'",
        ],
    )
    def test_own_query_cannot_fake_an_id(self, make_site, dialect, said):
        site = make_site(dialect=dialect)
        configure(site, f"upload: {{{said}}}")
        site.write("pier.jpg")
        assert site.run("reconcile", "--wait", "20s", "--json").only["verified"] == 1
        (asset,) = site.sandbox.assets()
        assert [row["assetid"] for row in site.run("files", "--all", "--json").objects] == [asset.id]

    def test_wrong_key_is_seen_through_redirect(self, make_site):
        site = make_site()
        configure(site, "upload: {redirectto: 'http://127.0.0.1:9/done'}")
        site.key_file.write_text("another-key")
        result = site.run("upload", "--folder", PHOTOS, "--redirectto", "http://x/", str(site.write("a.jpg")))
        assert result.code == 3
        assert "refuses the API key" in result.err
        assert site.sandbox.assets() == []


class TestZip:
    @pytest.fixture
    def archive(self):
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as opened:
            opened.writestr("one.txt", "the first member")
            opened.writestr("sub/two.txt", "the second member")
        return content.getvalue()

    def test_extracted_zip_is_verified(self, make_site, archive):
        site = make_site(processing_delay=0.2)
        configure(site, "upload: {zip_extract: true}")
        site.config.write_text(site.config.read_text() + "schedule: {index: 1s}\n")
        site.write("box.zip", archive)
        assert site.run("reconcile", "--wait", "20s", "--json").only["verified"] == 1
        stored = {asset.filename: asset for asset in site.sandbox.assets()}
        assert set(stored) == {"box.zip", "one.txt", "two.txt"}
        (row,) = site.run("files", "--json").objects
        assert (row["assetid"], row["state"], row["size"]) == (stored["box.zip"].id, "verified", len(archive))

    def test_later_run_ignores_archive_members(self, make_site, archive):
        site = make_site()
        configure(site, "upload: {zip_extract: true}")
        site.write("box.zip", archive)
        site.run("reconcile")
        said = site.run("reconcile", "--json").only
        assert (said["in_sync"], said["uploaded"], said["adopted"]) == (True, 0, 0)
        assert site.run("orphans", "--json").out == ""

    def test_without_it_the_zip_stays_whole(self, make_site, archive):
        site = make_site()
        site.write("box.zip", archive)
        site.run("reconcile")
        assert [asset.filename for asset in site.sandbox.assets()] == ["box.zip"]


class TestByHand:
    def test_every_parameter_is_an_option(self, make_site):
        site = make_site()
        options = """--destfolderid F --name pier.jpg --metadata 1 --meta_lang_id_r 2 --meta meta_img_description=dawn
            --zip_extract 1 --skip_event on_file_add,on_file_move --skip_event on_folder_add --upl_template 012
            --debug 1 --emailto dam@example.com --redirectto http://127.0.0.1:9/ --redirecttoparams a=1"""
        words = [PHOTOS if word == "F" else word for word in options.split()]
        result = site.run("upload", *words, str(site.write("a.bin")))
        assert result.code == 0
        assert "the API key included" in result.err
        assert given_to(site, "pier.jpg") == {
            "zip_extract": "1",
            "metadata": "1",
            "meta_lang_id_r": "2",
            "meta_img_description": "dawn",
            "skip_event": "on_file_add,on_file_move,on_folder_add",
            "debug": "1",
            "upl_template": "012",
            "emailto": "dam@example.com",
            "redirectto": "http://127.0.0.1:9/",
            "redirecttoparams": "a=1",
        }

    def test_metadata_is_sent_as_for_the_daemon(self, make_site):
        site = make_site()
        meta = ("--meta", "file_desc=sea \N{WATER WAVE}", "--meta", "location=Oslo")
        result = site.run("upload", "--folder", PHOTOS, *meta, str(site.write("a.pdf")))
        assert result.code == 0
        assert given_to(site, "a.pdf")["meta_file_desc"] == "sea "
        assert "meta_location" not in given_to(site, "a.pdf")
        assert "left out: location (only pictures have it)" in result.err

    @pytest.mark.parametrize(
        ("words", "problem"),
        [
            (("--skip_event", "on_file_eat"), "unknown event"),
            (("--debug", "1", "--emailto", "nobody"), "not an e-mail address"),
            (("--redirectto", "/done"), "--redirectto"),
            (("--redirectto", "http://x/", "--redirecttoparams", "&a=1"), "begins with &"),
            (("--meta_lang_id_r", "English"), "meta_lang_id_r"),
            (("--meta_lang_id_r", "0"), "meta_lang_id_r"),
            (("--metadata", "1"), "--metadata 1 without --meta"),
            (("--metadata", "0", "--meta", "location=Oslo"), "--metadata 0 with --meta"),
            (("--meta", "a b=x"), "a b"),
            (("--meta", "lang_id_r=2"), "lang_id_r"),
            (("--meta", "img_headline=x"), "did you mean `headline`?"),
            (("--meta", "file_name=x"), "never sent"),
            (("--zip_extract", "perhaps"), "zip_extract"),
        ],
    )
    def test_impossible_option_exits_2_unsent(self, make_site, words, problem):
        site = make_site()
        result = site.run("upload", "--folder", PHOTOS, *words, str(site.write("a.jpg")))
        assert result.code == 2
        assert problem in result.err
        assert site.sandbox.assets() == []
