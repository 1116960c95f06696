"""A small world in which the in-doubt protocol (DESIGN section 4) can be explored to its end.

Two files go into one folder of a service that stores, hangs, cuts and forgets. What decides is the real code: `judge`,
`Grace`, `transition`, `is_others`, `may_be`; what stands around it here does what `flow` and `ledger` do, in the least
that matters. Contents are short texts that stand for their own MD5, time is counted in ticks, and only ages are kept,
so that the states are finite. Its values are `model_world`'s, its look-ups `model_lookups`'s; exploring it is
`test_doubt_model`'s.

Assumed of the service, and nothing else:

1. A request that ended without an answer is stored within the grace or never, or within what is waited for what left
   whole. The span does not run while the service hangs. A hang answers nothing; one of half a grace or less counts as
   slowness, which the span includes. Half a day after the first answered look-up nothing is stored any more, hang or
   not.
2. What is stored shows in the next look-up that the service reads for, perhaps not processed yet; or, where look-ups
   are old, in one that comes later by that.
3. One request makes one asset at most; a cut one makes a beginning of what was sent, or nothing.
4. Nobody but the attempt in doubt leaves exactly the beginning of its file under its name meanwhile: neither a person
   nor a late cut of an equal file. Nothing could tell such an asset from a cut of ours.
5. Where the service gives no MD5, nobody else stores a file of the same size under the same name meanwhile.
6. A key or an address that shows nothing of ours is in use for less than a grace at a time.

What happens beyond 4 and 5 is kept in sight by `LIMITS` in the test.
"""

from collections.abc import Iterator

from assetsync.core.doubt_grace import SLOW_GAP
from assetsync.core.states import Event
from assetsync.model import State

from .model_lookups import look_ends, looks_for, name_searched
from .model_world import (
    GAP,
    GRACE,
    TAIL,
    Attempt,
    Broken,
    Look,
    Made,
    Pending,
    Row,
    Scenario,
    Step,
    World,
    equal_contents,
    fault,
    happen,
    label,
    owners,
    with_asset,
    with_attempt,
)


def start(scenario: Scenario) -> World:
    """The world before anything was sent."""
    return World(tuple(Row(absences=scenario.absences) for _ in scenario.contents))


def steps(s: Scenario, w: World) -> Iterator[Step]:
    """Everything that can happen next, each with a sentence for the trace."""
    up = w.hung < 0
    more = w.faults < s.faults
    for f, row in enumerate(w.rows):
        # Where the files differ in nothing but their place, the first is sent first.
        if (
            row.state is State.QUEUED
            and w.posts < s.posts
            and free_name(s, w, f)
            and w.other < 0
            and (f <= w.posts or not equal_contents(s))
        ):
            yield begin(s, w, f)
        if row.state is State.BLOCKED and s.retries and more:
            yield from retried(s, w, f)
    for a in w.attempts:
        if a.flies:
            yield from flight(s, w, a, up=up)
    if up:
        for p in w.pending:
            for processed in (True, False) if s.processes else (True,):
                yield stored_late(s, w, p, processed=processed)
        for i, made in enumerate(w.assets):
            if not made.processed:
                yield f"asset {i} is processed", with_asset(w, i, made._replace(processed=True))
        if s.hangs and more and (w.pending or w.attempts):
            yield "the service hangs", fault(w)._replace(hung=0)
    elif w.hung >= GAP:
        yield "the service answers again", w._replace(hung=-1)
    for content in s.person if more else ():
        yield f"a person uploads “{content}”", fault(w)._replace(assets=(*w.assets, Made(s.names[0], content)))
    if w.look is None:
        doubts = tuple(a.no for a in w.attempts if looks_for(s, w, a))
        if doubts:
            look = Look(0, doubts, w.posts, tuple(made.processed for made in w.assets))
            yield "a look-up begins", w._replace(look=look)
            # Another key shows nothing of ours.
            if s.by_name and up and w.other < 0:
                yield name_searched(s, w, doubts)
        if s.lags and more and up:
            yield "another file is accepted", accepted_beside(w)
    elif up:
        yield look_ends(s, w, w.look.shown, "a look-up ends that was read when it began")
        now = tuple(made.processed for made in w.assets)
        if now != w.look.shown:
            yield look_ends(s, w, now, "a look-up ends that was read just now")
    if s.crashes and more and w.attempts:
        yield from crash(s, w)
    if s.keys and w.attempts and (more or w.other >= 0):
        yield from other_key(s, w)
    if w.other == GRACE - 1:
        return
    if w.pending or w.look or not up or any(a.grace or a.age is not None or a.old is not None for a in w.attempts):
        yield "a tick", tick(s, w)


def accepted_beside(w: World) -> World:
    """Let an upload of another file begin and be accepted: a sample for each attempt that is watched by now."""
    attempts = tuple(a._replace(newer=a.age is not None) for a in w.attempts)
    return fault(w)._replace(sample=0, attempts=attempts)


def free_name(s: Scenario, w: World, f: int) -> bool:
    """Whether no open attempt holds the name: one at a time in a folder."""
    if "one open attempt per name" in s.without:
        return True
    return all(a.name_released or s.names[a.file] != s.names[f] for a in w.attempts)


def begin(s: Scenario, w: World, f: int) -> Step:
    """Take an equal asset that was seen and belongs to nobody, else commit the intent and let the body go."""
    for i, made in enumerate(w.assets):
        equal = s.gives_md5 and made.seen and made.processed and made.content == s.contents[f]
        if equal and not owners(w, i) and not may_be_made_by_open(s, w, made):
            return f"{label(f)} takes asset {i} instead of sending", happen(w, f, Event.ADOPTED, asset=i, adopted=True)
    no = w.posts + 1
    w = w._replace(attempts=(*w.attempts, Attempt(no, f)), posts=no)
    return f"{label(f)} is sent, attempt {no}", happen(w, f, Event.BEGUN, last=no)


def may_be_made_by_open(s: Scenario, w: World, made: Made) -> bool:
    """Whether an open attempt, in flight or in doubt, may have made an asset that was seen."""
    if "an open attempt keeps its asset from the queue" in s.without:
        return False
    return any(s.contents[a.file] == made.content for a in w.attempts)


def flight(s: Scenario, w: World, a: Attempt, *, up: bool) -> Iterator[Step]:
    """What can become of a request that is under way."""
    f, content = a.file, s.contents[a.file]
    if a.stored >= 0:
        if up:
            yield f"attempt {a.no} is answered with asset {a.stored}", answered(s, w, a)
        yield f"the answer to attempt {a.no} is lost", lost(s, w, a, len(content))
        return
    if up:
        for processed in (True, False) if s.processes else (True,):
            after = put(s, w, a.no, f, content, processed=processed)
            after = with_attempt(after, a._replace(stored=len(w.assets)), a.no)
            yield f"the service stores attempt {a.no}{'' if processed else ', unprocessed'}", after
    if s.answers and up:
        failed = hanging(s, w, a, content, within=GRACE)
        yield f"the application answers that attempt {a.no} failed", lost(s, failed, a, len(content), answered=True)
    yield f"attempt {a.no} gets no answer", lost(s, hanging(s, w, a, content), a, len(content))
    for part in cuts(s, f):
        handed = min(len(content), max(len(part), len(content) - 1))
        yield f"attempt {a.no} is cut, “{part}” arrives", lost(s, hanging(s, w, a, part), a, handed)


def cuts(s: Scenario, f: int) -> tuple[str, ...]:
    """What may arrive of a request that is cut; behind the file only where one file is looked at closely."""
    content = s.contents[f]
    if not s.cuts:
        return ()
    return (content[:-1], content + TAIL) if len(s.contents) == 1 else (content[:-1],)


def hanging(s: Scenario, w: World, a: Attempt, content: str, *, within: int = 0) -> World:
    return w._replace(pending=(*w.pending, Pending(a.no, a.file, content, within or s.late or GRACE)))


def put(s: Scenario, w: World, no: int, f: int, content: str, *, processed: bool) -> World:
    made = Made(s.shows or s.names[f], content, f, no, processed)
    return w._replace(assets=(*w.assets, made))


def stored_late(s: Scenario, w: World, p: Pending, *, processed: bool) -> Step:
    after = put(s, w, p.no, p.file, p.content, processed=processed)
    after = after._replace(pending=tuple(other for other in w.pending if other is not p))
    what = "" if processed else ", unprocessed"
    return f"the service stores “{p.content}” of attempt {p.no} late as asset {len(w.assets)}{what}", after


def lost(s: Scenario, w: World, a: Attempt, handed: int, *, answered: bool = False) -> World:
    """No trustworthy answer: in doubt, unless that rule is taken away."""
    if "a lost answer is looked up" in s.without:
        w = with_attempt(w, None, a.no)
        return happen(w, a.file, Event.UNSENT)
    over = a.grace if "the grace begins after the attempt has ended" in s.without else None
    w = with_attempt(w, a._replace(flies=False, stored=-1, handed=handed, grace=over, answered=answered), a.no)
    return happen(w, a.file, Event.LOST)


def answered(s: Scenario, w: World, a: Attempt) -> World:
    """Record an accepted upload; an id that another row adopted belongs to this answer."""
    if "the answer wins over an adopter" not in s.without:
        for other in owners(w, a.stored):
            if not w.rows[other].adopted:
                raise Broken(f"two answers gave asset {a.stored}")
            w = disputed(w, other)
    w = with_attempt(w, None, a.no)
    return happen(w, a.file, Event.ACCEPTED, asset=a.stored, adopted=False)


def disputed(w: World, f: int) -> World:
    """Put an adopter in doubt again, its last attempt open and its name released; queued where it never sent."""
    if w.rows[f].last:
        w = with_attempt(w, Attempt(w.rows[f].last, f, flies=False, name_released=True), w.rows[f].last)
    return happen(w, f, Event.DISPUTED, asset=-1, adopted=False)


def retried(s: Scenario, w: World, f: int) -> Iterator[Step]:
    """A person lets a doubt be looked at again: its attempt must hold its name again, so that it waits for the name."""
    for a in (a for a in w.attempts if a.file == f):
        if "a retried doubt holds its name again" in s.without:
            yield f"a person retries {label(f)}", happen(fault(w), f, Event.RETRIED, absences=0)
        elif free_name(s, w, f):
            after = with_attempt(fault(w), a._replace(name_released=False), a.no)
            yield f"a person retries {label(f)}", happen(after, f, Event.RETRIED, absences=0)


def crash(s: Scenario, w: World, *, reboots: bool = True) -> Iterator[Step]:
    """Die: what was in flight is in doubt, how much of it left is unknown; the machine may have gone down too.

    In the same boot the next process goes on with the spans of the last.
    """
    ends = [fault(w)._replace(look=None, pace=(0, 0))]
    for a in (a for a in w.attempts if a.flies):
        now: list[World] = []
        for end in ends:
            arrived = [s.contents[a.file], *cuts(s, a.file)] if a.stored < 0 else [""]
            for content in arrived:
                after = hanging(s, end, a, content) if content else end
                if "the intent is committed before the body leaves" in s.without:
                    now.append(happen(with_attempt(after, None, a.no), a.file, Event.UNSENT))
                else:
                    now.append(lost(s, after, a, -1))
        ends = now
    for end in ends:
        late = "".join(f", “{p.content}” of attempt {p.no} may come" for p in end.pending if p not in w.pending)
        yield f"assetsync dies{late}", end
        if reboots and any(a.grace or a.age is not None for a in end.attempts):
            yield f"the machine restarts{late}", end._replace(attempts=tuple(rebooted(s, a) for a in end.attempts))


def rebooted(s: Scenario, a: Attempt) -> Attempt:
    """The new clock may stand anywhere; where the last look-up was is the worst for one that is not told apart."""
    if a.age is not None:
        keeps = "a restart begins the lag anew" in s.without
        a = a._replace(age=s.lags if keeps else None, newer=a.newer and keeps)
    return a._replace(grace=a.grace and ("before", 0, *a.grace[2:]), apart=0)


def other_key(s: Scenario, w: World) -> Iterator[Step]:
    """End the process, and begin one with another key, or with its own again: the spans begin anew, by that rule."""
    if w.other >= 0:
        words, ends = "assetsync is started with its own key", [w._replace(look=None, pace=(0, 0), other=-1)]
    else:
        words, ends = "assetsync is started with another key", [end for _, end in crash(s, w, reboots=False)]
        ends = [end._replace(other=0) for end in ends]
    for end in ends:
        if "another key begins the span anew" not in s.without:
            fresh = (a._replace(grace=None, age=None, newer=False, rounds=0) for a in end.attempts)
            end = end._replace(attempts=tuple(fresh))  # noqa: PLW2901
        yield words, end


def tick(s: Scenario, w: World) -> World:
    """Let time pass; a look-up that gets no answer is given up in time."""
    pending = w.pending
    hung = w.hung
    if hung >= 0:
        hung = min(hung + 1, GAP)
    else:
        pending = tuple(p._replace(left=p.left - 1) for p in pending if p.left > 1)
    # Half a day is longer than any hang.
    done = {a.no for a in w.attempts if s.half and a.old is not None and a.old + 1 >= s.half}
    pending = tuple(p for p in pending if p.no not in done)
    look = w.look and (w.look._replace(age=w.look.age + 1) if w.look.age < s.waits else None)
    # An age beyond the longest gap that there may be is as good as that gap.
    most = GAP + SLOW_GAP * w.pace[0]
    attempts = tuple(
        a._replace(grace=(a.grace[0], min(a.grace[1] + 1, most), *a.grace[2:])) if a.grace else a for a in w.attempts
    )
    if s.lags:
        w = w._replace(
            sample=None if w.sample is None else min(w.sample + 1, s.lags),
            assets=tuple(made._replace(age=min(made.age + 1, s.lags)) for made in w.assets),
        )
        attempts = tuple(a if a.age is None else a._replace(age=min(a.age + 1, s.lags)) for a in attempts)
    if s.half:
        attempts = tuple(
            a._replace(old=None if a.old is None else min(a.old + 1, s.half), apart=min(a.apart + 1, 1 + s.waits))
            for a in attempts
        )
    other = w.other + 1 if w.other >= 0 else -1
    return w._replace(pending=pending, hung=hung, look=look, attempts=attempts, other=other)


def broken(s: Scenario, w: World) -> str:
    """Name the invariant that does not hold in a state, or give nothing."""
    for f, content in enumerate(s.contents):
        # Where neither content nor name tells two files apart, which asset is whose cannot be told: only the number.
        who = [g for g in range(len(s.contents)) if g == f or (s.shows and s.contents[g] == content)]
        there = sum(made.file in who and made.content == content for made in w.assets)
        may_come = sum(p.file in who and p.content == content for p in w.pending)
        under_way = sum(a.file in who and a.flies and a.stored < 0 for a in w.attempts)
        if there + may_come + under_way > len(who):
            return f"{label(f)} is sent although an earlier attempt is stored or may still be"
        if w.rows[f].asset >= 0 and w.assets[w.rows[f].asset].content != content:
            return f"{label(f)} holds an asset of other content"
    held = [row.asset for row in w.rows if row.asset >= 0]
    return "two rows hold one asset" if len(set(held)) < len(held) else ""


def at_peace(s: Scenario, w: World, *, late: bool) -> World:
    """The same world when all that is under way has ended well and nothing else goes wrong.

    `late` says whether what may still be stored is, or never comes. Each grace begins anew.
    """
    w = w._replace(hung=-1, look=None, faults=s.faults, other=-1)
    for p in w.pending if late else ():
        w = stored_late(s, w, p, processed=True)[1]
    w = w._replace(
        pending=(), assets=tuple(made if made.processed else made._replace(processed=True) for made in w.assets)
    )
    for a in w.attempts:
        if a.flies:
            if a.stored < 0:
                a = a._replace(stored=len(w.assets))  # noqa: PLW2901
                w = put(s, w, a.no, a.file, s.contents[a.file], processed=True)
            w = answered(s, w, a)
    return w._replace(
        attempts=tuple(
            a._replace(grace=None, age=None, rounds=0) if a.grace or a.age is not None or a.rounds else a
            for a in w.attempts
        )
    )


def calm(s: Scenario, w: World) -> World | None:
    """One round in a world at peace, or None when each file is stored or blocked."""
    if all(row.state in (State.STORED, State.BLOCKED) for row in w.rows):
        return None
    for f, row in enumerate(w.rows):
        if row.state is State.QUEUED and free_name(s, w, f):
            return at_peace(s, begin(s, w, f)[1], late=True)
    doubts = tuple(a.no for a in w.attempts if looks_for(s, w, a))
    if doubts:
        shown = tuple(made.processed for made in w.assets)
        w = look_ends(s, w._replace(look=Look(0, doubts, w.posts, shown)), shown, "")[1]
    return tick(s, w)
