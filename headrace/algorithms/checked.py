"""What a dataclass of settings inherits so that every one made is within the bounds of its annotations."""

from headrace.algorithms.bounds import check_bounds


class Checked:
    """Raises ValueError on creation for a value that its field's annotation does not allow."""

    __slots__ = ()

    def __post_init__(self) -> None:
        check_bounds(self)
