"""The commands with which an operator acts on files, doubts and brakes.

Covers `cli/commands/doubt.py`, `cli/commands/resume.py` and `cli/commands/retry.py`.
"""

import time
from contextlib import closing
from datetime import datetime

import pytest

from assetsync.cli import operator
from assetsync.config import load_config
from assetsync.ledger.ledger import open_ledger, read_ledger
from assetsync.log import redact
from assetsync.sandbox import FaultKind, FaultRule, Operation

from .conftest import Holder

SMALL = "upload: {max_file_size: 50}\n"


@pytest.fixture
def blocked(site):
    """A site whose one file was too large to be sent."""
    site.configure(more=SMALL)
    site.write("big.bin", b"x" * 100)
    assert site.run("reconcile").code == 1
    return site


@pytest.fixture
def doubtful(site):
    """A site whose one file is in doubt: the service broke off without storing it."""
    site.write("a.jpg", b"the content")
    site.sandbox.set_faults(FaultRule(kind=FaultKind.STATUS, operation=Operation.UPLOAD))
    site.run("reconcile", "--wait", "0s")
    site.sandbox.set_faults()
    assert site.files() == {"photos/a.jpg": "in_doubt"}
    return site


@pytest.fixture
def impatient(monkeypatch):
    """Nobody answers here, so nobody is waited for."""
    monkeypatch.setattr(operator, "PATIENCE", 0.0)


class TestBesideADaemon:
    def test_what_the_daemon_did_is_told(self, blocked):
        with Holder(blocked):
            result = blocked.run("retry", "photos/big.bin", "--json")
        said = {
            "done": True,
            "request": 1,
            "detail": "1 to be tried again, and blocked anew while no limit was raised",
            "message": "1 to be tried again, and blocked anew while no limit was raised",
        }
        assert (result.code, result.only) == (0, said)
        assert blocked.files() == {"photos/big.bin": "queued"}

    @pytest.mark.parametrize(
        ("command", "said"),
        [
            (("resume",), "no brake is pulled: `assetsync status` would list it"),
            (("resume", "7"), "no brake 7 is pulled: `assetsync status` would list it"),
            (("doubt resolve", "photos/b.jpg", "--absent"), "photos/b.jpg is verified, not in doubt"),
            (("doubt resolve", "photos/c.jpg", "--absent"), "the ledger knows no file photos/c.jpg"),
            (("doubt retry", "photos/c.jpg"), "the ledger knows no file photos/c.jpg"),
            (("retry", "photos/c.jpg"), "the ledger knows no file photos/c.jpg"),
            (("drift settle", "photos/b.jpg"), "nothing has drifted of photos/b.jpg: `assetsync drift list` lists"),
            (("drift settle", "."), "nothing has drifted of the site: `assetsync drift list` lists"),
        ],
    )
    def test_impossible_request_is_refused(self, site, command, said):
        site.write("b.jpg")
        site.run("reconcile")
        alone = site.run(*command)
        with closing(open_ledger(site.ledger)) as holder:
            beside = site.run(*command)
            assert holder.open_requests() == []
        assert (beside.code, beside.err) == (alone.code, alone.err)
        assert (beside.code, said in beside.err) == (2, True)

    @pytest.mark.parametrize("assetid", ["\udcff", 'a" OR b', "", "../x"])
    def test_what_can_be_no_asset_is_exit_2(self, doubtful, assetid):
        result = doubtful.run("doubt resolve", "photos/a.jpg", "--asset", assetid)
        assert (result.code, result.out) == (2, "")
        assert "is not an asset id: an id has" in result.err

    def test_a_refusal_of_the_daemon_is_exit_2(self, doubtful):
        with Holder(doubtful):
            result = doubtful.run("doubt resolve", "photos/a.jpg", "--asset", "F" * 32)
        assert (result.code, result.out) == (2, "")
        assert "Error: the service shows no asset FFFF" in result.err

    def test_daemon_without_service_is_exit_3(self, doubtful):
        doubtful.nowhere()
        with Holder(doubtful):
            assert doubtful.run("doubt resolve", "photos/a.jpg", "--asset", "F" * 32).code == 3

    def test_unknown_brake_number_lists_brakes(self, site):
        site.run("reconcile")
        with closing(open_ledger(site.ledger)) as holder:
            for subject in ("one", "two", "three"):
                holder.pull_brake("emptied", subject, "it is empty", 1, 1.0)
            assert "no brake 9 is pulled: those that are: 1, 2, 3" in site.run("resume", "9").err
        assert site.run("resume", "2").out == "1 brake released: 2\n"
        assert site.run("resume").out == "2 brakes released: 1, 3\n"


class TestRetry:
    @pytest.mark.parametrize("paths", [(), ("photos/big.bin",)])
    def test_retry_queues_blocked_file_offline(self, blocked, paths):
        blocked.nowhere()
        result = blocked.run("retry", *paths)
        assert (result.code, result.out) == (
            0,
            "1 to be tried again, and blocked anew while no limit was raised\n",
        )
        assert blocked.files() == {"photos/big.bin": "queued"}

    def test_send_again_orphans_the_old_asset(self, site):
        site.write("a.jpg")
        site.run("reconcile")
        (first,) = site.sandbox.assets()
        assert site.run("retry", "--send-again", "photos/a.jpg").code == 0
        assert site.run("reconcile").code == 0
        assert len(site.sandbox.assets()) == 2
        assert [row["assetid"] for row in site.run("orphans", "--json").objects] == [first.id]

    @pytest.mark.parametrize("arguments", [("photos/unknown.jpg",), ("--send-again",), ("/etc/passwd",)])
    def test_what_cannot_be_is_exit_2(self, blocked, arguments):
        assert blocked.run("retry", *arguments).code == 2
        assert blocked.files() == {"photos/big.bin": "blocked"}

    def test_says_of_each_file_what_comes_of_it(self, site):
        site.write("empty", b"")
        site.write("bad", b"1")
        site.write("bad.yaml", b"nonsense: 1\n")
        site.run("reconcile", "--wait", "0s")
        assert site.run("retry").out == (
            "1 to be tried again, and blocked anew while the sidecar has its mistake;"
            " 1 still blocked: empty, which the service refuses\n"
        )
        assert site.files() == {"photos/bad": "queued", "photos/empty": "blocked"}

    def test_unsent_file_cannot_be_sent_again(self, blocked):
        blocked.run("retry")
        result = blocked.run("retry", "--send-again", "photos/big.bin")
        assert (result.code, "photos/big.bin is queued: --send-again is for one" in result.err) == (2, True)

    def test_a_path_given_twice_is_one_file(self, site):
        site.write("a.jpg")
        site.run("reconcile")
        result = site.run("retry", "--send-again", "photos/a.jpg", "photos/a.jpg")
        assert (result.code, result.out) == (0, "1 to be sent again\n")

    def test_retry_sends_without_metadata(self, site):
        """The request goes to the holder of the ledger under a verb that an older release refuses."""
        site.write("a.pdf", b"document")
        site.write("a.pdf.yaml", b"description: plain")
        site.run("reconcile")
        with Holder(site):
            result = site.run("retry", "--send-again", "--without-metadata", "photos/a.pdf")
        assert result.out == "1 to be sent again, without metadata\n"
        assert site.run("reconcile").code == 0
        told = [asset.metadata.get("meta_file_desc") for asset in site.sandbox.assets()]
        assert told == ["plain", None]

    @pytest.mark.parametrize("arguments", [(), ("--reason", "never_processed"), ("--without-sidecar", "photos/a.pdf")])
    def test_without_metadata_needs_files(self, site, arguments):
        site.write("a.pdf", b"document")
        site.run("reconcile")
        assert site.run("retry", "--without-metadata", *arguments).code == 2

    def test_retry_request_is_done_by_next_run(self, blocked, impatient):
        with closing(open_ledger(blocked.ledger)) as holder:
            result = blocked.run("retry", "photos/big.bin")
            assert (result.code, "another process holds the ledger" in result.out) == (0, True)
            assert [(request.verb, request.argument["paths"]) for request in holder.open_requests()] == [
                ("retry", [b"photos/big.bin".hex()])
            ]
        assert blocked.files() == {"photos/big.bin": "blocked"}
        blocked.configure()
        assert blocked.run("reconcile").code == 0
        assert blocked.files() == {"photos/big.bin": "verified"}

    def test_unknown_path_leaves_no_request(self, blocked):
        with closing(open_ledger(blocked.ledger)) as holder:
            assert blocked.run("retry", "photos/unknown.jpg").code == 2
            assert holder.open_requests() == []


class TestResume:
    def test_releases_the_brake(self, site):
        site.write("a.jpg")
        site.run("reconcile")
        site.photos.rename(site.folder / "elsewhere")
        site.run("reconcile", "--wait", "0s")
        (site.folder / "elsewhere").rename(site.photos)
        result = site.run("resume", "1")
        assert (result.code, result.out) == (0, "1 brake released: 1\n")
        assert site.run("reconcile").code == 0

    def test_restored_folder_releases_its_brake(self, site):
        site.write("a.jpg")
        site.run("reconcile")
        site.photos.rename(site.folder / "elsewhere")
        assert site.run("reconcile", "--wait", "0s").code == 1
        (site.folder / "elsewhere").rename(site.photos)
        assert site.run("reconcile").code == 0
        assert len(site.sandbox.assets()) == 1

    def test_restored_root_releases_its_brake(self, site):
        site.write("a.jpg")
        site.run("reconcile")
        site.tree.rename(site.folder / "elsewhere")
        assert site.run("reconcile", "--wait", "0s").code == 1
        (site.folder / "elsewhere").rename(site.tree)
        assert site.run("reconcile").code == 0

    @pytest.mark.parametrize("number", [(), ("7",)])
    def test_without_a_brake_is_exit_2(self, site, number):
        site.run("reconcile")
        assert site.run("resume", *number).code == 2

    @pytest.mark.parametrize("given", ["first", "0", "1.5", "9" * 5000])
    def test_invalid_brake_number_is_exit_2(self, site, given):
        site.run("reconcile")
        result = site.run("resume", given)
        assert result.code == 2
        assert f"'{given[:40]}' is no number of a brake: give one as `assetsync status` shows it" in result.err


class TestDoubt:
    def test_reason_of_many_is_printed_once(self, site):
        site.sandbox.set_faults(FaultRule(kind=FaultKind.STATUS, operation=Operation.UPLOAD))
        for number in range(3):
            site.write(f"{number}.jpg", b"%d" % number)
            site.run("reconcile", "--wait", "0s")
        first, second, _ = site.run("doubt list", "--json").objects
        assert first["detail"] == second["detail"]
        shown = site.run("doubt list").out
        assert shown.count(first["detail"]) == 1
        assert "photos/1.jpg: in doubt, for the same reason\n" in shown

    def test_doubt_list_shows_upload_and_time(self, doubtful):
        assert "photos/a.jpg: in doubt" in doubtful.run("doubt list").out
        (row,) = doubtful.run("doubt list", "--json").objects
        assert (row["path"], row["state"], row["sent_name"], row["size"]) == ("photos/a.jpg", "in_doubt", "a.jpg", 11)
        assert row["sent_at"]

    def test_doubt_list_is_empty_without_doubts(self, site):
        site.run("reconcile")
        assert site.run("doubt list").out == "nothing is in doubt\n"
        assert site.run("doubt list", "--json").out == ""

    def test_doubt_retry_is_looked_up_next(self, doubtful):
        with closing(open_ledger(doubtful.ledger)) as ledger:
            ((attempt, _folder),) = ledger.doubts.open_ones()
            ledger.doubts.unanswered([attempt], (), time.time() + 240, "no answer")
        result = doubtful.run("doubt retry")
        assert (result.code, result.out) == (
            0,
            "1 to be looked up now: the daemon does it, or the next `assetsync reconcile`\n",
        )
        (row,) = doubtful.run("doubt list", "--json").objects
        assert datetime.fromisoformat(row["next_look"]).timestamp() <= time.time()

    def test_absent_needs_no_service(self, doubtful):
        doubtful.nowhere()
        assert doubtful.run("doubt resolve", "photos/a.jpg", "--absent").code == 0
        assert doubtful.files() == {"photos/a.jpg": "queued"}
        doubtful.configure()
        assert doubtful.run("reconcile").code == 0
        assert len(doubtful.sandbox.assets()) == 1

    def test_asset_option_adopts_the_named_asset(self, doubtful):
        copy = doubtful.folder / "a.jpg"
        copy.write_bytes(b"the content")
        uploaded = doubtful.upload_unseen(copy)
        assert doubtful.run("doubt resolve", "photos/a.jpg", "--asset", str(uploaded)).code == 0
        assert doubtful.run("reconcile").code == 0
        (row,) = doubtful.run("files", "--json").objects
        assert (row["assetid"], row["state"]) == (uploaded, "verified")
        assert len(doubtful.sandbox.assets()) == 1

    def test_asset_unknown_to_service_is_exit_2(self, doubtful):
        result = doubtful.run("doubt resolve", "photos/a.jpg", "--asset", "F" * 32)
        assert result.code == 2
        assert "shows no asset" in result.err
        assert doubtful.files() == {"photos/a.jpg": "in_doubt"}

    def test_an_asset_of_other_bytes_is_exit_2(self, doubtful):
        other = doubtful.folder / "a.jpg"
        other.write_bytes(b"11 of other")
        uploaded = doubtful.upload_unseen(other)
        result = doubtful.run("doubt resolve", "photos/a.jpg", "--asset", str(uploaded))
        assert (result.code, "is not photos/a.jpg: its MD5 in the service is" in result.err) == (2, True)
        assert doubtful.files() == {"photos/a.jpg": "in_doubt"}

    def test_asset_without_the_service_is_exit_3(self, doubtful):
        doubtful.nowhere()
        assert doubtful.run("doubt resolve", "photos/a.jpg", "--asset", "F" * 32).code == 3

    @pytest.mark.parametrize("options", [(), ("--absent", "--asset", "F" * 32)])
    def test_either_absent_or_an_asset(self, doubtful, options):
        assert doubtful.run("doubt resolve", "photos/a.jpg", *options).code == 2

    def test_file_not_in_doubt_is_exit_2(self, site):
        site.write("a.jpg")
        site.run("reconcile")
        assert site.run("doubt resolve", "photos/a.jpg", "--absent").code == 2

    def test_beside_the_holder_a_request_is_left(self, doubtful, impatient):
        with closing(open_ledger(doubtful.ledger)):
            assert doubtful.run("doubt resolve", "photos/a.jpg", "--absent").code == 0
        with closing(read_ledger(doubtful.ledger)) as ledger:
            assert [request.verb for request in ledger.open_requests()] == ["doubt"]


def test_reported_change_names_send_again(site):
    site.configure(more="policy: {on_change: report}\n")
    site.write("a.jpg", b"one")
    site.run("reconcile")
    site.write("a.jpg", b"another")
    assert "assetsync retry --send-again photos/a.jpg" in site.run("reconcile").out
    assert site.run("retry", "--send-again", "photos/a.jpg").code == 0
    assert site.run("reconcile").code == 0
    assert len(site.sandbox.assets()) == 2


def test_proxy_password_is_redacted(site):
    config = load_config(site.config, {})
    service = config.service.model_copy(update={"proxy": "http://me:s3cret-word@127.0.0.1:1"})
    with operator.open_service(config.model_copy(update={"service": service})):
        assert redact("connecting with s3cret-word") == "connecting with [key]"
