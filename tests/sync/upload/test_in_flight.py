"""Who leads, how many uploads may be under way, and which of them can be ended."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from assetsync.sync.upload.in_flight import AT_ONCE, LEAD, SLOW, Begun, Crew


class Sent:
    """An upload under way whose answer comes by a pipe."""

    def __init__(self):
        self._read, self._write = os.pipe()
        self.has_come = False

    def come(self):
        self.has_come = True
        os.write(self._write, b"x")

    def fileno(self):
        return self._read

    def is_ready(self):
        return self.has_come

    def close(self):
        os.close(self._read)
        os.close(self._write)


class ByProxy(Sent):
    def fileno(self):
        return None


@pytest.fixture
def crew(clock):
    return Crew(4, clock.steady)


@pytest.fixture
def make_sent():
    made = []

    def make(kind=Sent):
        made.append(kind())
        return made[-1]

    yield make
    for each in made:
        each.close()


def elsewhere(call):
    """Call it as another worker."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def test_one_worker_leads_until_it_has_not_come_back_for_a_while(crew, clock):
    assert crew.lead()
    assert not elsewhere(crew.lead)
    assert crew.lead()
    clock.advance(LEAD)
    assert elsewhere(crew.lead)
    assert not crew.lead()


def test_who_steps_down_leads_no_more_and_nobody_else_can_do_so_for_it(crew):
    assert crew.lead()
    elsewhere(crew.step_down)
    assert not elsewhere(crew.lead)
    crew.step_down()
    assert elsewhere(crew.lead)


def test_before_an_answer_is_known_that_can_be_waited_for_with_others_one_is_taken_at_once(crew, make_sent):
    assert (crew.most, crew.is_apart) == (1, False)
    assert crew.has_sent(make_sent())
    assert (crew.most, crew.is_apart) == (4, False)


def test_where_an_answer_can_only_be_waited_for_each_upload_keeps_a_worker(crew, make_sent):
    assert not crew.has_sent(make_sent(ByProxy))
    assert (crew.most, crew.is_apart) == (1, True)


def test_an_answer_that_is_there_already_says_nothing_of_others(crew, make_sent):
    sent = make_sent(ByProxy)
    sent.come()
    assert not crew.has_sent(sent)
    assert (crew.most, crew.is_apart) == (1, False)


def test_what_is_taken_and_not_needed_is_given_back(crew):
    assert (crew.reserve(1), crew.reserve(9), crew.reserve(1)) == (1, 3, 0)
    crew.give_back(2)
    assert crew.reserve(4) == 2


def test_an_upload_can_be_ended_once_its_answer_has_come_and_is_given_once(crew, make_sent):
    first, second = make_sent(), make_sent()
    begun = [Begun(1, None, first), Begun(2, None, second)]
    crew.hand_in(begun)
    assert crew.collect(0.0) == []
    second.come()
    assert crew.collect(0.0) == [begun[1]]
    assert crew.collect(0.0) == []
    first.come()
    assert (crew.collect(0.0), crew.has_begun) == ([begun[0]], False)


def test_what_was_not_sent_yet_is_given_once_to_be_sent_and_has_no_answer(crew):
    begun = Begun(1, None)
    crew.hand_in([begun])
    assert (crew.has_begun, crew.has_unsent, crew.collect(0.0)) == (True, True, [])
    assert (crew.next_unsent(), crew.next_unsent(), crew.has_begun) == (begun, None, False)


def test_who_has_outcomes_for_the_same_commit_takes_as_many_in_their_place(crew):
    assert crew.reserve(4) == 4
    assert crew.reserve(4, lent=3) == 3
    crew.give_back(3)
    assert crew.reserve(1) == 0
    crew.give_back(4)
    assert crew.reserve(9) == 4


def test_where_files_are_read_slowly_workers_do_so_side_by_side_for_a_while(crew, clock, make_sent):
    crew.has_sent(make_sent())
    crew.took(10 * SLOW, 3)
    assert (crew.most, crew.is_apart) == (4, False)
    for _ in range(10):
        crew.took(10 * SLOW, 3)
    assert (crew.most, crew.is_apart) == (1, True)
    clock.advance(60.0)
    assert (crew.most, crew.is_apart) == (4, False)


def test_who_stands_by_is_woken_when_nobody_leads(crew):
    crew.lead()
    with ThreadPoolExecutor(1) as pool:
        began = time.monotonic()
        waiting = pool.submit(crew.stand_by, 30.0)
        time.sleep(0.05)
        crew.step_down()
        waiting.result(10)
    assert time.monotonic() - began < 10


def test_with_a_rate_each_upload_keeps_a_worker_from_the_beginning(clock):
    crew = Crew(4, clock.steady, together=False)
    assert (crew.most, crew.is_apart) == (1, True)


def test_an_answer_is_waited_for_no_longer_than_was_said(make_sent):
    crew = Crew(1, time.monotonic)
    crew.hand_in([Begun(1, None, make_sent())])
    began = time.monotonic()
    assert crew.collect(0.05) == []
    assert 0.04 < time.monotonic() - began < 5


def test_an_answer_ends_the_wait_for_it(make_sent):
    crew = Crew(1, time.monotonic)
    sent = make_sent()
    begun = Begun(1, None, sent)
    crew.hand_in([begun])
    timer = threading.Timer(0.05, sent.come)
    timer.start()
    assert crew.collect(30.0) == [begun]
    timer.join()


def test_answers_that_come_at_once_are_waited_for_together(make_sent):
    crew = Crew(2, time.monotonic)
    first, second = make_sent(), make_sent()
    begun = [Begun(number, None, sent, time.monotonic() + 60) for number, sent in enumerate((first, second))]
    crew.hand_in(begun)
    first.come()
    timer = threading.Timer(0.05, second.come)
    timer.start()
    assert crew.collect(30.0) == begun
    timer.join()


def test_an_answer_that_took_its_time_waits_for_no_other(make_sent):
    crew = Crew(2, time.monotonic)
    first, second = make_sent(), make_sent()
    begun = [Begun(number, None, sent, time.monotonic() - 2 * AT_ONCE) for number, sent in enumerate((first, second))]
    crew.hand_in(begun)
    first.come()
    assert crew.collect(30.0) == begun[:1]


def test_what_is_being_waited_for_is_nobody_elses_until_then(make_sent):
    crew = Crew(2, time.monotonic)
    sent = make_sent()
    crew.hand_in([Begun(1, None, sent)])
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(crew.collect, 30.0)
        while crew.has_begun:
            time.sleep(0.001)
        assert crew.collect(0.0) == []
        sent.come()
        assert len(waiting.result()) == 1
