"""The model's look-ups: what the resolver shows to the real judgement, and what becomes of the verdict."""

from dataclasses import replace
from functools import lru_cache

from assetsync.core.doubt import Candidate, Doubt, Judgement, Verdict, judge
from assetsync.core.doubt_grace import ROUNDS_APART, SLOW_GRACE, Grace, Looked, Pace, Watch
from assetsync.core.names import is_exactly, is_others, is_shown_as, may_be
from assetsync.core.states import Event
from assetsync.model import Asset, State

from .model_world import (
    GRACE,
    TAIL,
    Attempt,
    Broken,
    Look,
    Made,
    Scenario,
    Step,
    World,
    happen,
    label,
    owners,
    with_asset,
    with_attempt,
)

_NOW = 100.0
_WATCH = Watch(
    is_final=False,
    took=0.0,
    answered=False,
    since_end=0.0,
    before=Looked(),
    span=(0.0, 0.0),
    boot="now",
    slow=0.0,
    newest=1,
    sample=0,
    grace=float(GRACE),
    lag=0.0,
    read_timeout=0.0,
)
"""A look-up that is the first one for an attempt."""

_EVENTS = {
    Judgement.FOUND: Event.FOUND,
    Judgement.DAMAGED: Event.DAMAGED,
    Judgement.ABSENT: Event.ABSENT,
    Judgement.UNDECIDABLE: Event.UNDECIDABLE,
}


def looks_for(s: Scenario, w: World, a: Attempt) -> bool:
    """Whether a look-up is made for this attempt."""
    if a.flies:
        return "the grace begins after the attempt has ended" in s.without
    return w.rows[a.file].state is State.IN_DOUBT


def look_ends(s: Scenario, w: World, shown: tuple[bool, ...], words: str) -> Step:
    """Judge each doubt that the answered look-up was for, one after the other, and remember what it showed."""
    look = w.look
    assert look is not None
    pace = Pace(*w.pace).after(look.age)
    w = w._replace(look=None, pace=(int(pace.last), int(pace.least)))
    said = []
    for no in look.doubts:
        for a in (a for a in w.attempts if a.no == no):
            w, verdict = judged(s, w, a, look, shown)
            said.append(f"{label(a.file)}: {verdict}")
    return f"{words}: {', '.join(said) or 'nothing'}", w


def name_searched(s: Scenario, w: World, doubts: tuple[int, ...]) -> Step:
    """Continue the graces by a search that shows nothing: the asset may be there under another name."""
    w = w._replace(attempts=tuple(_continued(s, a) if a.no in doubts else a for a in w.attempts))
    if "a listing ends the grace" in s.without:
        for a in (a for a in w.attempts if a.no in doubts and a.grace is not None):
            doubt = Doubt(len(s.contents[a.file]), s.contents[a.file])
            verdict = decide(doubt, (), _grace_of(a), GRACE)
            w = w if verdict.judgement is Judgement.WAIT else ended(s, w, a, verdict)
    return "a search by name is answered", w


def _continued(s: Scenario, a: Attempt) -> Attempt:
    grace = _grace_of(a).continued(_NOW, _NOW, "now", GRACE / 2)
    return a._replace(grace=kept(s, grace) if grace.boot else None)


def judged(s: Scenario, w: World, a: Attempt, look: Look, shown: tuple[bool, ...]) -> tuple[World, str]:
    order = (look.began, w.posts)
    old = [i for i in range(len(shown)) if w.assets[i].age < s.lags or w.other >= 0]
    candidates = tuple(sight(s, w, a, each, order) for each in enumerate(shown) if each[0] not in old)
    for i in (i for i in range(len(shown)) if i not in old):
        if w.assets[i].seen is None and not owners(w, i):
            w = with_asset(w, i, w.assets[i]._replace(seen=order))
    grace = counted(s, a, look, w.pace[1])
    if s.half:
        a, grace = with_rounds(s, a, grace, look)
    if not is_newer(s, w, a):
        grace = Grace()
    if s.lags and (a.age is None or look.age > GRACE / 2):
        a = a._replace(age=0, newer=False)
    if a.flies:
        return with_attempt(w, a._replace(grace=kept(s, grace)), a.no), "counted"
    content = s.contents[a.file]
    handed = content[: a.handed] if a.handed >= 0 else None
    absences = w.rows[a.file].absences
    doubt = Doubt(len(content), content, bytes_sent=handed and len(handed), bytes_sent_md5=handed, absences=absences)
    if "what is not processed may be ours" in s.without:
        candidates = tuple(each for each in candidates if each.asset.processed)
    if "slow look-ups make the grace longer" in s.without:
        grace = replace(grace, slow=0)
    is_short = a.answered or "what left whole is waited for longer" in s.without
    late = 0 if is_short else s.late
    verdict = decide(doubt, candidates, grace, max(GRACE, late))
    if verdict.judgement is Judgement.WAIT:
        after = kept(s, grace) if verdict.counts_for_grace and grace.boot else None
        rounds = grace.rounds if after else 0
        return with_attempt(w, a._replace(grace=after, rounds=rounds), a.no), "wait"
    return ended(s, w, a, verdict), str(verdict.judgement)


@lru_cache(maxsize=200_000)
def decide(doubt: Doubt, candidates: tuple[Candidate, ...], grace: Grace, seconds: int) -> Verdict:
    """The real judgement; equal questions are asked once."""
    return judge(doubt, candidates, grace, float(seconds), 0.0)


def is_newer(s: Scenario, w: World, a: Attempt) -> bool:
    """The real rule for which look-ups count, by what the look-up shows of the control sample."""
    if "a look-up counts once it is newer" in s.without:
        return True
    shown = w.sample is not None and w.sample >= s.lags
    newer = shown and (a.newer or "a control sample begins after the end" in s.without)
    return is_current(a.age or 0, s.lags, int(newer))


@lru_cache(maxsize=1000)
def is_current(age: int, lags: int, sample: int) -> bool:
    """The real rule for a look-up that follows `age` seconds of answers without a gap."""
    look = replace(_WATCH, before=Looked(watched=Grace("now", 0.0, age)), span=(age, age), lag=lags, sample=sample)
    return look.is_current()


def sight(s: Scenario, w: World, a: Attempt, shown: tuple[int, bool], order: tuple[int, int]) -> Candidate:
    """What the resolver hands to the judgement about one asset."""
    i, processed = shown
    made = w.assets[i]
    asset = show(i, made.name, made.content, processed, s.gives_md5)
    size = asset.size or 0
    mine = s.names[a.file]
    sent = s.contents[a.file] + TAIL
    seen_from, seen_to = made.seen or order
    before = (seen_from if "before means before the attempt began" in s.without else seen_to) < a.no or made.explained
    competing_attempts = [r for r in w.attempts if r.no != a.no]
    named = any(is_others(mine, s.names[r.file], made.name) for r in competing_attempts)
    flying = any(
        r.flies and r.no <= seen_to and len(s.contents[r.file]) == size and asset.md5 in (None, s.contents[r.file])
        for r in competing_attempts
    )
    unsure = asset.md5 is None and not is_exactly(mine, made.name) and may_be(mine, made.name)
    unsure = unsure and (
        not is_shown_as(mine, made.name) or any(is_alike(s, a, r, made, seen_to) for r in competing_attempts)
    )
    renamed = s.renames and asset.md5 is None and not may_be(mine, made.name)
    if unsure and "a name that is not sure is no absence" in s.without:
        unsure, mine = False, "another name"
    prefix = sent[:size] if s.gives_md5 and 0 < size <= len(sent) and size != len(s.contents[a.file]) else None
    if "damage is proven" in s.without and asset.md5 is not None and size < len(s.contents[a.file]):
        prefix = asset.md5
    return Candidate(
        asset,
        owned="an owned asset is not adopted" not in s.without and bool(owners(w, i)),
        before="what was there before proves nothing" not in s.without and before,
        contested=(named and "a name points to its attempt" not in s.without)
        or (flying and "an unanswered attempt keeps its asset" not in s.without),
        named=may_be(mine, made.name),
        unsure=unsure and "a name of two uploads proves neither" not in s.without,
        renamed=renamed and "an upload may have been renamed" not in s.without,
        prefix=prefix,
    )


def is_alike(s: Scenario, a: Attempt, other: Attempt, made: Made, seen_to: int) -> bool:
    """Whether another open attempt of the same size and other content may have made what has such a name."""
    mine, theirs = s.contents[a.file], s.contents[other.file]
    alike = other.no <= seen_to and len(mine) == len(theirs) and mine != theirs
    return alike and is_shown_as(s.names[other.file], made.name)


@lru_cache(maxsize=1000)
def show(i: int, name: str, content: str, processed: bool, gives_md5: bool) -> Asset:
    """The row of a search answer."""
    return Asset(
        str(i), "F", name, len(content) if processed else 0, content if processed and gives_md5 else None, "img"
    )


def counted(s: Scenario, a: Attempt, look: Look, slow: int) -> Grace:
    """The grace after this look-up, by the real rule or by that rule with a part of it taken away."""
    before = _grace_of(a)
    boot = before.boot
    started, ended, now = _NOW - look.age, _NOW, "now"
    match s.without:
        case "an absence needs a grace":
            return Grace(now, _NOW - GRACE, _NOW)
        case "a gap begins the grace anew" if a.grace and boot == now:
            return Grace(now, before.first, max(before.last, started))
        case "a restart begins the grace anew" if a.grace:
            now = boot
        case "a look-up counts from when it was asked":
            started = ended
        case "waiting for an answer is a gap" if a.grace and boot == now and started - before.last <= GRACE / 2:
            return Grace(now, before.first, max(before.last, started))
        case _:
            pass
    return before.answered(started, ended, now, GRACE / 2, slow=slow)


def _grace_of(a: Attempt) -> Grace:
    boot, age, span, longer = a.grace or ("", 0, 0, 0)
    return Grace(boot, _NOW - age - span, _NOW - age, longer) if a.grace else Grace()


def with_rounds(s: Scenario, a: Attempt, grace: Grace, look: Look) -> tuple[Attempt, Grace]:
    """Count this round by the real rule, where a tick is a minute; the first ones of a boot are those of its clock."""
    old = a.old or 0
    started = _NOW - look.age
    grace = replace(grace, rounds=a.rounds, round_at=started - ROUNDS_APART * max(0, a.apart - look.age))
    if old >= s.half or "rounds count after half a day" in s.without:
        grace = grace.after_round(started, _NOW)
    return a._replace(old=old, apart=0 if grace.rounds > a.rounds else a.apart), grace


def kept(s: Scenario, grace: Grace) -> tuple[str, int, int, int]:
    """A grace as ages; a span beyond the grace is as good as the grace."""
    span = min(int(grace.last - grace.first), max(GRACE, s.late) + SLOW_GRACE * int(grace.slow))
    return grace.boot, int(_NOW - grace.last), span, int(grace.slow)


def ended(s: Scenario, w: World, a: Attempt, verdict: Verdict) -> World:
    """End a doubt as the verdict says."""
    f = a.file
    asset = int(verdict.assetid) if verdict.assetid is not None else -1
    event = _EVENTS[verdict.judgement]
    if verdict.judgement is Judgement.FOUND:
        w = happen(with_attempt(w, None, a.no), f, event, asset=asset, adopted=True)
        if "an adoption begins the grace of its equals anew" in s.without:
            return w
        # It may have been an equal attempt's asset, and this attempt's own may be the one that is still to come.
        equals = [other for other in w.attempts if s.contents[other.file] == s.contents[f]]
        for other in equals:
            answered = other.answered and (a.answered or "an adoption hands on what was not answered" in s.without)
            w = with_attempt(w, other._replace(grace=None, rounds=0, answered=answered), other.no)
        return w
    if asset >= 0:
        made = w.assets[asset]
        # Two files of the same bytes have the same beginnings: which of them was cut makes no difference to anybody.
        if made.file < 0 or s.contents[made.file] != s.contents[f] or made.content == s.contents[f]:
            raise Broken(f"asset {asset} is called damaged and is no cut of {label(f)}")
        w = with_asset(w, asset, made._replace(explained=True))
    if verdict.judgement is Judgement.UNDECIDABLE:
        return happen(with_attempt(w, a._replace(name_released=True), a.no), f, event)
    return happen(with_attempt(w, None, a.no), f, event, absences=w.rows[f].absences + 1)
