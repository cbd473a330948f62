"""Where a replica's time goes."""

from headrace.services.clock import ActivityClock


class Hand:
    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


def test_fractions_are_shares_of_the_whole_time_and_sum_to_one() -> None:
    hand = Hand()
    clock = ActivityClock(hand)
    hand.at = 2.0
    with clock.during("busy"):
        hand.at = 5.0
    with clock.during("idle_wait_weights"):
        hand.at = 6.0
    hand.at = 10.0
    assert clock.fractions() == {"busy": 0.3, "idle_wait_data": 0.6, "idle_wait_weights": 0.1, "paused": 0.0}


def test_work_that_overlaps_a_wait_for_weights_counts_as_busy_once() -> None:
    hand = Hand()
    clock = ActivityClock(hand)
    with clock.during("busy"), clock.during("busy"), clock.during("idle_wait_weights"):
        hand.at = 4.0
    assert clock.fractions()["busy"] == 1.0


def test_before_any_time_has_passed_the_replica_waits_for_data() -> None:
    assert ActivityClock(Hand()).fractions()["idle_wait_data"] == 1.0
