"""What a data set is: a length, and for each index an entry that depends on it and the seed alone."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from headrace.services.errors import ServiceError
from headrace.services.prompts import PromptText


class DatasetError(ServiceError):
    """A data set that cannot be opened, or an entry that cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One prompt and what the verifier needs to score answers to it."""

    prompt: PromptText
    example: dict[str, Any]
    """Plain JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """What a data set tells of its prompts, for whoever chooses among them."""

    names: tuple[str, ...] = ()
    """Of the domains; none: it has none."""
    domains: np.ndarray | None = None
    """int64 [size], domain of each prompt, an index into `names`. None where there are none."""
    pass_rates: np.ndarray | None = None
    """float64 [size] within [0, 1], under the initial policy. None: not known of every prompt."""


def in_turn(names: tuple[str, ...], size: int) -> Labels:
    """Entry i belongs to domain i modulo their number; a single domain is none."""
    if len(names) < 2:
        return Labels()
    return Labels(names=names, domains=np.arange(size, dtype=np.int64) % len(names))


class Dataset(Protocol):
    def __len__(self) -> int:
        """Prompts per epoch."""
        ...

    def __getitem__(self, index: int) -> Example:
        """The entry at `index`, 0 <= index < len; always the same one."""
        ...

    def labels(self) -> Labels:
        """What it tells of each prompt; made anew by each call."""
        ...
