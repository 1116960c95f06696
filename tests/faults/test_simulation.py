"""The whole flow in simulated time: thousands of schedules of faults, and none that loses a file or sends one twice.

A seed stands for an installation of the service and a list of actions (`sim_schedule`): what users do to the tree, what
becomes of each upload, crashes at any mark and any commit, full disks, clocks that jump, look-ups that come late. After
it comes a quiet time, and then it is judged. What must hold:

I1  Each file of the tree has exactly one undamaged asset, or is blocked with a reason that there is; whatever was made
    in the service is a file's, was a file's, or is listed with a word for it.
I2  No body leaves for a version that is in doubt or stored, and there are never more whole copies than there were files
    of the content at once, except where a person asked for another.
I3  Every id in the ledger came from the service, and no two live rows share one.
I4  What is verified has the digest that is recorded.
I5  The API key stands in no log line and in no byte of the ledger, though the service quotes it at every occasion.
I6  Doubts, their look-ups in a minute, files on their way, hints and settling files stay within their bounds.
I7  In a quiet time every file comes to rest, verified or blocked, and every attempt is decided; within a bounded time
    also where searches go on failing now and then.
I8  What the ledger has counted is what a count of its rows gives.
I9  What the service was told of a file is what the tree says of it in the end, or the difference is listed as drift.
I10 An asset that people moved to another folder is told of, and not sent again; nor is one that they renamed.
I11 A file that changes during each of its uploads leaves three damaged assets, and one more with each hour.
I12 While some uploads fail, the others are stored at the rate of the service, under the default limits.
I13 A file that the service accepts and never processes ends blocked, and verified if the service finishes late.
I14 What the service does not hold of the metadata that was sent is listed, of a verified file, and nothing else is.
I15 Of a size that a proxy refuses, one file is sent a day; once its limit is raised, all are.
I16 No document is sent with metadata for which the service would never process it.
I17 Few files are sent with a custom field that the service does not have, and none under a longer name than it keeps.

A failing seed is made as small as it can be and printed with its trace. `ASSETSYNC_SEED` sets the first seed, `--long`
runs 10,000 schedules and searches for each mutant among them. Without it, a slice of the mutants is searched for
(`tests/slices.py`).
"""

import hashlib
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import count as counted
from itertools import islice
from pathlib import Path

import pytest

from tests.slices import skip_outside

from .sim_by_hand import by_hand_schedule
from .sim_curated import curated_schedule
from .sim_failing import FAILING, failing_schedule
from .sim_fields import fields_schedule
from .sim_late import gateway_schedule, lagging_schedule
from .sim_lies import HONEST, lies_of
from .sim_mutants import (
    MUTANTS,
    OF_BY_HAND,
    OF_CURATED,
    OF_FAILING,
    OF_FALSE_LISTS,
    OF_FIELDS,
    OF_LAGGING,
    OF_NAMELESS,
    OF_OWN,
    OF_PARTIAL,
    OF_PAUSES,
    OF_REFUSED,
    OF_REFUSED_SIZES,
    OF_SIDECARS,
    OF_SIMILAR,
    OF_STUCK,
    a_clean_stop_needs_no_confirmation,
    a_copy_is_believed,
    a_gateway_timeout_is_an_end,
    a_list_of_another_folder_is_empty,
    a_restart_keeps_the_grace,
    changes_are_forgotten,
    no_exclusive_names,
)
from .sim_nameless import nameless_schedule
from .sim_own import own_schedule
from .sim_partial import PARTIAL, partial_schedule
from .sim_pauses import pauses_schedule
from .sim_refused import refused_schedule
from .sim_refused_sizes import refused_sizes_schedule
from .sim_restless import restless_schedule
from .sim_restored import restored_schedule, rolled_back_schedule
from .sim_run import explain, explained, failure, run, shrink
from .sim_schedule import Action, Schedule, Variant, faults_of, schedule_of
from .sim_sidecars import sidecar_schedule
from .sim_similar import similar_schedule
from .sim_stuck import stuck_schedule
from .sim_xmp import required_schedule, xmp_schedule
from .simulation import UNFORESEEN

DEFAULT = 20261121
FIRST = int(os.environ.get("ASSETSYNC_SEED", DEFAULT))
SHORT, LONG = 10, 10_000
SHORT_SIMILAR, LONG_SIMILAR = 2, 3000
SHORT_UNSTEADY, LONG_UNSTEADY = 2, 3000
SHORT_TOGETHER, LONG_TOGETHER = 2, 3000
SHORT_SIDECARS, LONG_SIDECARS = 2, 3000
SHORT_XMP, LONG_XMP = 2, 3000
SHORT_REQUIRED, LONG_REQUIRED = 2, 3000
SHORT_CURATED, LONG_CURATED = 2, 3000
SHORT_RESTLESS, LONG_RESTLESS = 2, 3000
SHORT_BY_HAND, LONG_BY_HAND = 2, 3000
SHORT_PAUSES, LONG_PAUSES = 2, 1000
SHORT_RESTORED, LONG_RESTORED = 2, 3000
SHORT_NAMELESS, LONG_NAMELESS = 2, 3000
SHORT_LATE, LONG_LATE = 2, 3000
SHORT_ROLLED_BACK, LONG_ROLLED_BACK = 2, 3000
SHORT_FAILING, LONG_FAILING = 2, 3000
SHORT_PARTIAL, LONG_PARTIAL = 1, 1000
SHORT_STUCK, LONG_STUCK = 2, 3000
SHORT_OWN, LONG_OWN = 2, 3000
SHORT_LYING, LONG_LYING = 2, 1000
SHORT_REFUSED_SIZES, LONG_REFUSED_SIZES = 2, 1000
SHORT_REFUSED, LONG_REFUSED = 2, 3000
SHORT_FIELDS, LONG_FIELDS = 2, 3000
REACH = 400
"""Within so many seeds a mutant must be found."""
KNOWN = {
    "paused_files_are_sent": 0,
    "pause_follows_the_wall_clock": 0,
    "pause_is_kept_in_memory": 0,
    "no_grace": 20261121,
    "grace_from_the_attempt": 20261196,
    "a_gap_is_bridged": 20261415,
    "slow_look_ups_are_gaps": 20261125,
    "a_restart_keeps_the_grace": 20261203,
    "a_cut_is_unsent": 20261168,
    "a_cut_is_accepted": 20261166,
    "sent_again_after_5xx": 20261172,
    "no_ownership": 20261141,
    "no_look_at_the_old_path": 20261127,
    "the_intent_comes_late": 1043,
    "history_may_be_damage": 20261203,
    "no_take_over": 20261124,
    "a_look_up_follows_at_once": 20261124,
    "a_beginning_is_proof": 571,
    "what_is_over_has_left_nothing": 1528,
    "a_sidecar_is_only_read": 20262013,
    "a_change_after_the_look_is_not_told": 738,
    "what_is_to_be_replaced_is_taken": 5699,
    "a_copy_is_believed": 77,
    "a_capped_list_is_whole": 1008,
    "a_long_list_is_whole": 1005,
    "pages_never_slip": 44,
    "an_empty_list_is_believed": 1214,
    "an_empty_folder_proves_absence": 20261394,
    "what_was_asked_is_sent_unseen": 5036,
    "a_list_of_another_folder_is_empty": 1022,
    "changes_are_forgotten": 1,
    "a_clean_stop_needs_no_confirmation": 27,
    "what_a_folder_does_not_show_is_missing": 20261148,
    "names_are_taken_for_kept": 20261128,
    "only_whole_names_resemble": 1,
    "a_name_of_two_is_proof": 1089,
    "refused_sizes_are_forgotten": 14,
    "a_running_command_is_taken_for_ended": 7400016,
    "equal_content_is_sent_by_hand": 7400043,
    "a_look_up_is_as_new_as_it_looks": 20261121,
    "any_upload_is_a_control_sample": 22,
    "a_gateway_timeout_is_an_end": 20261122,
    "an_unanswered_look_up_counts": 20261138,
    "a_failed_search_is_not_repeated": 20261124,
    "a_round_is_thrown_away_whole": 29,
    "an_answered_500_is_no_answer": 10,
    "accepted_uploads_allow_no_doubts": 12,
    "what_was_sent_is_not_compared": 1,
    "a_finding_is_read_away": 14,
    "all_metadata_is_sent": 20261121,
    "what_is_never_processed_is_sent_again": 1,
    "what_is_never_processed_is_waited_for": 1,
    "all_try_a_new_field": 5,
}
"""A seed that finds the mutant: the search begins there, so that it is short while nothing has changed.

That two open attempts may have one name is too rare here since other rules stand behind it: the long run searches for
it, and `test_doubt_model` finds it each time.
"""

SLICES = 6

_TRACES = """
import sys, hashlib
sys.path.insert(0, {root!r})
from tests.faults.sim_run import run
from tests.faults.sim_schedule import schedule_of
for seed in {seeds!r}:
    print(hashlib.sha256("\\n".join(run(schedule_of(seed))).encode()).hexdigest())
"""


@pytest.fixture(autouse=True)
def _slice_of_mutants(request: pytest.FixtureRequest) -> None:
    """Skip a mutant outside the slice; one that no seed is known of is skipped by its test."""
    mutant = getattr(request.node, "callspec", None) and request.node.callspec.params.get("mutant")
    if mutant and mutant.__name__ in KNOWN:
        skip_outside(mutant.__name__, list(KNOWN), SLICES, request)


def test_no_schedule_loses_or_repeats_a_file(request: pytest.FixtureRequest):
    count = LONG if request.config.getoption("--long") else SHORT
    started = time.monotonic()
    print(f"seeds {FIRST} to {FIRST + count - 1}")
    met: Counter[str] = Counter()
    for seed in range(FIRST, FIRST + count):
        schedule = schedule_of(seed)
        met.update(faults_of(schedule))
        if failure(schedule) is not None:
            pytest.fail(explain(seed))
    print(f"{count:,} schedules in {time.monotonic() - started:.0f} s; of these, with")
    for said, number in met.most_common():
        print(f"  {number:6,}  {said}")


@pytest.mark.parametrize("share", [0.03, 0.1])
def test_flaky_tree_loses_and_repeats_nothing(share, request: pytest.FixtureRequest):
    print(f"{share:.0%} of the looks fail")
    count = LONG_UNSTEADY if request.config.getoption("--long") else SHORT_UNSTEADY
    _find_none(lambda seed: _unsteady(seed, share), count)


def _unsteady(seed: int, share: float) -> Schedule:
    schedule = schedule_of(seed)
    return Schedule(replace(schedule.variant, unsteady=share), schedule.actions)


def test_parallel_sends_lose_and_repeat_nothing(request: pytest.FixtureRequest):
    _find_none(_together, LONG_TOGETHER if request.config.getoption("--long") else SHORT_TOGETHER)


def _together(seed: int) -> Schedule:
    schedule = schedule_of(seed)
    return Schedule(replace(schedule.variant, together=True), schedule.actions)


def test_seed_replays_the_same_trace():
    seeds = range(FIRST, FIRST + 3)
    here = [hashlib.sha256("\n".join(run(schedule_of(seed))).encode()).hexdigest() for seed in seeds]
    program = _TRACES.format(root=str(Path(__file__).parents[2]), seeds=list(seeds))
    there = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "77"},
    )
    assert there.stdout.split() == here


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_without_this_rule_a_schedule_fails(mutant, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    is_long = request.config.getoption("--long")
    if mutant.__name__ not in KNOWN and not is_long:
        pytest.skip("searched for with --long only; test_doubt_model finds it")
    first = FIRST if is_long else KNOWN[mutant.__name__]
    equal_names = mutant is no_exclusive_names
    with monkeypatch.context() as patch:
        mutant(patch)
        seeds = range(first, first + (4 * REACH if equal_names else REACH))
        found = next((seed for seed in seeds if _breaks_a_rule(schedule_of(seed, equal_names=equal_names))), None)
    assert found is not None
    print(f"{mutant.__name__}: seed {found}, after {found - first}")
    assert failure(schedule_of(found, equal_names=equal_names)) is None


def _breaks_a_rule(schedule: Schedule) -> bool:
    """Whether a schedule violates an invariant; that a mutant itself raises an error proves nothing."""
    violated = failure(schedule)
    return violated is not None and UNFORESEEN not in str(violated)


def _find_none(schedule_of_kind: Callable[[int], Schedule], count: int) -> None:
    print(f"seeds {FIRST} to {FIRST + count - 1}")
    for seed in range(FIRST, FIRST + count):
        schedule = schedule_of_kind(seed)
        if failure(schedule) is not None:
            pytest.fail(explained(seed, schedule))


def _needs(mutant, schedule_of_kind: Callable[[int], Schedule], says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = schedule_of_kind(KNOWN[mutant.__name__])
    with monkeypatch.context() as patch:
        mutant(patch)
        violated = str(failure(schedule))
    assert says in violated
    assert UNFORESEEN not in violated
    assert failure(schedule) is None


def test_similar_files_lose_and_repeat_nothing(request: pytest.FixtureRequest):
    _find_none(similar_schedule, LONG_SIMILAR if request.config.getoption("--long") else SHORT_SIMILAR)


@pytest.mark.parametrize("mutant", OF_SIMILAR, ids=lambda mutant: mutant.__name__)
def test_similar_file_is_resent_without_this_rule(mutant, monkeypatch: pytest.MonkeyPatch):
    _needs(mutant, similar_schedule, "times by us", monkeypatch)


def test_metadata_matches_tree_or_is_listed(request: pytest.FixtureRequest):
    _find_none(sidecar_schedule, LONG_SIDECARS if request.config.getoption("--long") else SHORT_SIDECARS)


def test_metadata_of_xmp_files_matches_or_is_listed(request: pytest.FixtureRequest):
    _find_none(xmp_schedule, LONG_XMP if request.config.getoption("--long") else SHORT_XMP)


def test_files_wait_for_required_sidecars(request: pytest.FixtureRequest):
    _find_none(required_schedule, LONG_REQUIRED if request.config.getoption("--long") else SHORT_REQUIRED)


@pytest.mark.parametrize("mutant", OF_SIDECARS, ids=lambda mutant: mutant.__name__)
def test_drift_is_missed_without_this_rule(mutant, monkeypatch: pytest.MonkeyPatch):
    _needs(mutant, sidecar_schedule, "I9", monkeypatch)


def test_service_edits_cause_no_upload(request: pytest.FixtureRequest):
    _find_none(curated_schedule, LONG_CURATED if request.config.getoption("--long") else SHORT_CURATED)


def test_moved_remains_prove_no_cut():
    """A person moves the remains of a cut upload into the folder of an open upload of the same name."""
    assert failure(curated_schedule(110_000_019)) is None


def test_doubt_after_its_grace_is_looked_up_seldom():
    """An upload waits for another one, whose grace is longer."""
    assert failure(curated_schedule(116_000_129)) is None


@pytest.mark.parametrize("mutant", OF_CURATED, ids=lambda mutant: mutant.__name__)
def test_moved_asset_is_resent_without_this_rule(mutant, monkeypatch: pytest.MonkeyPatch):
    _needs(mutant, curated_schedule, "is stored 2 times by us", monkeypatch)


def test_uploads_by_hand_lose_and_double_nothing(request: pytest.FixtureRequest):
    _find_none(by_hand_schedule, LONG_BY_HAND if request.config.getoption("--long") else SHORT_BY_HAND)


@pytest.mark.parametrize("mutant", OF_BY_HAND, ids=lambda mutant: mutant.__name__)
def test_without_this_rule_an_upload_by_hand_doubles(mutant, monkeypatch: pytest.MonkeyPatch):
    _needs(mutant, by_hand_schedule, "I2", monkeypatch)


def test_pauses_are_kept_and_end(request: pytest.FixtureRequest):
    _find_none(pauses_schedule, LONG_PAUSES if request.config.getoption("--long") else SHORT_PAUSES)


@pytest.mark.parametrize("mutant", OF_PAUSES, ids=lambda mutant: mutant.__name__)
def test_without_this_rule_a_pause_fails(mutant, monkeypatch: pytest.MonkeyPatch):
    _needs(mutant, pauses_schedule, "I16", monkeypatch)


def test_lost_or_restored_ledger_repeats_nothing(request: pytest.FixtureRequest):
    _find_none(restored_schedule, LONG_RESTORED if request.config.getoption("--long") else SHORT_RESTORED)


@pytest.mark.parametrize("mutant", [a_copy_is_believed, *OF_FALSE_LISTS], ids=lambda mutant: mutant.__name__)
def test_trusted_ledger_copy_sends_twice(mutant, monkeypatch: pytest.MonkeyPatch):
    _needs(mutant, restored_schedule, "times by us", monkeypatch)


@pytest.mark.parametrize("kind", [restored_schedule, rolled_back_schedule], ids=["restored", "rolled_back"])
def test_false_listings_repeat_nothing(kind, request: pytest.FixtureRequest):
    """What the ledger has forgotten is found, or waited for, though listings leave it out or show it otherwise."""
    count = LONG_LYING if request.config.getoption("--long") else SHORT_LYING
    for seed in islice((seed for seed in counted(FIRST) if lies_of(seed) != HONEST), count):
        if failure(kind(seed)) is not None:
            pytest.fail(explained(seed, kind(seed)))


def test_a_file_that_keeps_changing_is_seldom_cut(request: pytest.FixtureRequest):
    _find_none(restless_schedule, LONG_RESTLESS if request.config.getoption("--long") else SHORT_RESTLESS)


@pytest.mark.parametrize("mutant", [changes_are_forgotten], ids=lambda mutant: mutant.__name__)
def test_changes_that_are_forgotten_cut_on(mutant, monkeypatch: pytest.MonkeyPatch):
    _needs(mutant, restless_schedule, "I11", monkeypatch)


def test_without_md5_and_names_nothing_is_doubled(request: pytest.FixtureRequest):
    _find_none(nameless_schedule, LONG_NAMELESS if request.config.getoption("--long") else SHORT_NAMELESS)


@pytest.mark.parametrize("mutant", OF_NAMELESS, ids=lambda mutant: mutant.__name__)
def test_without_this_rule_nameless_assets_are_doubled(mutant, monkeypatch: pytest.MonkeyPatch):
    _needs(mutant, nameless_schedule, "times by us", monkeypatch)


def test_look_ups_that_lag_send_nothing_twice(request: pytest.FixtureRequest):
    _find_none(lagging_schedule, LONG_LATE if request.config.getoption("--long") else SHORT_LATE)


@pytest.mark.parametrize("mutant", OF_LAGGING, ids=lambda mutant: mutant.__name__)
def test_look_ups_believed_too_early_send_twice(mutant, monkeypatch: pytest.MonkeyPatch):
    _needs(mutant, lagging_schedule, "by us", monkeypatch)


def test_uploads_stored_after_a_504_are_not_doubled(request: pytest.FixtureRequest):
    _find_none(gateway_schedule, LONG_LATE if request.config.getoption("--long") else SHORT_LATE)


@pytest.mark.parametrize("mutant", [a_gateway_timeout_is_an_end], ids=lambda mutant: mutant.__name__)
def test_a_504_taken_for_an_end_sends_twice(mutant, monkeypatch: pytest.MonkeyPatch):
    _needs(mutant, gateway_schedule, "by us", monkeypatch)


def test_rolled_back_disk_sends_nothing_twice(request: pytest.FixtureRequest):
    _find_none(rolled_back_schedule, LONG_ROLLED_BACK if request.config.getoption("--long") else SHORT_ROLLED_BACK)


@pytest.mark.parametrize(
    "mutant",
    [a_clean_stop_needs_no_confirmation, a_list_of_another_folder_is_empty],
    ids=lambda mutant: mutant.__name__,
)
def test_unconfirmed_clean_stop_that_is_believed_sends_twice(mutant, monkeypatch: pytest.MonkeyPatch):
    _needs(mutant, rolled_back_schedule, "is stored 2 times by us", monkeypatch)


@pytest.mark.parametrize("kind", FAILING)
def test_failing_searches_leave_progress(kind, request: pytest.FixtureRequest):
    """All files arrive within a bounded time, though searches go on failing in the quiet time."""
    count = LONG_FAILING if request.config.getoption("--long") else SHORT_FAILING
    _find_none(lambda seed: failing_schedule(seed, kind), count)


@pytest.mark.parametrize(("mutant", "kind", "says"), OF_FAILING)
def test_failing_searches_need_this_rule(mutant, kind, says, monkeypatch: pytest.MonkeyPatch):
    _needs(mutant, lambda seed: failing_schedule(seed, kind), says, monkeypatch)


@pytest.mark.parametrize("kind", PARTIAL)
def test_partial_failures_leave_progress(kind, request: pytest.FixtureRequest):
    """The other uploads go on at their rate, and all files arrive within a bounded time."""
    count = LONG_PARTIAL if request.config.getoption("--long") else SHORT_PARTIAL
    _find_none(lambda seed: partial_schedule(seed, kind), count)


@pytest.mark.parametrize(("mutant", "says"), OF_PARTIAL)
def test_partial_failures_need_this_rule(mutant, says, monkeypatch: pytest.MonkeyPatch):
    _needs(mutant, lambda seed: partial_schedule(seed, "each_fifth"), says, monkeypatch)


def test_unprocessed_uploads_are_blocked_and_not_doubled(request: pytest.FixtureRequest):
    _find_none(stuck_schedule, LONG_STUCK if request.config.getoption("--long") else SHORT_STUCK)


@pytest.mark.parametrize(("mutant", "says"), OF_STUCK)
def test_unprocessed_uploads_need_this_rule(mutant, says, monkeypatch: pytest.MonkeyPatch):
    _needs(mutant, stuck_schedule, says, monkeypatch)


def test_metadata_that_is_not_kept_is_listed(request: pytest.FixtureRequest):
    _find_none(own_schedule, LONG_OWN if request.config.getoption("--long") else SHORT_OWN)


@pytest.mark.parametrize("mutant", OF_OWN, ids=lambda mutant: mutant.__name__)
def test_metadata_is_lost_unseen_without_this_rule(mutant, monkeypatch: pytest.MonkeyPatch):
    _needs(mutant, own_schedule, "I14", monkeypatch)


def test_refused_sizes_are_sent_once_a_day(request: pytest.FixtureRequest):
    _find_none(
        refused_sizes_schedule, LONG_REFUSED_SIZES if request.config.getoption("--long") else SHORT_REFUSED_SIZES
    )


@pytest.mark.parametrize("mutant", OF_REFUSED_SIZES, ids=lambda mutant: mutant.__name__)
def test_refused_sizes_come_again_without_this_rule(mutant, monkeypatch: pytest.MonkeyPatch):
    _needs(mutant, refused_sizes_schedule, "I15", monkeypatch)


def test_no_document_is_refused_for_its_metadata(request: pytest.FixtureRequest):
    _find_none(refused_schedule, LONG_REFUSED if request.config.getoption("--long") else SHORT_REFUSED)


@pytest.mark.parametrize("mutant", OF_REFUSED, ids=lambda mutant: mutant.__name__)
def test_document_is_refused_without_this_rule(mutant, monkeypatch: pytest.MonkeyPatch):
    _needs(mutant, refused_schedule, "I16", monkeypatch)


def test_failing_schedule_is_minimised():
    needed = {Action("crash", (3, False)), Action("plan", ("cut", 5, 0.0, True))}
    many = [Action("wait", (float(number),)) for number in range(40)]
    whole = Schedule(Variant(), (*many[:7], *needed, *many[7:]))
    assert set(shrink(whole, lambda tried: needed <= set(tried.actions)).actions) == needed


def test_failing_seed_reports_its_trace(monkeypatch: pytest.MonkeyPatch):
    a_restart_keeps_the_grace(monkeypatch)
    said = explain(KNOWN["a_restart_keeps_the_grace"])
    schedule, trace = said.split("trace:")
    assert re.match(r"seed 20261203: I2: .* is stored 2 times", schedule)
    assert len(schedule.splitlines()) < 15
    assert "CRASH between two steps, the machine restarts" in trace


def test_unknown_fields_and_long_names_lose_nothing(request: pytest.FixtureRequest):
    _find_none(fields_schedule, LONG_FIELDS if request.config.getoption("--long") else SHORT_FIELDS)


@pytest.mark.parametrize("mutant", OF_FIELDS, ids=lambda mutant: mutant.__name__)
def test_many_files_are_lost_without_this_rule(mutant, monkeypatch: pytest.MonkeyPatch):
    _needs(mutant, fields_schedule, "I17", monkeypatch)
