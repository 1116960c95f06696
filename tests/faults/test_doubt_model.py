"""The in-doubt protocol explored to its end in a small world: it neither doubles nor loses; no rule of it can go.

The world and what is assumed of the service stand in `model`. A broken promise prints the shortest way to it.

Without `--long`, a run explores a slice of the worlds and of the rules whose worlds take seconds (`tests/slices.py`).
"""

from collections import deque
from dataclasses import replace

import pytest

from tests.slices import skip_outside

from .model import at_peace, broken, calm, start, steps
from .model_world import GAP, Broken, Scenario, World

ROUNDS = 80
"""Calm rounds within which every file must be stored or blocked."""

ONE = Scenario(("ab",), ("x",), ("ab", "z"), faults=1, waits=GAP)
QUIET = replace(ONE, person=(), processes=False)
DIFFER = Scenario(("ab", "cd"), ("x", "x"), ("ab", "z"), faults=1, processes=False)
EQUAL = Scenario(("ab", "ab"), ("x", "x"), ("z",), faults=1)
BEGINS = Scenario(("abc", "ab"), ("x", "x"), ("abc",), faults=1, processes=False)
TWO_NAMES = Scenario(("ab", "ab"), ("x", "y"), faults=1, hangs=False, cuts=False, processes=False)
UNPROCESSED = replace(TWO_NAMES, faults=0, processes=True)
# Names that the service does not give back (observed: what is not in ISO-8859-1 is shown as `?`).
UNREADABLE = replace(TWO_NAMES, names=("日", "月"), shows="?")
NAMELESS = replace(UNREADABLE, contents=("ab", "cd"), gives_md5=False)
SIMILAR = replace(QUIET, names=("日",), shows="similar", gives_md5=False, cuts=False, hangs=False)
RENAMED = replace(TWO_NAMES, contents=("ab", "cd"), shows="workflow", renames=True, gives_md5=False)
ONE_RENAMED = replace(QUIET, shows="workflow", renames=True, gives_md5=False, cuts=False, hangs=False, processes=True)
RETRIED = replace(BEGINS, person=(), absences=4, retries=True)

# A replica that is behind by more than the grace, and a service that stores long after a proxy gave up.
LAGS = replace(QUIET, lags=5, hangs=False, cuts=False)
LATE = replace(QUIET, late=7, cuts=False)
# Beside it an application that answers, processes and boots that follow one another, and another key.
ANSWERS = replace(LATE, answers=True)
ANSWERS_ALIKE = replace(UNREADABLE, late=7, answers=True, processes=False, crashes=False)
HALF = replace(LATE, half=7)
BY_NAME = replace(QUIET, by_name=True, cuts=False, crashes=False, processes=False)
KEYS = replace(QUIET, keys=True, cuts=False, hangs=False, waits=0)

SCENARIOS = {
    "one_file": replace(ONE, waits=1, person=("ab",), processes=False),
    "one_file_and_assets_not_processed": replace(QUIET, waits=1, processes=True, hangs=False),
    "two_files_of_one_name_and_different_content": DIFFER,
    "two_files_of_one_name_and_equal_content": EQUAL,
    "two_files_of_one_name_and_one_begins_the_other": BEGINS,
    "two_files_of_two_names_and_equal_content": TWO_NAMES,
    "two_files_of_two_names_and_assets_not_processed": UNPROCESSED,
    "two_files_whose_names_come_back_the_same": UNREADABLE,
    "the_service_gives_no_md5": replace(DIFFER, person=(), gives_md5=False),
    "without_md5_two_files_whose_names_come_back_the_same": replace(NAMELESS, crashes=False),
    "without_md5_a_service_that_renames": replace(RENAMED, crashes=False),
    "doubts_that_a_person_must_decide_and_retries": RETRIED,
    "look_ups_that_lag": replace(LAGS, waits=1, faults=2),
    "stored_long_after_the_end": replace(LATE, waits=1),
    "answered_or_stored_long_after_the_end": replace(ANSWERS, waits=0),
    "rounds_after_half_a_day": replace(HALF, waits=0),
    "searches_by_name_between_listings": BY_NAME,
    "another_key": KEYS,
}
# Worlds of a hundred thousand states and more; `sim_nameless` has the crashes without them.
LONG = {
    "one_file_a_person_and_processing": replace(ONE, waits=1),
    "without_md5_names_that_come_back_the_same_and_crashes": NAMELESS,
    "without_md5_a_service_that_renames_and_crashes": RENAMED,
    "one_file_and_slow_look_ups": replace(QUIET, waits=2),
    "one_file_and_very_slow_look_ups": ONE,
    "one_file_two_faults": replace(ONE, waits=1, faults=2),
    "one_file_three_posts": replace(ONE, waits=1, posts=3),
    "different_content_and_processing": replace(DIFFER, processes=True, person=("ab", "zz", "z")),
    "equal_content_three_posts": replace(EQUAL, posts=3, processes=False),
    "two_names_and_cuts": replace(TWO_NAMES, cuts=True),
    "two_names_and_a_person": replace(TWO_NAMES, person=("ab",)),
    "one_begins_the_other_and_processing": replace(BEGINS, processes=True),
    "answered_and_slow_look_ups": ANSWERS,
    "rounds_and_slow_look_ups": HALF,
    "another_key_and_slow_look_ups": replace(KEYS, waits=1),
    "searches_by_name_and_look_ups_that_lag": replace(LAGS, by_name=True),
    "searches_by_name_and_rounds": replace(HALF, waits=0, by_name=True),
    "searches_by_name_and_another_key": replace(KEYS, by_name=True),
    "searches_by_name_and_equal_content": replace(TWO_NAMES, by_name=True),
}

# Each rule of the protocol taken away, in the world that shows what it is for, and what then happens.
SENT_TWICE = "is sent although an earlier attempt is stored or may still be"
NO_CUT = "is called damaged and is no cut of"
RULES = (
    ("a lost answer is looked up", ONE, SENT_TWICE),
    ("the intent is committed before the body leaves", ONE, SENT_TWICE),
    ("an absence needs a grace", ONE, SENT_TWICE),
    ("the grace begins after the attempt has ended", QUIET, SENT_TWICE),
    ("a gap begins the grace anew", QUIET, SENT_TWICE),
    ("waiting for an answer is a gap", QUIET, SENT_TWICE),
    ("a look-up counts from when it was asked", QUIET, SENT_TWICE),
    ("slow look-ups make the grace longer", QUIET, SENT_TWICE),
    ("a restart begins the grace anew", replace(QUIET, faults=2), SENT_TWICE),
    ("what is not processed may be ours", ONE, SENT_TWICE),
    ("damage is proven", ONE, NO_CUT),
    ("what was there before proves nothing", ONE, SENT_TWICE),
    ("an owned asset is not adopted", EQUAL, "two rows hold one asset"),
    ("one open attempt per name", EQUAL, SENT_TWICE),
    ("one open attempt per name", BEGINS, NO_CUT),
    ("a name points to its attempt", TWO_NAMES, SENT_TWICE),
    ("an open attempt keeps its asset from the queue", UNPROCESSED, SENT_TWICE),
    ("before means before the attempt began", UNPROCESSED, SENT_TWICE),
    ("an adoption begins the grace of its equals anew", UNREADABLE, SENT_TWICE),
    # Each of these two covers for the other: what the first would prevent, the second mends.
    ("an unanswered attempt keeps its asset · the answer wins over an adopter", UNREADABLE, "two rows hold one asset"),
    ("a name of two uploads proves neither", NAMELESS, "holds an asset of other content"),
    ("a name that is not sure is no absence", SIMILAR, SENT_TWICE),
    ("an upload may have been renamed", ONE_RENAMED, SENT_TWICE),
    ("a retried doubt holds its name again", RETRIED, NO_CUT),
    ("a look-up counts once it is newer", LAGS, SENT_TWICE),
    ("a control sample begins after the end", LAGS, SENT_TWICE),
    ("what left whole is waited for longer", LATE, SENT_TWICE),
    ("an adoption hands on what was not answered", ANSWERS_ALIKE, SENT_TWICE),
    ("a restart begins the lag anew", LAGS, SENT_TWICE),
    ("another key begins the span anew", KEYS, SENT_TWICE),
    ("a listing ends the grace", BY_NAME, SENT_TWICE),
    ("rounds count after half a day", HALF, SENT_TWICE),
)

SLOW_RULES = (
    "a restart begins the grace anew",
    "what is not processed may be ours",
    "before means before the attempt began",
    "an adoption begins the grace of its equals anew",
    "an adoption hands on what was not answered",
    "rounds count after half a day",
)
"""Rules whose worlds take seconds until they show what the rule is for."""
SLICES = 12

# What the protocol cannot tell, in worlds that `model` assumes away; if one of these ends well, the assumption can go.
LIMITS = {
    "a_person_uploads_exactly_the_beginning_of_a_file_in_doubt": (replace(ONE, person=("a",)), NO_CUT),
    "a_late_cut_of_an_equal_file_whose_doubt_ended_with_a_persons_copy": (
        replace(EQUAL, person=("ab",), processes=False),
        SENT_TWICE,
    ),
    "without_md5_a_persons_file_of_the_same_name_and_size": (
        replace(DIFFER, person=("zz",), gives_md5=False),
        "holds an asset of other content",
    ),
}


class Found(Exception):
    """A broken invariant and the steps that lead to it."""

    def __init__(self, why: str, trace: list[str]) -> None:
        super().__init__("\n".join([why, *(f"  {i}. {step}" for i, step in enumerate(trace, 1))]))
        self.why = why
        self.trace = trace


def explore(scenario: Scenario) -> int:
    """Visit every reachable state, the nearest first; gives how many there are, raises Found."""
    first = start(scenario)
    came: dict[World, tuple[World, str] | None] = {first: None}
    waiting = deque([first])
    ends_well: set[World] = set()
    while waiting:
        world = waiting.popleft()
        try:
            why = _stuck(scenario, world, ends_well)
        except Broken as error:
            why = str(error)
        if why:
            raise Found(f"{why}, with nothing going wrong any more", _trace(came, world))
        successors = steps(scenario, world)
        while True:
            try:
                step, after = next(successors)
            except StopIteration:
                break
            except Broken as error:
                raise Found(str(error), _trace(came, world)) from error
            if after not in came:
                came[after] = (world, step)
                why = broken(scenario, after)
                if why:
                    raise Found(why, _trace(came, after))
                waiting.append(after)
    return len(came)


def _stuck(scenario: Scenario, world: World, ends_well: set[World]) -> str:
    """Say why a state does not end well though nothing goes wrong from now on, or give nothing."""
    for late in (True, False) if world.pending else (False,):
        after: World | None = at_peace(scenario, world, late=late)
        path = []
        while after is not None and after not in ends_well:
            why = broken(scenario, after)
            if why:
                return why
            path.append(after)
            if len(path) > ROUNDS:
                return "a file is neither stored nor blocked"
            after = calm(scenario, after)
        ends_well.update(path)
    return ""


def _trace(came: dict[World, tuple[World, str] | None], world: World) -> list[str]:
    said = []
    while (link := came[world]) is not None:
        world, step = link
        said.append(step)
    return said[::-1]


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_reachable_state_loses_or_repeats(name: str, request: pytest.FixtureRequest):
    skip_outside(name, list(SCENARIOS), SLICES, request)
    count = explore(SCENARIOS[name])
    print(f"{name}: {count:,} states")
    assert count > 1_000, "the world is too small to show anything"


@pytest.mark.parametrize("name", LONG)
def test_larger_world_loses_and_repeats_nothing(name: str, request: pytest.FixtureRequest):
    if not request.config.getoption("--long"):
        pytest.skip("explored with --long only")
    print(f"{name}: {explore(LONG[name]):,} states")


@pytest.mark.parametrize("name", LIMITS)
def test_protocol_fails_outside_its_assumptions(name: str):
    scenario, why = LIMITS[name]
    with pytest.raises(Found) as caught:
        explore(scenario)
    print(caught.value)
    assert why in caught.value.why


@pytest.mark.parametrize(("rule", "scenario", "why"), RULES, ids=[rule.replace(" ", "_") for rule, _, _ in RULES])
def test_model_fails_without_this_rule(rule: str, scenario: Scenario, why: str, request: pytest.FixtureRequest):
    if rule in SLOW_RULES:
        skip_outside(rule, SLOW_RULES, SLICES, request)
    with pytest.raises(Found) as caught:
        explore(replace(scenario, without=rule))
    print(caught.value)
    assert why in caught.value.why


def test_slow_rules_are_rules():
    assert set(SLOW_RULES) <= {rule for rule, _, _ in RULES}
