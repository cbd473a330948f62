from datetime import UTC, datetime

from headrace.services.endpoint.retries import pause_s

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


def test_pauses_double_and_keep_half_of_their_length_at_least() -> None:
    assert [pause_s(repeat, None, draw=0.0, now=NOW) for repeat in range(4)] == [0.125, 0.25, 0.5, 1.0]
    assert pause_s(2, None, draw=0.5, now=NOW) == 0.75


def test_what_the_endpoint_says_is_kept_to_within_a_minute() -> None:
    assert pause_s(0, "7", draw=0.5, now=NOW) == 7.0
    assert pause_s(3, "0", draw=0.5, now=NOW) == 0.0
    assert pause_s(0, "Mon, 30 Nov 2026 12:00:05 GMT", draw=0.5, now=NOW) == 5.0
    assert pause_s(0, "Mon, 30 Nov 2026 11:00:00 GMT", draw=0.5, now=NOW) == 0.0
    assert pause_s(0, "3600", draw=0.5, now=NOW) == 60.0
    assert pause_s(20, None, draw=0.0, now=NOW) == 60.0


def test_a_header_that_says_nothing_is_passed_over() -> None:
    assert pause_s(0, "soon", draw=0.0, now=NOW) == 0.125
