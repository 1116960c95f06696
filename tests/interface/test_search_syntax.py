"""What the builders write (interface section 4.1.1) reads back as what was meant: by a parser, and by a real search."""

import re

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assetsync.model import SearchRequest
from assetsync.sandbox import Sandbox, SandboxSettings
from assetsync.service.search import all_of, custom_field, field, labels, narrowed, term

KEY = "a-key-that-no-one-may-see"
PHOTOS = "A6CE649FAA5F434EB513CA15656AB5AA"


class Reader:
    """Reads the documented syntax character by character; shares nothing with what writes it."""

    def __init__(self, text):
        self.text, self.at = text, 0

    def sees(self, word):
        return self.text.startswith(word, self.at)

    def skip(self, word):
        assert self.sees(word), f"{word!r} expected at {self.text[self.at :]!r}"
        self.at += len(word)

    def literal(self, stops):
        """Characters up to one that stops; after a backslash each stands for itself."""
        found = []
        while self.at < len(self.text) and self.text[self.at] not in stops:
            if self.text[self.at] == "\\":
                self.at += 1
            else:
                assert self.text[self.at] not in '+-&|!(){}[]^"~*?:', f"bare syntax in {self.text!r}"
            found.append(self.text[self.at])
            self.at += 1
        return "".join(found)

    def entry(self):
        clauses = [self.clause()]
        while self.at < len(self.text):
            self.skip(" AND ")
            clauses.append(self.clause())
        return clauses

    def clause(self):
        if self.sees("labels:("):
            self.skip("labels:")
            names = [self.label()]
            while self.sees(",("):
                self.skip(",")
                names.append(self.label())
            return ("labels", *names)
        if self.sees("customfieldvalue:("):
            self.skip("customfieldvalue:(+")
            parts = [self.identifier()]
            while self.sees(" +"):
                self.skip(" +")
                parts.append(self.value())
            self.skip(")")
            return ("custom", *parts)
        name, colon, _ = self.text[self.at :].partition(":")
        if colon and re.fullmatch("[A-Za-z0-9_]+", name):
            self.at += len(name) + 1
            if self.sees("("):
                self.skip("(")
                words = self.words(" )")
                self.skip(")")
            else:
                words = [self.literal(" ")]
            return ("field", name, *words)
        return ("terms", *self.words(" "))

    def words(self, stops):
        words = []
        while True:
            assert not any(self.sees(f"{word} ") for word in ("AND", "OR", "NOT")), "a bare operator"
            words.append(self.literal(stops))
            if not self.sees(" ") or self.sees(" AND "):
                return words
            self.skip(" ")

    def label(self):
        self.skip("(")
        parts = []
        while True:
            # A slash belongs to a label's name as the interface writes it.
            parts.append(self.literal("+)"))
            if self.sees(")"):
                self.skip(")")
                return " ".join(parts)
            self.skip("+")

    def identifier(self):
        start = self.at
        while self.text[self.at].isalnum() or self.text[self.at] == "-":
            self.at += 1
        return self.text[start : self.at]

    def value(self):
        if not self.sees('"'):
            return self.literal(" )")
        self.skip('"')
        found = []
        while not self.sees('"'):
            if self.sees("\\"):
                self.at += 1
            found.append(self.text[self.at])
            self.at += 1
        self.skip('"')
        return "".join(found)


def read(entry):
    return Reader(entry).entry()


def plain(text):
    return " ".join(text.split())


texts = st.text(min_size=1, max_size=12).filter(str.strip)
tricky = st.text(alphabet='ab AND OR+-&|!(){}[]^"~*?:\\/,é東', min_size=1, max_size=14).filter(str.strip)
said = texts | tricky
identifiers = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9-]{0,7}", fullmatch=True).filter(lambda text: text.lower() != "all")
names = st.from_regex(r"[a-z_]{1,12}", fullmatch=True).filter(lambda name: name not in ("labels", "customfieldvalue"))


@given(st.lists(said, min_size=1, max_size=4))
def test_labels_read_back(given_names):
    assert read(labels(*given_names)) == [("labels", *map(plain, given_names))]


@given(identifiers, st.lists(said, min_size=1, max_size=4))
def test_multi_value_custom_field_reads_back(field_id, values):
    (read_back,) = read(custom_field(field_id, *values))
    assert read_back == ("custom", field_id, *map(plain, values))


@given(names, said)
def test_a_field_reads_back(name, value):
    assert read(field(name, value)) == [("field", name, *value.split())]


@given(said)
def test_a_term_reads_back(text):
    assert read(term(text)) == [("terms", *text.split())]


@given(st.lists(said, min_size=1, max_size=3), names, said, identifiers, st.lists(said, min_size=1, max_size=3))
def test_queries_joined_with_and_read_back(given_labels, name, value, field_id, values):
    parts = [labels(*given_labels), custom_field(field_id, *values), field(name, value)]
    assert read(all_of(*parts)) == [
        ("labels", *map(plain, given_labels)),
        ("custom", field_id, *map(plain, values)),
        ("field", name, *value.split()),
    ]


@pytest.mark.parametrize(
    ("raw", "queries", "entry"),
    [
        ("harb*", (), "harb*"),
        ("a OR b", (), "a OR b"),
        (None, ("labels:(A)",), "labels:(A)"),
        ("harb*", ("labels:(A)",), "harb* AND labels:(A)"),
        ("a OR b", ("labels:(A)", "keywords:x"), "(a OR b) AND labels:(A) AND keywords:x"),
    ],
)
def test_raw_entry_stays_unchanged(raw, queries, entry):
    assert narrowed(raw, *queries) == entry


STORED = {
    "one.jpg": {"labels": "Ports/Old Harbour,dawn", "img_keywords": "pier,boats", "img_description": "old iron crane"},
    "two.jpg": {"labels": "Ports/Old Harbour,R&D (2026)+", "img_keywords": "pier"},
    "three.txt": {"labels": "Ports", "file_keywords": "a:b c*d", "file_desc": "AND so on"},
    "six.jpg": {"cf_77": "red,dark blue,100% (sure)", "cf_78": "x"},
    "seven.jpg": {"cf_77": "red"},
}


@pytest.fixture(scope="module")
def filled():
    """A sandbox with assets of which other things are said; custom fields are `metacf_ID` (observed)."""
    with (
        Sandbox(SandboxSettings(dialect="observed", api_key=KEY, folders={PHOTOS: "photos"})) as sandbox,
        httpx.Client(trust_env=False) as client,
    ):
        for name, said in STORED.items():
            form = {"fa": "c.apiupload", "api_key": KEY, "destfolderid": PHOTOS, "metadata": "1"}
            form |= {f"meta{'' if key.startswith('cf_') else '_'}{key}": value for key, value in said.items()}
            client.post(sandbox.upload_url, data=form, files={"filedata": (name, name.encode())})
        yield sandbox


@pytest.fixture
def with_custom(filled, make_site):
    return make_site(sandbox=filled)


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("--label", "Ports/Old Harbour"), {"one.jpg", "two.jpg"}),
        (("--label", "ports/old harbour", "--label", "dawn"), {"one.jpg"}),
        (("--label", "Ports"), {"three.txt"}),
        (("--label", "Old Harbour"), set()),
        (("--label", "R&D (2026)+"), {"two.jpg"}),
        (("--field", "keywords=pier"), {"one.jpg", "two.jpg"}),
        (("--field", "keywords=boats pier"), {"one.jpg"}),
        (("--field", "keywords=a:b"), {"three.txt"}),
        (("--field", "keywords=c*d"), {"three.txt"}),
        (("--field", "keywords=c*"), set()),
        (("--field", "description=AND"), {"three.txt"}),
        (("--field", "keywords=pier", "--field", "description=crane"), {"one.jpg"}),
        (("--custom-field", "77=red"), {"six.jpg", "seven.jpg"}),
        (("--custom-field", "77=red", "--custom-field", "77=dark blue"), {"six.jpg"}),
        (("--custom-field", "77=100% (sure)"), {"six.jpg"}),
        (("--custom-field", "77=red", "--custom-field", "78=x"), {"six.jpg"}),
        (("--custom-field", "77=dark"), set()),
        (("t*", "--label", "Ports"), {"three.txt"}),
        (("one OR three", "--label", "Ports"), {"three.txt"}),
        (("two", "--label", "Ports/Old Harbour", "--field", "keywords=pier", "--show", "img"), {"two.jpg"}),
        (("pier* AND NOT two",), {"one.jpg"}),
    ],
)
def test_real_search_matches_the_options(with_custom, words, names):
    result = with_custom.run("search", *words, "--json")
    assert result.code == 0
    assert {row["filename"] for row in result.objects} == names


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "nothing to search for"),
        (("%", "--dbdirect", "--label", "A"), "--dbdirect"),
        (("--custom-field", "77"), "ID=VALUE"),
        (("--custom-field", "7 7=x"), "not an asset id"),
        (("--field", "=dawn"), "NAME=WORDS"),
        (("--field", "a b=dawn"), "not a field name"),
        (("--label", " "), "nothing to search for"),
    ],
)
def test_options_that_cannot_be_are_exit_2(make_site, words, problem):
    result = make_site().run("search", *words)
    assert (result.code, result.out) == (2, "")
    assert problem in result.err


_ONE_LABEL = st.text(
    alphabet=st.characters(exclude_categories=["Cs", "Cc"], exclude_characters=","), min_size=1, max_size=10
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(label=_ONE_LABEL.filter(str.strip), other=_ONE_LABEL.filter(str.strip))
def test_real_search_finds_exactly_the_label(syntax_site, syntax_client, label, other):
    if " ".join(label.lower().split()) == " ".join(other.lower().split()):
        return
    path = syntax_site.write("labelled.jpg", b"x")
    result = syntax_site.run("upload", "--folder", PHOTOS, "--meta", f"labels={label}", "--json", str(path))
    assetid = result.only["assetid"]
    with syntax_client.search(SearchRequest(all_of(labels(label), f"id:{assetid}"))) as found:
        assert [asset.id for asset in found] == [assetid]
    with syntax_client.search(SearchRequest(all_of(labels(other), f"id:{assetid}"))) as found:
        assert list(found) == []


@pytest.fixture
def syntax_site(make_site):
    """A site of a service that reads labels from a field without an underscore, which are fields of pictures."""
    site = make_site()
    known = "service:\n  meta_fields: [labels]\n  characters: all\n"
    site.config.write_text(site.config.read_text().replace("service:\n", known))
    return site


@pytest.fixture
def syntax_client(syntax_site, make_client):
    return make_client(syntax_site)
