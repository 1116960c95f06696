"""The protocol with one rule taken away at a time: what the simulation must be able to find.

Each mutant replaces a function of the program while a schedule runs. What stands here is deliberately wrong.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from assetsync import app
from assetsync.core import doubt_grace
from assetsync.core import metadata as core_metadata
from assetsync.core import outcome as core_outcome
from assetsync.core.doubt_grace import Grace, Watch
from assetsync.core.gate import DoubtLimits
from assetsync.core.metadata import Sendable
from assetsync.core.pauses import OperatorPause
from assetsync.core.read_back import Unprocessed
from assetsync.core.settled import Rest
from assetsync.errors import BadAnswer
from assetsync.ledger import attempts, doubts, equal_content, ledger, pauses
from assetsync.ledger.assets import Assets
from assetsync.ledger.equal_content import EqualContent
from assetsync.ledger.file import schema
from assetsync.ledger.file.database import Database
from assetsync.ledger.folders import FolderListings
from assetsync.ledger.metadata_drift import MetadataDrift
from assetsync.model import Answer, Fault, Outcome, SentExtent
from assetsync.service import uploads
from assetsync.service.paging import WholeSearch, every
from assetsync.sync import lookup_gates
from assetsync.sync.doubts import candidates
from assetsync.sync.doubts.resolver import Resolver
from assetsync.sync.observer import FolderContents, Observer
from assetsync.sync.readback import missing
from assetsync.sync.readback.sent_metadata import SentMetadata
from assetsync.sync.readback.verifier import Verifier
from assetsync.sync.upload import by_hand
from assetsync.sync.upload import decide as decision
from assetsync.sync.upload.dedupe import Dedupe
from assetsync.sync.upload.facts import FieldShown
from assetsync.sync.upload.folder_listing import FolderListing
from assetsync.sync.upload.kinds import NewFields
from assetsync.sync.upload.limits import SizeLimit
from assetsync.sync.upload.prepare import Preparer
from assetsync.sync.upload.queue import UploadQueue

Patch = pytest.MonkeyPatch


def no_grace(patch: Patch) -> None:
    """Believe the first look-up that shows nothing."""
    patch.setattr(Grace, "over", lambda self, _seconds: bool(self.boot))


def a_look_up_follows_at_once(patch: Patch) -> None:
    """Look up a doubt four times a second until it is decided."""
    patch.setattr(Resolver, "_pause", lambda _self, _looks, _gap: 0.25)


def grace_from_the_attempt(patch: Patch) -> None:
    """Let the grace run from the beginning of the attempt and not from its end."""
    watch = Resolver._watch

    def early(self, one):
        made = watch(self, one)
        if made.before.grace.boot:
            return made
        began = one.doubt.attempt.started_at - self._clock.now() + self._clock.steady()
        return replace(made, before=replace(made.before, grace=Grace(made.boot, began, made.span[0])))

    patch.setattr(Resolver, "_watch", early)


def a_gap_is_bridged(patch: Patch) -> None:
    """Let a grace run on through a time in which nothing was answered."""
    answered = Grace.answered

    def bridging(self, started, ended, boot, _gap, **said):
        return answered(self, started, ended, boot, 1e9, **said)

    patch.setattr(Grace, "answered", bridging)


def slow_look_ups_are_gaps(patch: Patch) -> None:
    """Take look-ups that take long for a service that hangs, each of them anew."""
    patch.setattr(doubt_grace, "SLOW_GAP", 0)


def a_restart_keeps_the_grace(patch: Patch) -> None:
    """Compare steady times of different boots."""
    answered = Grace.answered

    def across(self, started, ended, boot, gap, **said):
        kept = (
            replace(self, boot=boot, first=min(self.first, ended), last=min(self.last, started)) if self.boot else self
        )
        if self.boot and self.boot != boot:
            kept = replace(kept, first=ended - 2 * gap, last=started)
        return answered(kept, started, ended, boot, gap, **said)

    patch.setattr(Grace, "answered", across)


def a_cut_is_unsent(patch: Patch) -> None:
    """Take a body of which a part left for one that never left."""
    read = core_outcome.read_silence

    def believing(left, problem, **said):
        return read(SentExtent.NOTHING if left is SentExtent.PART else left, problem, **said)

    patch.setattr(uploads, "read_silence", believing)


def a_cut_is_accepted(patch: Patch) -> None:
    """Believe a success that came before the whole body had left."""
    read = core_outcome.read_upload_answer
    patch.setattr(uploads, "read_upload_answer", lambda reply, _left, **said: read(reply, SentExtent.ALL, **said))


def sent_again_after_5xx(patch: Patch) -> None:
    """Take an error of the server for a refusal before anything was stored."""
    read = core_outcome.read_upload_answer

    def retrying(reply, left, **said):
        if reply.status >= 500:
            return Outcome(Answer.UNSENT, reason="http_status", detail="again", fault=Fault.SERVICE)
        return read(reply, left, **said)

    patch.setattr(uploads, "read_upload_answer", retrying)


def no_ownership(patch: Patch) -> None:
    """Adopt an asset that is another file's."""
    patch.setattr(doubts.Doubts, "owned", lambda _self, _ids: set())
    may_be_decided = doubts._may_be_decided

    def always(conn, doubt, verdict):
        return may_be_decided(conn, doubt, replace(verdict, assetid=None))

    patch.setattr(doubts, "_may_be_decided", always)


def no_exclusive_names(patch: Patch) -> None:
    """Let several attempts of one name into one folder be open at once."""
    whole = schema.statements

    def without(script):
        return [statement for statement in whole(script) if "attempts_open_name" not in statement]

    patch.setattr(schema, "statements", without)
    rows = Database.rows
    exclusive = (
        " AND NOT EXISTS (SELECT 1 FROM attempts a WHERE a.destfolderid = f.destfolderid"
        "   AND a.folded_name = f.folded_name AND a.closed_at IS NULL AND a.name_released = 0)"
    )
    patch.setattr(Database, "rows", lambda self, sql, *values: rows(self, sql.replace(exclusive, ""), *values))

    class NoNames(set):
        def add(self, _name):
            """Take no name for one in use."""

    made = UploadQueue.__init__

    def without_names(self, *args, **said):
        made(self, *args, **said)
        self._names = NoNames()

    patch.setattr(UploadQueue, "__init__", without_names)


def no_look_at_the_old_path(patch: Patch) -> None:
    """Take an equal version over although its path still holds it."""
    patch.setattr(Dedupe, "still_holds", lambda _self, _old: False)


def the_intent_comes_late(patch: Patch) -> None:
    """Let a crash forget what was on its way."""
    from assetsync.core.states import Event
    from assetsync.ledger.attempts import AttemptResults
    from assetsync.ledger.rows import apply

    def forgetful(self, now):
        def work(conn):
            flying = conn.execute("SELECT id FROM files WHERE state = 'sending'").fetchall()
            for row in flying:
                conn.execute("DELETE FROM attempts WHERE file_id = ? AND closed_at IS NULL", (row[0],))
                apply(conn, row[0], Event.UNSENT, now)
            return len(flying)

        return self._store.write(work)

    patch.setattr(AttemptResults, "recover", forgetful)


def history_may_be_damage(patch: Patch) -> None:
    """Take the asset of a file as it was for a cut of what it has grown to."""
    patch.setattr(Assets, "history", lambda _self, _ids: {})


def a_beginning_is_proof(patch: Patch) -> None:
    """Take the beginning of a file for what its own cut left, whoever else may have left it."""
    patch.setattr(candidates, "_may_have_begun", lambda *_: False)


def what_is_over_has_left_nothing(patch: Patch) -> None:
    """Let uploads that were taken for absent leave nothing that comes to light later."""
    known = doubts.Doubts.competing_attempts
    patch.setattr(
        doubts.Doubts, "competing_attempts", lambda self, attempt: [r for r in known(self, attempt) if not r.waived]
    )


def no_take_over(patch: Patch) -> None:
    """Send what was moved, touched or restored once more."""
    patch.setattr(EqualContent, "equals", lambda _self, _row, _md5: [])


def a_sidecar_is_only_read(patch: Patch) -> None:
    """Let the ledger know only those sidecars that a scan or a hint has met."""
    patch.setattr(app, "note_sidecar", lambda _context, _plan, _cache, _path: None)


def a_change_after_the_look_is_not_told(patch: Patch) -> None:
    """Take what was said of a file when it was prepared for what was said when it left."""
    patch.setattr(Preparer, "sidecars_changed", lambda _self, _ready: False)


def what_is_to_be_replaced_is_taken(patch: Patch) -> None:
    """Let an upload that a person asked for be found in the asset that it was to replace."""
    known = Assets.history

    def but_replaced(self, assetids):
        rows = self._store.rows("SELECT assetid FROM assets WHERE why = 'replaced'")
        replaced = {row[0] for row in rows}
        return {assetid: digests for assetid, digests in known(self, assetids).items() if assetid not in replaced}

    patch.setattr(Assets, "history", but_replaced)


def what_a_folder_does_not_show_is_missing(patch: Patch) -> None:
    """Call an asset missing without looking for it in other folders."""
    patch.setattr(missing._Case, "look", lambda self, unmet: self.count(unmet))


def a_copy_is_believed(patch: Patch) -> None:
    """Take a ledger that was put back, or that a crash left, for one that knows all that was sent."""
    write = ledger.set_fact

    def but_where_to_look(conn, name, value):
        if name != "listed_from":
            write(conn, name, value)

    patch.setattr(ledger, "set_fact", but_where_to_look)


def changes_are_forgotten(patch: Patch) -> None:
    """Send a file as soon as it has settled, however often changes have cut it off."""
    patch.setattr(decision, "rest_after", lambda _uploads, settle, _now: Rest(settle))


def names_are_taken_for_kept(patch: Patch) -> None:
    """Look for a lost upload under the name that was sent, whatever the service makes of names."""
    patch.setattr(doubts.Doubts, "may_rename", lambda _self, _folder: False)


def only_whole_names_resemble(patch: Patch) -> None:
    """Take no name that came back as question marks for that of a file."""
    patch.setattr(equal_content, "is_shown_as", lambda sent, shown: sent.casefold() == shown.casefold())


def a_name_of_two_is_proof(patch: Patch) -> None:
    """Take the first asset whose name may be the one sent for the upload."""
    patch.setattr(candidates, "is_unsure", lambda *_: False)


def a_look_up_is_as_new_as_it_looks(patch: Patch) -> None:
    """Let each look-up count for an absence, however old a state it shows."""
    patch.setattr(Watch, "is_current", lambda _self: True)


def any_upload_is_a_control_sample(patch: Patch) -> None:
    """Take a look-up that shows what was sent before the attempt for one that is newer."""
    shown = Observer.shown_sample
    patch.setattr(Observer, "shown_sample", lambda self, _since: shown(self, [0]) and 1_000_000)


def a_gateway_timeout_is_an_end(patch: Patch) -> None:
    """Wait for what left whole for no longer than for all else."""
    patch.setattr(doubt_grace, "grace_of_whole", lambda seconds, *_, **__: seconds)


def a_clean_stop_needs_no_confirmation(patch: Patch) -> None:
    """Take the last clean stop that the ledger knows for the last there was."""
    patch.setattr(ledger, "_confirms", lambda kept, known: True)


def an_unanswered_look_up_counts(patch: Patch) -> None:
    """Take a look-up that failed for one that was answered and showed nothing."""
    read = Resolver._read

    def believing(self, looking, assets, folder):
        if read(self, looking, assets, folder) is not None:
            now = self._clock.steady()
            for one in looking:
                one.span = (one.span[0] or now, now)

    patch.setattr(Resolver, "_read", believing)


def a_failed_search_is_not_repeated(patch: Patch) -> None:
    """Take a search that failed once for one that goes on failing."""
    patch.setattr(lookup_gates, "_REPEATS", 0)


def a_round_is_thrown_away_whole(patch: Patch) -> None:
    """Decide no doubt of a folder for which one look-up of the round failed, and put it off longer each time."""
    folder, judge_all, read = Resolver._folder, Resolver._judge_all, Resolver._read
    judged, failed = [], []

    def remembering(self, looking, assets, destfolderid):
        failure = read(self, looking, assets, destfolderid)
        failed.extend([failure] if failure is not None else [])
        return failure

    def whole(self, destfolderid, doubts):
        judged.clear()
        failed.clear()
        looking, failure = folder(self, destfolderid, doubts)
        if not failed:
            for answered in judged:
                judge_all(self, destfolderid, answered)
            return looking, failure
        for one in looking:
            one.is_answered = False
        return looking, replace(failed[-1], is_passing=False)

    patch.setattr(Resolver, "_judge_all", lambda _self, _folder, answered: judged.append(answered))
    patch.setattr(Resolver, "_read", remembering)
    patch.setattr(Resolver, "_folder", whole)


def a_capped_list_is_whole(patch: Patch) -> None:
    """Believe that a list shows everything, whatever total it states."""
    patch.setattr(FolderContents, "incomplete", None)


def a_long_list_is_whole(patch: Patch) -> None:
    """Believe a list that states no total, however long it is."""
    patch.setattr(FolderContents, "may_be_cut", property(lambda _: False, lambda _, __: None), raising=False)


def pages_never_slip(patch: Patch) -> None:
    """Believe the first reading of a list that came in several pages."""
    patch.setattr(WholeSearch, "__iter__", lambda self: every(self._search, self._request))


def a_list_of_another_folder_is_empty(patch: Patch) -> None:
    """Take a list of other folders for one that shows nothing."""

    every_row = FolderContents._part

    def ours(self, available):
        try:
            yield from every_row(self, available)
        except BadAnswer:
            return

    patch.setattr(FolderContents, "_part", ours)


def an_empty_list_is_believed(patch: Patch) -> None:
    """Send all files into a folder whose first list was empty, whether a list shows the first of them or not."""
    patch.setattr(FolderListings, "accepted", lambda _self, _folder: None)


def an_empty_folder_proves_absence(patch: Patch) -> None:
    """Send each file again that a folder does not show, although it has never shown anything of ours."""
    patch.setattr(FolderListing, "_may_go_again", lambda _self, _row, _absent: True)


def what_was_asked_is_sent_unseen(patch: Patch) -> None:
    """Send a file again because a person asked for it once, whatever its folder shows by now."""
    patch.setattr(EqualContent, "unconfirmed", lambda *_given: None)


OF_FALSE_LISTS: tuple[Callable[[Patch], None], ...] = (
    a_capped_list_is_whole,
    a_long_list_is_whole,
    pages_never_slip,
    an_empty_list_is_believed,
    what_was_asked_is_sent_unseen,
)
"""Those that show where lists are false and a ledger was lost or put back."""

MUTANTS: tuple[Callable[[Patch], None], ...] = (
    an_empty_folder_proves_absence,
    no_grace,
    grace_from_the_attempt,
    a_gap_is_bridged,
    slow_look_ups_are_gaps,
    a_restart_keeps_the_grace,
    a_cut_is_unsent,
    a_cut_is_accepted,
    sent_again_after_5xx,
    no_ownership,
    no_exclusive_names,
    no_look_at_the_old_path,
    the_intent_comes_late,
    history_may_be_damage,
    no_take_over,
    a_look_up_follows_at_once,
)

OF_SIMILAR: tuple[Callable[[Patch], None], ...] = (a_beginning_is_proof, what_is_over_has_left_nothing)
"""Those that show where two files begin alike, and hardly elsewhere."""

OF_LAGGING: tuple[Callable[[Patch], None], ...] = (a_look_up_is_as_new_as_it_looks, any_upload_is_a_control_sample)
"""Those that show where look-ups lag."""

OF_SIDECARS: tuple[Callable[[Patch], None], ...] = (
    a_sidecar_is_only_read,
    a_change_after_the_look_is_not_told,
    what_is_to_be_replaced_is_taken,
)
"""Those that show in what the service was told of the files."""

OF_CURATED: tuple[Callable[[Patch], None], ...] = (what_a_folder_does_not_show_is_missing,)
"""Those that show where people work on the assets in the service."""

OF_NAMELESS: tuple[Callable[[Patch], None], ...] = (
    names_are_taken_for_kept,
    only_whole_names_resemble,
    a_name_of_two_is_proof,
)
"""Those that show where the service gives no MD5 and changes names."""


def a_running_command_is_taken_for_ended(patch: Patch) -> None:
    """Put in doubt at a start what a running `assetsync upload` sends."""
    patch.setattr(attempts, "is_sent_by_hand", lambda _path, _boundary: False)


def equal_content_is_sent_by_hand(patch: Patch) -> None:
    """Send by hand what the folder holds, or may hold, as another version or asset."""
    patch.setattr(by_hand, "_by_equal", lambda _ledger, _hand, _row, _now: None)


def what_is_never_processed_is_sent_again(patch: Patch) -> None:
    """Upload a file again by itself once its asset counts as never processed."""
    not_processed = Verifier._not_processed

    def sending(self, change, now):
        change = not_processed(self, change, now)
        if change.event is not None:
            self._ledger.decisions.send_again(change.row, now)
        return change

    patch.setattr(Verifier, "_not_processed", sending)


def what_is_never_processed_is_waited_for(patch: Patch) -> None:
    """Wait for ever until the service has processed an accepted upload."""
    patch.setattr(Unprocessed, "is_never", lambda *_: False)


def what_was_sent_is_not_compared(patch: Patch) -> None:
    """Take the metadata that was sent for the service's."""
    patch.setattr(SentMetadata, "look", lambda _self, assets: iter(assets))


def a_finding_is_read_away(patch: Patch) -> None:
    """Let a new reading of the drift end what the service did not keep."""
    read = MetadataDrift.read

    def forgetting(self, found, *, still):
        read(self, found, still=still)
        self._store.change_each("UPDATE files SET differs = NULL WHERE id = ?", [(one.row.id,) for one in found])

    patch.setattr(MetadataDrift, "read", forgetting)


def all_metadata_is_sent(patch: Patch) -> None:
    """Send each field as it is written."""
    patch.setattr(core_metadata, "sendable", lambda fields, *_said: Sendable(tuple(fields)))


OF_REFUSED: tuple[Callable[[Patch], None], ...] = (all_metadata_is_sent,)
"""Those that show where the service refuses metadata."""


def all_try_a_new_field(patch: Patch) -> None:
    """Send every file with a new field at once."""
    patch.setattr(NewFields, "first_before", lambda _self, _row, _fields, _digest: FieldShown())


OF_FIELDS: tuple[Callable[[Patch], None], ...] = (all_try_a_new_field,)
"""Those that show where the service lacks a custom field."""

OF_OWN: tuple[Callable[[Patch], None], ...] = (what_was_sent_is_not_compared, a_finding_is_read_away)
"""Those that show where files keep their own metadata."""

OF_STUCK: tuple[tuple[Callable[[Patch], None], str], ...] = (
    (what_is_never_processed_is_sent_again, "times by us"),
    (what_is_never_processed_is_waited_for, "I7"),
)
"""Those that show where the service leaves uploads unprocessed, and what each breaks."""


def paused_files_are_sent(patch: Patch) -> None:
    """The queue asks for no pauses."""
    patch.setattr(pauses.Pauses, "in_force", lambda _self, _clock: ())


def pause_follows_the_wall_clock(patch: Patch) -> None:
    """A pause is counted on no clock but the one that is set back."""
    patch.setattr(OperatorPause, "counted", lambda self, _now, steady, boot: self._replace(steady=steady, boot=boot))


def pause_is_kept_in_memory(patch: Patch) -> None:
    """A pause ends with the process."""
    patch.setattr(pauses.Pauses, "_write", lambda self, left: setattr(self, "_known", tuple(left)))


OF_PAUSES: tuple[Callable[[Patch], None], ...] = (
    paused_files_are_sent,
    pause_follows_the_wall_clock,
    pause_is_kept_in_memory,
)
OF_BY_HAND: tuple[Callable[[Patch], None], ...] = (a_running_command_is_taken_for_ended, equal_content_is_sent_by_hand)
"""Those that show only where files are uploaded by hand."""


def an_answered_500_is_no_answer(patch: Patch) -> None:
    """Wait after the application's own 500 as long as after a lost answer."""
    read = core_outcome.read_upload_answer
    patch.setattr(
        uploads,
        "read_upload_answer",
        lambda reply, left, **said: read(reply, left, **said)._replace(answered=False),
    )


def accepted_uploads_allow_no_doubts(patch: Patch) -> None:
    """Stop at the least limit on doubts, however many uploads are accepted."""
    made = DoubtLimits.of
    patch.setattr(
        DoubtLimits,
        "of",
        lambda doubts, accepted, folders, **others: made(doubts, dict.fromkeys(accepted, 1), folders, **others),
    )


def refused_sizes_are_forgotten(patch: Patch) -> None:
    """Send a file although a proxy has refused a smaller one."""
    patch.setattr(SizeLimit, "refused", lambda _self, _size: None)


OF_REFUSED_SIZES = (refused_sizes_are_forgotten,)
"""Those that show behind a proxy that refuses large uploads."""

OF_FAILING = (
    (an_unanswered_look_up_counts, "more_than_half", "I2: the grace of"),
    (a_failed_search_is_not_repeated, "each_third", "I7: not at rest"),
    (a_round_is_thrown_away_whole, "more_than_half", "I7: not at rest"),
)
"""Those that show where searches fail now and then, each with the kind that shows it, and how."""

OF_PARTIAL = ((an_answered_500_is_no_answer, "I7: not at rest"), (accepted_uploads_allow_no_doubts, "I12"))
"""Those that show where some uploads fail under the default limits, and how."""
