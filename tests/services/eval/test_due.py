from headrace.services.eval.due import Due


def test_the_first_every_so_many_th_and_the_last_version_are_due() -> None:
    assert list(Due(every=10, last=25).between(0, 26)) == [0, 10, 20, 25]
    assert list(Due(every=10, last=20).between(0, 21)) == [0, 10, 20]
    assert list(Due(every=50, last=3).between(0, 4)) == [0, 3]


def test_due_is_what_follows_a_version_or_nothing() -> None:
    due = Due(every=10, last=25)
    assert [due.from_(version) for version in (0, 1, 10, 21, 25, 26)] == [0, 10, 10, 25, 25, None]


def test_a_resumed_eval_is_due_from_its_step_on() -> None:
    assert list(Due(every=10, last=25).between(12, 26)) == [20, 25]
