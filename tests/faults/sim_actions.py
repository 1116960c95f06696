"""The actions of a schedule: each does one thing to the tree, the service, the clock or the program.

An action that makes no sense where it comes (a file that is not there, a worker that is busy) does nothing, so that a
schedule may lose any of its actions and still run.
"""

from assetsync.model import State

from .sim_schedule import Action
from .sim_tree import CONTENTS, FOLDERS
from .sim_values import Plan
from .simulation import Simulation


class Actions:
    """Acts on one simulation."""

    def __init__(self, simulation: Simulation) -> None:
        self._sim = simulation

    def do(self, action: Action) -> None:
        """Carry out one action, and see whether everything still holds."""
        done = getattr(self, f"_{action.name}")(*action.values)
        if done is not False:
            self._sim.trace.append(f"          ---- {action}")
        self._sim.clock.advance(0.05)
        self._sim.checks.always()

    def _file(self, verb: str, path: str, value: object) -> bool:
        values = (value,) if value is not None else ()
        if verb == "write":
            values = (CONTENTS[value],)  # type: ignore[index]
        held = self._sim.files.held
        before = {path: held[path] for path in self._sim.prepared.values() if path in held}
        done = getattr(self._sim.files, verb)(path, *values)
        for gone, content in before.items():
            if held.get(gone) != content:
                self._sim.checks.may_come_again(FOLDERS[gone[0]], content)
        self._sim.last_path = value if verb in ("rename", "link", "copy") else path  # type: ignore[assignment]
        return done is not False

    def _many(self, first: int, count: int) -> None:
        """Let many files of unlike content come at once, as many for one folder of the service as for the other."""
        for number in range(first, first + count):
            folder = "acbc"[number % 4]
            self._sim.files.write(f"{folder}/{number}.bin", b"%d " % number * (1 + number % 7))

    def _record(self) -> None:
        self._sim.recording.goes_on = True
        self._sim.recording.write()
        self._sim.guarded(self._sim.look, "look")

    def _hint(self) -> None:
        last = self._sim.last_path
        for path in (last, f"{last}.yaml", *([f"{last}.xmp"] if last in self._sim.files.xmp_files else [])):
            self._sim.watch_queue.add(path.encode())
        self._sim.guarded(self._sim.look, "look")

    def _send(self, marks: int) -> bool:
        return self._sim.send(marks)

    def _read_back(self, marks: int) -> bool:
        return self._sim.start("read-back", self._sim.read_back, marks)

    def _scan(self, marks: int) -> bool:
        return self._sim.start("scan", self._sim.scan, marks)

    def _audit(self, marks: int) -> bool:
        return self._sim.start("read-back", self._sim.audit, marks)

    def _go(self, which: int, marks: int) -> bool:
        busy = self._sim.baton.busy()
        if not busy:
            return False
        fiber = busy[which % len(busy)]
        self._sim.guarded(lambda: fiber.resume(marks), fiber.name)
        return True

    def _wait(self, seconds: float) -> None:
        self._sim.clock.advance(seconds)

    def _live(self, seconds: int) -> None:
        """Let everything that does not stand still do its work for so long."""
        for _ in range(seconds):
            self._sim.clock.advance(1.0)
            self._sim.guarded(self._sim.look, "look")
            self._sim.send_all()
            self._sim.start("read-back", self._sim.read_back, 1_000)

    def _plan(self, kind: str, at: int, late: float, flag: bool) -> None:
        self._sim.service.plans.append(Plan(kind, at, late, flag))

    def _crash(self, marks: int, reboot: bool) -> None:
        if marks == 0:
            self._sim.die(reboot=reboot, why="between two steps")
        else:
            self._sim.crash_in, self._sim.crash_reboots = marks, reboot

    def _back_up(self) -> None:
        self._sim.back_up()

    def _put_back(self) -> None:
        self._sim.put_back(lost=False)

    def _lose_ledger(self) -> None:
        self._sim.put_back(lost=True)

    def _take_snapshot(self) -> None:
        self._sim.take_snapshot()

    def _roll_back(self) -> None:
        self._sim.roll_back()

    def _jump(self, seconds: float) -> None:
        self._sim.clock.jump(seconds)

    def _disk_full(self, commits: int) -> None:
        self._sim.full_commits = commits

    def _silence(self, hangs: bool) -> None:
        self._sim.service.fall_silent(hangs=hangs)

    def _speak(self) -> None:
        self._sim.service.speak_again()

    def _key(self, refused: bool) -> None:
        self._sim.service.key_refused = refused

    def _break_searches(self, count: int) -> None:
        self._sim.service.broken_searches = count

    def _blind(self, folder: str, to: str) -> None:
        """Let a folder show `nothing`, or the rows of `others`, or ("") what is there.

        Nothing else goes wrong meanwhile: whether an upload whose answer is lost is in such a folder, nobody can tell.
        """
        service = self._sim.service
        service.plans.clear()
        service.blind.pop(folder, None)
        if to:
            service.blind[folder] = to
        if to and not any(asset.folder != folder for asset in service.shown() if to == "others"):
            self._sim.checks.blinded(folder)

    def _resume(self) -> None:
        self._sim.guarded(lambda: self._sim.person("resume", {}), "resume")

    def _pause(self, path: str, seconds: float | None) -> None:
        self._sim.pauses.begin(path, seconds)

    def _end_pause(self, path: str | None) -> None:
        self._sim.pauses.end(path)

    def _upgrade(self) -> None:
        self._sim.upgrade()

    def _without_sidecar(self, path: str) -> bool:
        if path not in self._sim.files.held:
            return False
        self._sim.undescribed.add(path)
        given = {"paths": [path.encode().hex()]}
        return self._sim.guarded(lambda: self._sim.person("without_sidecar", given), "without sidecar")

    def _retry(self) -> None:
        self._sim.retried += 1
        self._sim.guarded(lambda: self._sim.person("retry", {}), "retry")

    def _upload_by_hand(self, path: str, equal: bool) -> bool:
        content = self._sim.files.held.get(path)
        if not content:
            return False
        mine = content if equal else b"a person's " + path.encode()
        if equal and content in (CONTENTS[0], CONTENTS[4]):
            # Exactly the beginning of another file is what nothing could tell from a cut of that one.
            return False
        asset = self._sim.service.person(FOLDERS[path[0]], path[2:], mine)
        self._sim.note(f"PERSON uploads {asset.id[-3:]} as {path[2:]}")
        return True

    def _hand_begin(self, path: str) -> bool:
        return self._sim.hand.begin(path)

    def _hand_post(self) -> bool:
        return self._sim.hand.post()

    def _hand_end(self) -> bool:
        return self._sim.hand.end()

    def _hand_kill(self) -> bool:
        return self._sim.hand.kill()

    def _curate(self, verb: str, which: int, folder: str) -> bool:
        asset = self._sim.service.curate(verb, which, folder)
        if asset is None:
            return False
        if verb == "delete":
            self._sim.checks.may_come_again(asset.made_in, asset.content)
        self._sim.note(f"PERSON {verb}s {asset.id[-3:]}, {asset.name}, to {asset.folder}")
        return True

    def _finish(self, which: int) -> bool:
        asset = self._sim.service.finish(which)
        if asset is None:
            return False
        self._sim.note(f"SERVICE processes {asset.id[-3:]}, {asset.name}, late")
        return True

    def _send_again(self, path: str) -> bool:
        rows = self._sim.site.context.ledger.reports.of_path(path.encode())
        if not rows or rows[0].state not in (State.BLOCKED, State.IN_DOUBT, State.STORED, State.VERIFIED):
            return False
        self._sim.checks.allow(rows[0])
        self._sim.retried += 1
        self._sim.guarded(
            lambda: self._sim.person("retry", {"paths": [path.encode().hex()], "send_again": True}), "send again"
        )
        return True

    def _settle_doubt(self, path: str) -> bool:
        """A person says what became of a doubt, and says the truth."""
        rows = self._sim.site.context.ledger.reports.of_path(path.encode())
        if not rows or rows[0].state not in (State.BLOCKED, State.IN_DOUBT):
            return False
        truth = self._sim.checks.truth_of(rows[0])
        if truth == "unknown":
            return False
        self._sim.guarded(lambda: self._sim.person("doubt", {"path": path.encode().hex(), "asset": truth}), "doubt")
        return True
