"""From leased rows to samples with their credit: pure, whole groups in, whole groups out."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headrace.algorithms.base import Algorithm, GroupScores
from headrace.algorithms.rover import PROXIMAL_MEAN
from headrace.services.trainer.samples import Samples
from headrace.transferqueue import Rows

Ragged = Sequence[np.ndarray]


def credited(
    taken: Sequence[Rows],
    algorithm: Algorithm,
    *,
    needs: Sequence[str],
    progress: float,
    masked: frozenset[int] = frozenset(),
    before: Mapping[str, Ragged] | None = None,
    anchored: bool = False,
) -> Samples:
    """Leased rows as samples with their advantages; an invalid reward counts as NaN.

    `needs`: columns that the algorithm reads at some step of the run; `progress`: share of the run's steps
    taken before theirs; `masked`: uids of rows that count for their group's credit and not in the loss.
    `before`: what the policy says of them before the update, as `Backend.before` gives it; None: nothing.
    With `anchored` its log-probabilities are the proximal ones, for an update of several steps. Where a value
    model is trained the rows' log-probabilities are not read, and NaN stands for them.
    """
    groups, rewards = np.concatenate([rows.groups for rows in taken]), column(taken, "reward")
    uids = np.concatenate([rows.uids for rows in taken])
    responses, masks = column(taken, "response_ids"), column(taken, "loss_mask")
    logprobs = (
        [np.full(len(ids), np.nan, dtype=np.float32) for ids in responses]
        if algorithm.trains_values
        else column(taken, "logprobs")
    )
    said = dict(before or {})
    further: dict[str, Ragged] = {name: column(taken, name) for name in needs}
    further |= {"values": said["values"]} if "values" in said else {}
    scores = GroupScores(
        groups=groups,
        rewards=np.array(rewards, dtype=np.float64),
        lengths=np.array([len(ids) for ids in responses]),
        columns={"logprobs": logprobs, "loss_mask": masks} | further,
    )
    reference = further.pop("reference_logprobs", None)
    if anchored and "mean_logprobs" in said:
        further[PROXIMAL_MEAN] = said["mean_logprobs"]
    return Samples(
        uids=uids,
        groups=groups,
        prompt_ids=column(taken, "prompt_ids"),
        response_ids=responses,
        behaviour_logprobs=logprobs,
        loss_mask=[
            np.zeros_like(mask) if uid in masked else mask
            for uid, mask in zip(uids.tolist(), masks, strict=True)
        ]
        if masked
        else masks,
        rewards=scores.rewards,
        advantages=algorithm.advantages(scores),
        reference_logprobs=reference,
        proximal_logprobs=said.get("logprobs") if anchored else None,
        columns=_by_token(taken[0], further) | dict(algorithm.targets(scores)),
        progress=progress,
    )


def ordered(taken: Sequence[Rows]) -> list[Rows]:
    """The same rows, by group and uid, in whichever leases they came; one Rows for each group."""
    parts = [part.select(np.argsort(part.uids)) for rows in taken for part in rows.by_group()]
    return sorted(parts, key=lambda part: int(part.groups[0]))


def _by_token(rows: Rows, columns: Mapping[str, Ragged]) -> dict[str, Ragged]:
    """Those with an entry for each token of the answer, which a loss can read; the rest is for the credit."""
    written = {column.name for column in rows.spec.columns if column.aligned != "response"}
    return {name: values for name, values in columns.items() if name not in written}


def column(taken: Sequence[Rows], name: str) -> list[Any]:
    """One value per row, lease after lease."""
    return [value for rows in taken for value in rows[name]]
