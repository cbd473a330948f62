"""Samples as the trainer's back ends take them: whole columns, one entry per sample."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np


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
    advantages: np.ndarray = field(repr=False)
    """float64 [B]."""
    reference_logprobs: Sequence[np.ndarray] | None = field(default=None, repr=False)
    """None: the run has no reference."""

    def __post_init__(self) -> None:
        size = len(self.uids)
        for name in ("groups", "prompt_ids", "response_ids", "behaviour_logprobs", "loss_mask", "advantages"):
            if len(getattr(self, name)) != size:
                raise ValueError(f"{name} has {len(getattr(self, name))} entries for {size} samples")
        self._check_aligned("behaviour_logprobs", self.behaviour_logprobs)
        self._check_aligned("loss_mask", self.loss_mask)
        if self.reference_logprobs is not None:
            self._check_aligned("reference_logprobs", self.reference_logprobs)

    def __len__(self) -> int:
        return len(self.uids)

    def _check_aligned(self, name: str, column: Sequence[np.ndarray]) -> None:
        if len(column) != len(self):
            raise ValueError(f"{name} has {len(column)} entries for {len(self)} samples")
        for uid, response, values in zip(self.uids, self.response_ids, column, strict=True):
            if len(response) != len(values):
                raise ValueError(
                    f"{name} of sample {uid} has {len(values)} entries for {len(response)} answer tokens; "
                    "they must be written together"
                )
