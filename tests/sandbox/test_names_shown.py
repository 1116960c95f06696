"""Releases that show no MD5, or names in ISO-8859-1 only, and workflows that rename."""

import re

import pytest


def test_no_answer_has_an_md5(make_caller):
    caller = make_caller(md5=False)
    caller.upload()
    assert [row["md5hash"] for row in caller.found("note.txt", dbdirect="true")] == [None]


@pytest.mark.parametrize(("latin1", "shown"), [(False, "Grüße 日.txt"), (True, "Grüße ?.txt")])
def test_documented_release_may_show_question_marks(make_caller, latin1, shown):
    caller = make_caller(dialect="documented", latin1=latin1)
    caller.upload("Grüße 日.txt")
    assert [row["filename"] for row in caller.found("%", dbdirect="true")] == [shown]


@pytest.mark.parametrize(("sent", "ending"), [("note.txt", ".txt"), ("note", "")])
def test_workflow_renames_and_says_so(make_caller, sent, ending):
    caller = make_caller(renames=True)
    (body,) = re.findall(r"<renamefilebody><!\[CDATA\[(.+)\]\]>", caller.upload(sent).text)
    assert [row["filename"] for row in caller.found("%", dbdirect="true")] == [body + ending]


@pytest.mark.parametrize(("folds", "shown"), [(False, "a  b   c.txt"), (True, "a b c.txt")])
def test_search_may_fold_blanks(make_caller, folds, shown):
    caller = make_caller(folds_blanks=folds)
    caller.upload("a  b   c.txt")
    assert [row["filename"] for row in caller.found("a__b___c.txt", dbdirect="true")] == [shown]
    assert [asset.filename for asset in caller.sandbox.assets()] == ["a  b   c.txt"]
