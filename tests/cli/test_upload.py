import json
import signal
import socket
from contextlib import closing

import pytest

from assetsync.ledger.ledger import open_ledger
from assetsync.sandbox import FaultKind, FaultRule, Operation

PHOTOS = "A6CE649FAA5F434EB513CA15656AB5AA"
KEYS = ["assetid", "responsecode", "message", "filetype"]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "harbour.jpg"
    path.write_bytes(b"a picture, perhaps")
    return path


def test_an_accepted_file_is_exit_0_with_the_keys_of_the_contract(site, file):
    result = site.run("upload", "--folder", PHOTOS, "--json", str(file))
    assert result.code == 0
    (asset,) = site.sandbox.assets()
    assert list(result.only) == KEYS
    assert result.only | {"message": ""} == {
        "assetid": asset.id,
        "responsecode": "0",
        "message": "",
        "filetype": "img",
    }
    assert site.sandbox.content(asset.id) == b"a picture, perhaps"
    assert not site.ledger.exists()


def test_metadata_and_name_arrive_as_they_are_given(site, file):
    meta = ("--meta", "img_description=NO", "--meta", "meta_img_keywords=a=b,012")
    assert site.run("upload", "--folder", PHOTOS, *meta, "--name", "pier.jpg", str(file)).code == 0
    (asset,) = site.sandbox.assets()
    assert asset.filename == "pier.jpg"
    assert asset.metadata["meta_img_description"] == "NO"
    assert asset.metadata["meta_img_keywords"] == "a=b,012"


@pytest.mark.parametrize("flag", ["--zip_extract", "--zip-extract"])
def test_an_option_is_known_by_the_name_of_the_interface(site, file, flag):
    assert site.run("upload", "--destfolderid", PHOTOS, flag, "0", "--upl_template", "7", str(file)).code == 0


def test_a_refused_file_is_exit_1_with_the_reason(site, tmp_path):
    empty = tmp_path / "empty.jpg"
    empty.touch()
    result = site.run("upload", "--folder", PHOTOS, "--json", str(empty))
    assert result.code == 1
    assert (result.only["assetid"], result.only["responsecode"]) == (None, "1")
    assert "empty" in result.err


def test_an_unknown_folder_is_exit_1_and_the_option_is_what_to_correct(site, file):
    result = site.run("upload", "--folder", "F" * 32, str(file))
    assert (result.code, result.err) == (1, "Error: the service knows no such folder: correct --folder\n")


def test_a_lost_answer_is_exit_3_and_says_to_look_first(site, file):
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
    def test_while_it_waits_for_the_answer_it_says_to_look_first(self, site, file, listener, number):
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

    def test_in_the_middle_of_the_file_it_says_to_look_first(self, site, tmp_path, listener):
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

    def test_before_anything_has_left_there_is_nothing_to_look_for(self, site, file, listener):
        process, peer = self.start(site, file, listener, scheme="https")
        with peer:
            # The service says nothing to the beginning of TLS.
            peer.recv(1)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=15)
        assert (process.returncode, json.loads(out)) == (130, NOTHING_ANSWERED)
        assert err == "Error: interrupted; nothing had been sent\n"


def test_a_dead_port_is_exit_3_and_nothing_was_sent(site, file):
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
def test_a_file_that_is_missing_is_exit_2_and_said_to_be(site, file, name):
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


def test_a_later_run_takes_the_asset_over(site):
    site.write("first.jpg", b"first")
    site.run("reconcile")
    path = site.write("second.jpg", b"second")
    assert site.run("upload", "--folder", PHOTOS, str(path)).code == 0
    said = site.run("reconcile", "--json").only
    assert (said["uploaded"], said["adopted"], said["verified"]) == (0, 1, 2)
    assert len(site.sandbox.assets()) == 2


def test_beside_the_holder_of_the_ledger_it_leaves_a_request_and_the_holder_takes_the_asset_over(site):
    site.write("first.jpg", b"first")
    site.run("reconcile")
    path = site.write("second.jpg", b"second")
    with closing(open_ledger(site.ledger)):
        assert site.run("upload", "--folder", PHOTOS, str(path)).code == 0
    said = site.run("reconcile", "--json").only
    assert (said["uploaded"], said["adopted"], said["verified"]) == (0, 1, 2)
