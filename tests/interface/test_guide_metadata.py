"""The metadata examples of the guide and the configuration, at a service that refuses what it does not know.

Each field is compared with what the service holds, for a file of each kind.
"""

import re
from pathlib import Path

import pytest

import assetsync
from tests.cli.conftest import PHOTOS

GUIDE = Path(assetsync.__file__).parent / "guide"
EXAMPLE = Path(assetsync.__file__).parents[1] / "config.example.yaml"
SWITCHES = {"refuses_fields": True, "bmp_only": True, "one_language": True, "pdf_keeps_own": True}
NAMES = ("pier.jpg", "pier.mp4", "pier.mp3", "pier.txt", "pier.zip")
CUSTOM = "metacf_E0F9560F-5E76-4807-8CE3AC0B369B4C5C"
_NOT_METADATA = ("fa", "destfolderid", "zip_extract", "upl_template", "metadata")
_PROPERTIES = (
    "<dc:creator><rdf:Seq><rdf:li>Ansel</rdf:li></rdf:Seq></dc:creator>"
    "<dc:description><rdf:Alt><rdf:li xml:lang='x-default'>dawn</rdf:li></rdf:Alt></dc:description>"
    "<dc:subject><rdf:Bag><rdf:li>harbour</rdf:li></rdf:Bag></dc:subject>"
)
XMP = (
    "<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#'><rdf:Description"
    " xmlns:dc='http://purl.org/dc/elements/1.1/' xmlns:photoshop='http://ns.adobe.com/photoshop/1.0/'"
    f" photoshop:Headline='Harbour' photoshop:City='Oslo'>{_PROPERTIES}</rdf:Description></rdf:RDF>"
)


def blocks(page: str) -> list[str]:
    """Return the YAML examples of a page."""
    return re.findall(r"```yaml\n(.*?)```", (GUIDE / page).read_text("utf-8"), re.DOTALL)


def block_with(words: str) -> str:
    (found,) = [block for block in blocks("metadata.md") if words in block]
    return found


def of_the_service(block: str) -> str:
    """Return the lines of a block below `service:`, for the configuration of a site."""
    return block.partition("service:\n")[2]


@pytest.fixture
def site(make_site):
    """A site for a service that loses what it does not know, with a file of each kind."""
    site = make_site(**SWITCHES)
    for name in NAMES:
        site.write(name, f"the bytes of {name}".encode())
    return site


def configure(site, service: str, mapping: str = "") -> None:
    text = site.config.read_text().replace("service:\n", f"service:\n{service}")
    folder = f'folders: [{{path: photos, destfolderid: "{PHOTOS}"}}]\n'
    assert folder in text
    entry = f'folders:\n  - path: photos\n    destfolderid: "{PHOTOS}"\n{mapping}'
    site.config.write_text(text.replace(folder, entry) if mapping else text)


def kept(site) -> dict[str, dict[str, str]]:
    """Return the metadata fields that the service has kept of each file, all of which are processed."""
    assets = site.sandbox.assets()
    assert all(asset.processed for asset in assets)
    return {
        asset.filename: {name: text for name, text in asset.metadata.items() if name not in _NOT_METADATA}
        for asset in assets
    }


def test_sidecar_of_the_guide_arrives_on_each_kind(site):
    configure(site, of_the_service(blocks("metadata.md")[1]))
    site.write("_folder.yaml", blocks("metadata.md")[0].encode())
    assert site.run("reconcile", "--json").only["verified"] == len(NAMES)
    words = {"description": "The old harbour at dawn", "keywords": "harbour,dawn,2026"}
    both = {"meta_lang_id_r": "1", CUSTOM: "Ansel"}
    of_kind = {
        name: {f"meta_{kind}_{word}": text for word, text in words.items()} | both
        for name, kind in (("pier.jpg", "img"), ("pier.mp4", "vid"), ("pier.mp3", "aud"))
    }
    document = both | {"meta_file_desc": words["description"], "meta_file_keywords": words["keywords"]}
    of_kind["pier.jpg"] |= {"meta_location": "Tromsø, NO", "meta_headline": "Harbour"}
    assert kept(site) == of_kind | {"pier.txt": document, "pier.zip": document}
    assert site.run("drift list", "--json").objects == []


def test_xmp_table_of_the_guide_arrives_on_each_kind(site):
    configure(site, of_the_service(block_with("xmp_fields:")))
    site.write("pier.xmp", XMP.encode())
    assert site.run("reconcile", "--json").only["verified"] == len(NAMES)
    both = {"meta_lang_id_r": "1", CUSTOM: "Ansel"}
    picture = {"meta_img_keywords": "harbour", "meta_location": "Oslo", "meta_headline": "Harbour"}
    document = {"meta_file_keywords": "harbour"}
    assert kept(site) == {
        "pier.jpg": both | picture,
        "pier.mp4": both | {"meta_vid_keywords": "harbour"},
        "pier.mp3": both | {"meta_aud_keywords": "harbour"},
        "pier.txt": both | document,
        "pier.zip": both | document,
    }


def test_mapping_of_the_example_arrives(site):
    text = EXAMPLE.read_text("utf-8")
    found = re.search(r"(?m)^    #metadata:\n(?:    #   .*\n)+", text)
    mapping = re.sub(r"(?m)^    #", "    ", found.group())
    custom = re.search(r"(?m)^  #(custom_fields: .*\n)", text)
    configure(site, f"  {custom[1]}", mapping)
    assert site.run("reconcile", "--json").only["verified"] == len(NAMES)
    assert kept(site)["pier.jpg"] == {
        "meta_lang_id_r": "1",
        "meta_img_description": "pier",
        "meta_img_keywords": "photo,photos",
        "meta_location": "Oslo, NO",
        "meta_headline": "photos",
        CUSTOM: "Ansel",
    }
