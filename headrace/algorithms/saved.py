"""What a plug point must be able to save: all that its next decision depends on, as JSON."""

from typing import Any, Protocol

State = dict[str, Any]
"""JSON: string keys; values are numbers, strings, lists and such dictionaries."""


class Saved(Protocol):
    """A restored copy decides as the saved one would have; options are not state, both are built alike."""

    def state(self) -> State: ...

    def load_state(self, state: State) -> None:
        """Raises ValueError where the state is of an object built with other options."""
        ...


def check_size(name: str, saved: int, expected: int) -> None:
    """Refuses a state that is about another number of things than this object. Raises ValueError."""
    if saved != expected:
        raise ValueError(
            f"the saved state has {saved} {name}, this run has {expected}; "
            "resume with the data and options it was saved with"
        )
