"""When a replica counts as still, on a clock of the test's own."""

from headrace.services.pulse import Beat, Pulse


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_replica_that_holds_nothing_is_never_still() -> None:
    clock = Clock()
    pulse = Pulse(clock)
    clock.now_s += 1000
    assert pulse.look() == Beat(doing="", still_s=0.0, ready=False)


def test_stillness_is_counted_from_the_work_that_ended_a_wait_and_from_each_beat() -> None:
    clock = Clock()
    pulse = Pulse(clock)
    pulse.ready = True
    clock.now_s += 50
    with pulse.working("process 8 rows"):
        clock.now_s += 3
        assert pulse.look() == Beat(doing="process 8 rows", still_s=3.0, ready=True)
        pulse.beat()
        clock.now_s += 1
        assert pulse.look().still_s == 1.0
    assert pulse.look() == Beat(doing="", still_s=0.0, ready=True)


def test_new_work_is_no_movement_of_the_old_and_work_that_ends_is() -> None:
    clock = Clock()
    pulse = Pulse(clock)
    with pulse.working("process 8 rows"):
        clock.now_s += 3
        with pulse.working("process 8 rows"), pulse.working("load version 3"):
            assert pulse.look().still_s == 3.0
            assert pulse.look().doing == "2 x process 8 rows, load version 3"
        assert pulse.look() == Beat(doing="process 8 rows", still_s=0.0, ready=False)


def test_a_count_that_grows_is_movement() -> None:
    clock = Clock()
    pulse = Pulse(clock)
    tokens = 0.0
    pulse.counts = lambda: tokens
    with pulse.working("process 8 rows"):
        clock.now_s += 3
        assert pulse.look().still_s == 3.0
        tokens = 7.0
        assert pulse.look().still_s == 0.0
        clock.now_s += 2
        assert pulse.look().still_s == 2.0


def test_work_that_waits_for_others_is_not_still_and_other_work_beside_it_is() -> None:
    clock = Clock()
    pulse = Pulse(clock)
    with pulse.working("branch"):
        clock.now_s += 3
        with pulse.waiting():
            clock.now_s += 100
            assert pulse.look().still_s == 0.0
        clock.now_s += 1
        assert pulse.look().still_s == 1.0
        with pulse.working("branch"), pulse.waiting():
            clock.now_s += 5
            assert pulse.look().still_s == 6.0
