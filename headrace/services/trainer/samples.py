"""Samples as the trainer's back ends take them: whole columns, one entry per sample."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from headrace.algorithms.base import Advantages

RAGGED = ("prompt_ids", "response_ids", "behaviour_logprobs", "loss_mask")
PER_SAMPLE = ("groups", *RAGGED, "rewards", "advantages")


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """B samples in whole groups. Arrays of one sample's answer are [length], of equal length.

    Raises ValueError where the columns disagree in length.
    """

    uids: np.ndarray
    """int64 [B]."""
    groups: np.ndarray
    """int64 [B]; samples of one group answer the same prompt."""
    prompt_ids: Sequence[np.ndarray] = field(repr=False)
    response_ids: Sequence[np.ndarray] = field(repr=False)
    behaviour_logprobs: Sequence[np.ndarray] = field(repr=False)
    """As the engine returned them, under the sampling temperature."""
    loss_mask: Sequence[np.ndarray] = field(repr=False)
    """1 where the policy made the token and it is trained on, else 0."""
    rewards: np.ndarray = field(repr=False)
    """float64 [B], NaN where invalid."""
    advantages: Advantages = field(repr=False)
    """float64, one per sample or one per token."""
    columns: Mapping[str, Sequence[np.ndarray]] = field(default_factory=dict, repr=False)
    """Further columns that the algorithm needs, by name."""
    reference_logprobs: Sequence[np.ndarray] | None = field(default=None, repr=False)
    """None: the run has no reference."""
    proximal_logprobs: Sequence[np.ndarray] | None = field(default=None, repr=False)
    """Under the policy at the start of the update; None: the current one is that."""
    is_prepared: bool = False
    """Whether `columns` hold already what the algorithm prepares."""
    progress: float = 0.0
    """Share of the run's steps that were taken before this one."""

    def __post_init__(self) -> None:
        size = len(self.uids)
        for name in PER_SAMPLE:
            if len(getattr(self, name)) != size:
                raise ValueError(f"{name} has {len(getattr(self, name))} entries for {size} samples")
        self._check_aligned("behaviour_logprobs", self.behaviour_logprobs)
        self._check_aligned("loss_mask", self.loss_mask)
        for name in ("reference_logprobs", "proximal_logprobs"):
            if (column := getattr(self, name)) is not None:
                self._check_aligned(name, column)
        if isinstance(self.advantages, list):
            self._check_aligned("advantages", self.advantages)
        for name, column in self.columns.items():
            self._check_aligned(name, column)

    def __len__(self) -> int:
        return len(self.uids)

    def select(self, index: np.ndarray) -> "Samples":
        """The samples at `index`, int64 [n], in that order; whole groups."""

        def chosen(column: Sequence[np.ndarray]) -> list[np.ndarray]:
            return [column[i] for i in index]

        return replace(
            self,
            uids=self.uids[index],
            groups=self.groups[index],
            rewards=self.rewards[index],
            advantages=chosen(self.advantages)
            if isinstance(self.advantages, list)
            else self.advantages[index],
            columns={name: chosen(column) for name, column in self.columns.items()},
            **{name: chosen(getattr(self, name)) for name in RAGGED},
            **{
                name: None if getattr(self, name) is None else chosen(getattr(self, name))
                for name in ("reference_logprobs", "proximal_logprobs")
            },
        )

    def _check_aligned(self, name: str, column: Sequence[np.ndarray]) -> None:
        if len(column) != len(self):
            raise ValueError(f"{name} has {len(column)} entries for {len(self)} samples")
        for uid, response, values in zip(self.uids, self.response_ids, column, strict=True):
            if len(response) != len(values):
                raise ValueError(
                    f"{name} of sample {uid} has {len(values)} entries for {len(response)} answer tokens; "
                    "they must be written together"
                )
