import json
import os
import re
import shlex
import signal
import socket
import time
from contextlib import closing, nullcontext

import pytest

from assetsync.cli.commands import upload as upload_command
from assetsync.ledger.file.database import is_held
from assetsync.ledger.ledger import open_ledger, read_ledger
from assetsync.sandbox import FaultKind, FaultRule, Operation
from tests.cli.conftest import PAPERS, PHOTOS, Holder

KEYS = ["assetid", "responsecode", "message", "filetype", "comingfrom", "renamefilebody"]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "harbour.jpg"
    path.write_bytes(b"a picture, perhaps")
    return path


def test_accepted_file_is_exit_0_with_keys(site, file):
    result = site.run("upload", "--folder", PHOTOS, "--json", str(file))
    assert result.code == 0
    (asset,) = site.sandbox.assets()
    assert list(result.only) == KEYS
    assert result.only | {"message": ""} == {
        "assetid": asset.id,
        "responsecode": "0",
        "message": "",
        "filetype": "img",
        "comingfrom": None,
        "renamefilebody": None,
    }
    assert site.sandbox.content(asset.id) == b"a picture, perhaps"
    assert not site.ledger.exists()


def test_every_field_of_the_answer_is_printed(make_site, file):
    site = make_site(renames=True)
    said = site.run("upload", "--folder", PHOTOS, "--json", str(file)).only
    assert said["renamefilebody"] is not None
    again = site.run("upload", "--folder", PHOTOS, "--send-again", str(file))
    assert "renamefilebody: workflow-" in again.out


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--emailto", "a@b.example"), "--emailto is given without --debug 1: it is the recipient of that mail"),
        (("--redirecttoparams", "a=1"), "--redirecttoparams is given without --redirectto: they are added to it"),
        (("--redirectto", "x"), "--redirectto: it must begin with https:"),
        (("--redirectto", "https://a.example", "--redirecttoparams", "&a=1"), "--redirecttoparams: it begins with &"),
        (("--debug", "1", "--emailto", "nobody"), "--emailto: it is not an e-mail address"),
        (("--skip_event", "on_file"), "--skip_event: it holds an unknown event"),
    ],
)
def test_error_of_an_option_names_it(site, file, options, error):
    result = site.run("upload", "--folder", PHOTOS, *options, str(file))
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"Error: {error}")
    assert "Value error" not in result.err


def test_metadata_and_name_arrive_unchanged(site, file):
    meta = ("--meta", "img_description=NO", "--meta", "meta_img_keywords=a=b,012")
    assert site.run("upload", "--folder", PHOTOS, *meta, "--name", "pier.jpg", str(file)).code == 0
    (asset,) = site.sandbox.assets()
    assert asset.filename == "pier.jpg"
    assert asset.metadata["meta_img_description"] == "NO"
    assert asset.metadata["meta_img_keywords"] == "a=b,012"


@pytest.mark.parametrize("flag", ["--zip_extract", "--zip-extract"])
def test_interface_names_are_option_names(site, file, flag):
    assert site.run("upload", "--destfolderid", PHOTOS, flag, "0", "--upl_template", "7", str(file)).code == 0


def test_refused_file_is_exit_1_with_reason(site, tmp_path):
    empty = tmp_path / "empty.jpg"
    empty.touch()
    result = site.run("upload", "--folder", PHOTOS, "--json", str(empty))
    assert result.code == 1
    assert (result.only["assetid"], result.only["responsecode"]) == (None, "1")
    assert "empty" in result.err


def test_unknown_folder_names_its_option(site, file):
    result = site.run("upload", "--folder", "F" * 32, str(file))
    assert (result.code, result.err) == (1, "Error: the service knows no such folder: correct --folder\n")


def test_lost_answer_is_exit_3_with_advice(site, file):
    site.sandbox.set_faults(FaultRule(kind=FaultKind.ANSWER_LOST, operation=Operation.UPLOAD))
    result = site.run("upload", "--folder", PHOTOS, "--json", str(file))
    assert (result.code, result.only["assetid"]) == (3, None)
    assert "look with `assetsync search" in result.err


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(15)
        yield listening


NOTHING_ANSWERED = dict.fromkeys(KEYS)


class TestInterrupted:
    def start(self, site, file, listener, scheme="http"):
        """Begin an upload to a service that only listens; gives the process and the connection that it made."""
        site.configure(upload_url=f"{scheme}://127.0.0.1:{listener.getsockname()[1]}/index.cfm")
        process = site.start("upload", "--folder", PHOTOS, "--json", str(file))
        peer, _ = listener.accept()
        peer.settimeout(15)
        return process, peer

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    def test_interrupt_before_answer_has_advice(self, site, file, listener, number):
        process, peer = self.start(site, file, listener)
        with peer:
            came = b""
            while not came.endswith(b"--\r\n"):
                came += peer.recv(65536)
            process.send_signal(number)
            out, err = process.communicate(timeout=15)
        assert (process.returncode, json.loads(out)) == (130, NOTHING_ANSWERED)
        assert "Error: interrupted; all of the upload had been sent" in err
        assert f"look with `assetsync search --dbdirect --folderid {PHOTOS} NAME`" in err

    def test_interrupt_amid_file_has_advice(self, site, tmp_path, listener):
        large = tmp_path / "large.bin"
        large.write_bytes(bytes(64_000_000))
        process, peer = self.start(site, large, listener)
        with peer:
            peer.recv(1)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=15)
        assert (process.returncode, json.loads(out)) == (130, NOTHING_ANSWERED)
        assert "Error: interrupted; a part of the upload had been sent" in err
        assert "look with `assetsync search" in err

    def test_early_interrupt_has_no_advice(self, site, file, listener):
        process, peer = self.start(site, file, listener, scheme="https")
        with peer:
            # The service says nothing to the beginning of TLS.
            peer.recv(1)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=15)
        assert (process.returncode, json.loads(out)) == (130, NOTHING_ANSWERED)
        assert err == "Error: interrupted; nothing had been sent\n"


def test_dead_port_is_exit_3_sending_nothing(site, file):
    site.nowhere()
    result = site.run("upload", "--folder", PHOTOS, str(file))
    assert result.code == 3
    assert "nothing had been sent" in result.err


def test_a_wrong_key_is_exit_3(site, file):
    site.key_file.write_text("another-key")
    result = site.run("upload", "--folder", PHOTOS, str(file))
    assert result.code == 3
    assert "another-key" not in result.err


@pytest.mark.parametrize("name", ["nowhere.jpg", "nowhere/harbour.jpg", "harbour.jpg/nowhere.jpg"])
def test_missing_file_is_exit_2_and_named(site, file, name):
    missing = file.parent / name
    result = site.run("upload", "--folder", PHOTOS, str(missing))
    assert (result.code, result.err) == (2, f"Error: there is no file {missing}\n")


def test_what_is_no_file_is_exit_2(site, tmp_path):
    assert site.run("upload", "--folder", PHOTOS, str(tmp_path)).code == 2


@pytest.mark.parametrize(
    "options", [(), ("--folder", PHOTOS, "--meta", "novalue"), ("--folder", PHOTOS, "--meta", "=x")]
)
def test_what_cannot_be_is_exit_2(site, file, options):
    assert site.run("upload", *options, str(file)).code == 2


def decide_soon(site):
    """Let doubts end within seconds: the grace is the shortest, and look-ups do not lag."""
    site.configure(more="upload: {doubt_grace: 2s, lookup_lag: 0s}\n", read_timeout="5s")


@pytest.fixture
def mirrored(site):
    """A site whose first file is verified, so that there is a ledger."""
    decide_soon(site)
    site.write("first.jpg", b"first")
    assert site.run("reconcile").code == 0
    return site


@pytest.fixture
def outside(mirrored):
    path = mirrored.folder / "outside.jpg"
    path.write_bytes(b"from elsewhere")
    return path


def lose_answers(site, kind=FaultKind.ANSWER_LOST, **fault):
    site.sandbox.set_faults(FaultRule(kind=kind, operation=Operation.UPLOAD, **fault))


def upload(site, path, *options, folder=PHOTOS):
    return site.run("upload", "--folder", folder, "--json", *options, str(path))


def names(site):
    return sorted(asset.filename for asset in site.sandbox.assets())


@pytest.fixture
def two_folders(mirrored):
    config = mirrored.config.read_text().replace("}]\n", f"}}, {{path: papers, destfolderid: '{PAPERS}'}}]\n", 1)
    mirrored.config.write_text(config)
    (mirrored.tree / "papers").mkdir()
    return mirrored


class TestOfTheTree:
    def test_the_upload_is_recorded(self, mirrored):
        path = mirrored.write("second.jpg", b"second")
        result = upload(mirrored, path)
        assert (result.code, list(result.only), mirrored.files()["photos/second.jpg"]) == (0, KEYS, "stored")
        said = mirrored.run("reconcile", "--json").only
        assert (said["uploaded"], said["adopted"], said["verified"]) == (0, 0, 2)
        assert names(mirrored) == ["first.jpg", "second.jpg"]

    def test_beside_a_holder_it_is_recorded(self, mirrored):
        path = mirrored.write("second.jpg", b"second")
        with Holder(mirrored):
            result = upload(mirrored, path)
            assert (result.code, mirrored.files()["photos/second.jpg"]) == (0, "stored")
        assert mirrored.run("reconcile", "--json").only["uploaded"] == 0
        assert names(mirrored) == ["first.jpg", "second.jpg"]

    @pytest.mark.parametrize("beside", [False, True])
    def test_a_lost_answer_is_looked_up(self, mirrored, beside):
        path = mirrored.write("second.jpg", b"second")
        lose_answers(mirrored)
        with Holder(mirrored) if beside else nullcontext():
            result = upload(mirrored, path)
        mirrored.sandbox.set_faults()
        assert (result.code, result.only) == (3, NOTHING_ANSWERED)
        assert "the upload is in doubt: `assetsync doubt list" in result.err
        assert mirrored.files()["photos/second.jpg"] == "in_doubt"
        assert mirrored.run("reconcile").code == 0
        assert names(mirrored) == ["first.jpg", "second.jpg"]

    def test_duration_of_a_lost_upload_is_recorded(self, mirrored):
        lose_answers(mirrored)
        upload(mirrored, mirrored.write("second.jpg", b"second"))
        with closing(read_ledger(mirrored.ledger)) as ledger:
            (row,) = ledger.reports.of_path(b"photos/second.jpg")
            assert ledger.doubts.of(row.id).took > 0

    def test_a_lost_upload_is_sent_by_the_next_run(self, mirrored):
        path = mirrored.write("second.jpg", b"second")
        lose_answers(mirrored, FaultKind.STATUS)
        assert upload(mirrored, path).code == 3
        mirrored.sandbox.set_faults()
        assert mirrored.run("reconcile").code == 0
        assert names(mirrored) == ["first.jpg", "second.jpg"]

    def test_a_second_call_sends_nothing_while_in_doubt(self, mirrored):
        path = mirrored.write("second.jpg", b"second")
        lose_answers(mirrored)
        upload(mirrored, path)
        mirrored.sandbox.set_faults()
        again = upload(mirrored, path)
        assert (again.code, again.only["assetid"]) == (3, None)
        assert "the service may have this content: photos/second.jpg is in doubt" in again.err
        assert names(mirrored) == ["first.jpg", "second.jpg"]

    def test_command_for_a_doubt_runs_as_printed(self, mirrored):
        path = mirrored.write("it's second.jpg", b"second")
        lose_answers(mirrored)
        upload(mirrored, path)
        mirrored.sandbox.set_faults()
        command = re.search(r"`assetsync (explain .*)`", upload(mirrored, path).err)[1]
        assert mirrored.run("explain", *shlex.split(command)[1:]).code == 0

    def test_a_verified_file_is_not_sent_again(self, mirrored):
        (asset,) = mirrored.sandbox.assets()
        result = upload(mirrored, mirrored.photos / "first.jpg")
        assert (result.code, result.only["assetid"], result.only["filetype"]) == (0, asset.id, "img")
        assert "nothing was sent" in result.only["message"]
        assert mirrored.sandbox.assets() == [asset]

    def test_folder_in_other_case_is_the_mapped_one(self, mirrored):
        (asset,) = mirrored.sandbox.assets()
        result = upload(mirrored, mirrored.photos / "first.jpg", folder=PHOTOS.swapcase())
        assert (result.code, result.only["assetid"]) == (0, asset.id)
        assert mirrored.sandbox.assets() == [asset]

    def test_send_again_uploads_a_verified_file(self, mirrored):
        (old,) = mirrored.sandbox.assets()
        result = upload(mirrored, mirrored.photos / "first.jpg", "--send-again")
        assert result.code == 0
        assert mirrored.run("reconcile").code == 0
        assert len(mirrored.sandbox.assets()) == 2
        orphans = mirrored.run("orphans", "--json").objects
        assert [(orphan["assetid"], orphan["why"]) for orphan in orphans] == [(old.id, "replaced")]

    def test_a_changed_file_is_a_new_version(self, mirrored):
        path = mirrored.write("first.jpg", b"changed")
        assert upload(mirrored, path).code == 0
        said = mirrored.run("reconcile", "--json").only
        assert (said["uploaded"], said["verified"], len(mirrored.sandbox.assets())) == (0, 1, 2)

    def test_a_touched_file_is_not_sent_again(self, mirrored):
        os.utime(mirrored.photos / "first.jpg", (1e9, 1e9))
        assert upload(mirrored, mirrored.photos / "first.jpg").code == 0
        assert mirrored.run("reconcile").code == 0
        assert names(mirrored) == ["first.jpg"]

    def test_a_moved_file_is_not_sent_again(self, mirrored):
        moved = (mirrored.photos / "first.jpg").rename(mirrored.photos / "moved.jpg")
        assert upload(mirrored, moved).code == 0
        assert mirrored.run("reconcile", "--json").only["adopted"] == 1
        assert names(mirrored) == ["first.jpg"]

    def test_metadata_that_differs_by_hand_is_drift(self, mirrored):
        path = mirrored.write("second.jpg", b"second")
        mirrored.write("second.jpg.yaml", b"description: of the sidecar")
        assert upload(mirrored, path, "--meta", "img_description=by hand").code == 0
        mirrored.run("reconcile")
        (drift,) = mirrored.run("drift list", "--json").objects
        assert drift["path"] == "photos/second.jpg"

    def test_a_refusal_is_recorded(self, mirrored):
        result = upload(mirrored, mirrored.write("empty.jpg", b""))
        assert (result.code, mirrored.files()["photos/empty.jpg"]) == (1, "blocked")

    def test_nothing_sent_leaves_it_in_the_queue(self, mirrored):
        mirrored.write("listed.jpg", b"with a second file, the folder counts as listed")
        mirrored.run("reconcile")
        path = mirrored.write("second.jpg", b"second")
        mirrored.nowhere()
        assert upload(mirrored, path).code == 3
        assert mirrored.files()["photos/second.jpg"] == "queued"

    def test_another_folder_is_another_asset(self, mirrored):
        path = mirrored.photos / "first.jpg"
        result = upload(mirrored, path, folder=PAPERS)
        assert result.code == 0
        assert f"its mapping sends photos/first.jpg into {PHOTOS}, too" in result.err
        assert upload(mirrored, path, folder=PAPERS).only["assetid"] == result.only["assetid"]
        assert mirrored.run("reconcile").code == 0
        assert len(mirrored.sandbox.assets()) == 2

    def test_the_daemon_does_not_send_it_again(self, mirrored, eventually):
        mirrored.configure(more="schedule: {verify: 1s, index: 1s}\n")
        mirrored.config.write_text(mirrored.config.read_text().replace("settle: 0s", "settle: 20s"))
        mirrored.start("run")
        eventually(lambda: is_held(mirrored.ledger))
        path = mirrored.write("second.jpg", b"second")
        lose_answers(mirrored, times=1)
        assert upload(mirrored, path).code == 3
        eventually(lambda: mirrored.files().get("photos/second.jpg") == "verified")
        assert names(mirrored) == ["first.jpg", "second.jpg"]


class TestFromElsewhere:
    def test_no_audit_calls_it_unknown(self, mirrored, outside):
        assert upload(mirrored, outside).code == 0
        assert mirrored.run("reconcile").code == 0
        folder = mirrored.run("audit", "--json").objects[0]
        assert (folder["unknown"], folder["doubled"], folder["missing"], folder["fine"]) == (0, 0, 0, 2)
        assert mirrored.run("orphans", "--json").objects == []

    def test_an_equal_file_of_the_tree_adopts_it(self, mirrored, outside):
        given = upload(mirrored, outside).only["assetid"]
        mirrored.write("second.jpg", outside.read_bytes())
        said = mirrored.run("reconcile", "--json").only
        assert (said["uploaded"], said["adopted"], said["verified"]) == (0, 1, 2)
        (row,) = mirrored.run("files", "--json", "photos/second.jpg").objects
        assert row["assetid"] == given

    @pytest.mark.parametrize("beside", [False, True])
    def test_a_lost_answer_is_looked_up(self, mirrored, outside, beside):
        lose_answers(mirrored)
        with Holder(mirrored) if beside else nullcontext():
            assert upload(mirrored, outside).code == 3
        mirrored.sandbox.set_faults()
        (doubt,) = mirrored.run("doubt list", "--json").objects
        assert (doubt["path"], doubt["state"]) == (str(outside), "in_doubt")
        assert mirrored.run("reconcile", "--json").only["in_sync"]
        again = upload(mirrored, outside)
        assert (again.code, again.only["assetid"] is not None) == (0, True)
        assert names(mirrored) == ["first.jpg", "outside.jpg"]

    def test_a_lost_upload_may_be_repeated(self, mirrored, outside):
        lose_answers(mirrored, FaultKind.STATUS)
        assert upload(mirrored, outside).code == 3
        mirrored.sandbox.set_faults()
        assert upload(mirrored, outside).code == 3
        said = mirrored.run("reconcile")
        assert (said.code, "did not arrive: `assetsync upload` it again" in said.err) == (1, True)
        assert "sending again" not in said.err
        assert (mirrored.run("reconcile").code, names(mirrored)) == (1, ["first.jpg"])
        assert "still blocked: `assetsync upload` sends it" in mirrored.run("retry", str(outside)).out
        assert upload(mirrored, outside).code == 0
        assert mirrored.run("reconcile").code == 0
        assert names(mirrored) == ["first.jpg", "outside.jpg"]

    def test_refused_upload_is_blocked(self, mirrored, outside):
        outside.write_bytes(b"")
        assert upload(mirrored, outside).code == 1
        (row,) = mirrored.run("files", "--all", "--state", "blocked", "--json").objects
        assert (row["path"], row["error"][:38]) == (str(outside), "the service received an empty file: if")
        said = mirrored.run("status").out
        assert f"`assetsync upload` it again, or `assetsync doubt resolve {outside} --absent`" in said.replace(
            f" --config {mirrored.config}", ""
        )
        assert mirrored.run("retry", str(outside)).out == "1 still blocked: empty, which the service refuses\n"
        assert "what helps: `assetsync upload" in mirrored.run("explain", str(outside)).out
        outside.write_bytes(b"outside")
        assert upload(mirrored, outside).code == 0
        assert mirrored.run("reconcile").code == 0

    def test_retry_sends_no_upload_by_hand(self, mirrored, outside):
        mirrored.write("listed.jpg", b"with a second file, the folder counts as listed")
        mirrored.run("reconcile")
        mirrored.nowhere()
        assert upload(mirrored, outside).code == 3
        assert mirrored.run("retry", str(outside)).out == "1 not sent: `assetsync upload` sends it\n"

    def test_absence_of_a_lost_upload_may_be_accepted(self, mirrored, outside):
        lose_answers(mirrored, FaultKind.STATUS)
        upload(mirrored, outside)
        mirrored.sandbox.set_faults()
        assert mirrored.run("reconcile").code == 1
        assert mirrored.run("doubt resolve", str(outside), "--absent").code == 0
        assert mirrored.run("reconcile").code == 0

    def test_equal_content_is_not_sent_again(self, mirrored, outside):
        outside.write_bytes(b"first")
        (asset,) = mirrored.sandbox.assets()
        result = upload(mirrored, outside)
        assert (result.code, result.only["assetid"]) == (0, asset.id)
        assert mirrored.files() == {"photos/first.jpg": "verified"}
        assert upload(mirrored, outside, "--send-again").only["assetid"] != asset.id

    def test_a_doubt_takes_the_word_of_a_person(self, mirrored, outside):
        lose_answers(mirrored)
        upload(mirrored, outside)
        mirrored.sandbox.set_faults()
        (found,) = (asset for asset in mirrored.sandbox.assets() if asset.filename == "outside.jpg")
        assert mirrored.run("doubt resolve", str(outside), "--asset", found.id).code == 0
        said = mirrored.run("explain", str(outside))
        assert f"asset {found.id} in folder {PHOTOS}" in said.out
        assert "on disk: no file of the tree: it was uploaded by hand" in said.out

    def test_send_again_is_left_to_upload(self, mirrored, outside):
        upload(mirrored, outside)
        result = mirrored.run("retry", "--send-again", str(outside))
        assert (result.code, "was uploaded by hand" in result.err) == (2, True)

    def test_an_unmapped_folder_is_not_recorded(self, mirrored, outside):
        assert upload(mirrored, outside, folder=PAPERS).code == 0
        assert mirrored.run("files", "--all", "--json").objects == mirrored.run("files", "--json").objects

    def test_absolute_path_names_the_upload_by_hand(self, two_folders):
        path = two_folders.write("second\n.jpg", b"second")
        lose_answers(two_folders)
        upload(two_folders, path, folder=PAPERS)
        upload(two_folders, path)
        two_folders.sandbox.set_faults()
        shown = str(path).replace("\n", "\\n")
        assert shown in two_folders.run("doubt list").out
        assert two_folders.run("doubt resolve", shown, "--absent").code == 0
        assert [doubt["path"] for doubt in two_folders.run("doubt list", "--json").objects] == ["photos/second\n.jpg"]
        assert two_folders.run("doubt resolve", str(path), "--absent").code == 2

    def test_what_the_folder_held_before_is_found(self, two_folders, outside):
        mirrored = two_folders
        mirrored.upload_unseen(outside, PAPERS)
        result = upload(mirrored, outside, folder=PAPERS)
        assert (result.code, "nothing was sent: the folder holds this content" in result.only["message"]) == (0, True)
        # Nor does a first upload by hand keep the daemon from a look at what lies there.
        (mirrored.folder / "other.jpg").write_bytes(b"another")
        mirrored.upload_unseen(mirrored.folder / "other.jpg", PAPERS)
        (mirrored.tree / "papers" / "other.jpg").write_bytes(b"another")
        assert upload(mirrored, mirrored.write("third.jpg", b"third"), folder=PAPERS).code == 0
        said = mirrored.run("reconcile", "--json").only
        assert (said["adopted"], len(mirrored.sandbox.assets())) == (1, 5)


class TestAnEndInTheMiddle:
    """The process of the upload ends without a word, while its request waits for an answer."""

    @pytest.fixture
    def waiting(self, mirrored, outside, listener):
        def start(path):
            mirrored.configure(upload_url=f"http://127.0.0.1:{listener.getsockname()[1]}/index.cfm")
            process = mirrored.start("upload", "--folder", PHOTOS, str(path))
            peer, _ = listener.accept()
            peer.recv(1)
            decide_soon(mirrored)
            return process, peer

        return start

    def test_nobody_sends_it_while_it_runs(self, mirrored, waiting):
        path = mirrored.write("second.jpg", b"second")
        process, peer = waiting(path)
        with peer:
            said = mirrored.run("reconcile", "--wait", "1s", "--json")
            assert (said.code, said.only["uploaded"], said.only["in_doubt"]) == (1, 0, 0)
            assert upload(mirrored, path).code == 3
            assert mirrored.files()["photos/second.jpg"] == "sending"
            process.kill()
            process.wait()
        assert mirrored.run("reconcile").code == 0
        assert names(mirrored) == ["first.jpg", "second.jpg"]

    def test_a_holder_puts_it_in_doubt(self, mirrored, waiting, eventually):
        path = mirrored.write("second.jpg", b"second")
        with Holder(mirrored):
            process, peer = waiting(path)
            with peer:
                time.sleep(0.2)
                assert mirrored.files()["photos/second.jpg"] == "sending"
                process.kill()
                process.wait()
                eventually(lambda: mirrored.files()["photos/second.jpg"] == "in_doubt")

    def test_from_elsewhere_it_is_resolved(self, mirrored, outside, waiting):
        process, peer = waiting(outside)
        with peer:
            process.kill()
            process.wait()
        said = mirrored.run("reconcile", "--json").only
        assert (said["in_sync"], said["blocked"], names(mirrored)) == (False, 1, ["first.jpg"])

    def test_an_equal_file_of_the_tree_waits_for_it(self, mirrored, outside, waiting):
        process, peer = waiting(outside)
        with peer:
            mirrored.write("second.jpg", outside.read_bytes())
            assert mirrored.run("reconcile", "--wait", "1s", "--json").only["uploaded"] == 0
            process.kill()
            process.wait()
        assert mirrored.run("reconcile").code == 0
        assert names(mirrored) == ["first.jpg", "second.jpg"]

    def test_an_outcome_left_behind_is_believed(self, mirrored, monkeypatch):
        """The command ends before the holder has carried out its last request."""
        monkeypatch.setattr(upload_command, "PATIENCE", 0.0)
        path = mirrored.write("second.jpg", b"second")
        with Holder(mirrored, most=1):
            given = upload(mirrored, path)
            assert (given.code, mirrored.files()["photos/second.jpg"]) == (0, "sending")
        assert mirrored.run("reconcile").code == 0
        (row,) = mirrored.run("files", "--json", "photos/second.jpg").objects
        assert (row["assetid"], row["state"]) == (given.only["assetid"], "verified")
        assert "given by the service" in mirrored.run("explain", "photos/second.jpg").out


def test_a_silent_holder_is_exit_4(mirrored, outside, monkeypatch):
    monkeypatch.setattr(upload_command, "_PATIENCE", 0.5)
    with closing(open_ledger(mirrored.ledger)) as holder:
        result = upload(mirrored, outside)
        assert (result.code, "did not answer; nothing was sent" in result.err) == (4, True)
        # Carried out too late it is refused: nobody would send it.
        assert holder.open_requests()
    assert mirrored.run("reconcile").code == 0
    assert names(mirrored) == ["first.jpg"]
    assert mirrored.run("doubt list").out == "nothing is in doubt\n"
