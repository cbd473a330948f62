from headrace.dataflow.planning.drawing.spread import spread


def test_things_that_have_room_stand_where_they_wish() -> None:
    assert spread([0, 100], [10, 20], 5) == [0, 100]


def test_things_that_would_overlap_share_the_way_they_are_moved() -> None:
    """Both wish for 50 and are 20 apart; the third is pushed by neither."""
    assert spread([50, 50, 90], [10, 20, 10], 5) == [40, 60, 90]


def test_a_wish_against_the_order_is_met_in_the_middle() -> None:
    assert spread([30, 0], [10, 10], 10) == [5, 25]
