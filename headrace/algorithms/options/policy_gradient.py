"""Options of the algorithms that weigh log-probabilities by advantages; the defaults are the published ones.

What a paper leaves open, or where implementations differ, stands with the field.
"""

from dataclasses import dataclass
from typing import Literal

from headrace.algorithms.bounds import Count, NonNegative, Positive, PositiveOrInf, Share
from headrace.algorithms.options.base import Options
from headrace.algorithms.options.credit import IN_GROUP, OVER_BATCH, Credit, PythonCredit
from headrace.algorithms.updates.annealed import Annealed, largest

Coefficient = NonNegative | Annealed
"""A weight in the loss: a number, or one that moves over the run."""
Reduction = Literal["token_mean", "sequence_mean", "sequence_sum", "prompt_mean"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyGradient(Options):
    """What all of them share."""

    advantage: Credit = "group_zscore"
    """How rewards become credit: the function of that name in `algorithms/advantages`, or a class by path."""
    gamma: Share = 1.0
    """Discount of later rewards, per token, in gae and reinforce_pp."""
    gae_lambda: Share = 0.95
    """Weight of longer returns in gae (arXiv 1506.02438); at 1 the credit is the return less the value."""
    gae_whiten: bool = False
    """Normalise gae over the tokens of the batch."""
    critic: Literal["head", "node"] = "head"
    """Whose values gae takes: of a head on the policy that is trained with it, or of a critic node."""
    value_coef: Coefficient = 0.1
    """Weight of the head's loss, half the squared error to the return; 0.1 is TRL's for a shared trunk."""
    value_clip: Positive | None = 0.2
    """Most that the head's loss lets a value move in an update, either way; None: no bound."""
    kl_coef: Coefficient = 0.0
    """Weight of the divergence from the reference policy; 0: none, and no reference node."""
    kl_estimator: Literal["k1", "k2", "k3"] = "k3"
    """Estimator of the divergence (joschu.net/blog/kl-approx.html)."""
    kl_in: Literal["loss", "reward"] = "loss"
    """Where the divergence counts: a term of the loss, or taken off each sample's reward."""
    entropy_coef: Coefficient = 0.0
    """Weight of the entropy bonus in the loss."""
    reduction: Reduction = "token_mean"
    """How token losses become one number."""
    sequence_length: Count | None = None
    """Longest answer, in tokens, which sequence_sum divides by; None: the rollout's max_new_tokens."""

    def __post_init__(self) -> None:
        Options.__post_init__(self)
        for name in self.annealed():
            moving: Annealed = getattr(self, name)
            if min(moving.start, moving.end) < 0:
                raise ValueError(f"{name} goes from {moving.start} to {moving.end}; neither may be below 0")

    def needs(self) -> tuple[str, ...]:
        reference = ("reference_logprobs",) if largest(self.kl_coef) > 0 else ()
        by_node = self.advantage == "gae" and self.critic == "node"
        own = self.advantage.reads if isinstance(self.advantage, PythonCredit) else ()
        return (*reference, *(("values",) if by_node else ()), *own)

    @property
    def values_by_head(self) -> bool:
        return self.advantage == "gae" and self.critic == "head"

    @property
    def compares_group(self) -> bool:
        return self.advantage in IN_GROUP

    @property
    def credits_batch(self) -> bool:
        """Whether the credit of a sample depends on the whole batch."""
        if isinstance(self.advantage, PythonCredit):
            return self.advantage.over_batch
        return self.advantage in OVER_BATCH or (self.advantage == "gae" and self.gae_whiten)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clipped(PolicyGradient):
    """A ratio that is clipped."""

    clip_low: Share = 0.2
    """The ratio is clipped below at 1 - clip_low."""
    clip_high: NonNegative = 0.2
    """The ratio is clipped above at 1 + clip_high."""
    dual_clip: Positive | None = None
    """Largest ratio that counts where the advantage is negative, above 1; None: no bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpoOptions(Clipped):
    """Group relative policy optimisation (arXiv 2402.03300) with an asymmetric clip (arXiv 2503.14476)."""

    kind: Literal["grpo"] = "grpo"
    clip_high: NonNegative = 0.28


@dataclass(frozen=True, slots=True, kw_only=True)
class DrGrpoOptions(Clipped):
    """GRPO done right (arXiv 2503.20783): rewards less the group's mean, tokens over a constant length."""

    kind: Literal["dr_grpo"] = "dr_grpo"
    advantage: Credit = "group_mean"
    reduction: Reduction = "sequence_sum"


@dataclass(frozen=True, slots=True, kw_only=True)
class DapoOptions(Clipped):
    """DAPO (arXiv 2503.14476): clip-higher, token mean, no divergence, a penalty on overlong answers."""

    kind: Literal["dapo"] = "dapo"
    clip_high: NonNegative = 0.28
    overlong_share: Share = 0.2
    """Last share of sequence_length over which the penalty on an answer's reward grows to 1; 0: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AtodOptions(Clipped):
    """ATOD: from distilling a teacher to GRPO, with more weight where they differ and the student is unsure.

    The paper's schedule and constants were not seen; the share of distillation falls linearly here.
    """

    kind: Literal["atod"] = "atod"
    distill_until: Share = 1.0
    """Share of the run after which nothing is distilled any more; it begins with nothing else."""
    turn_temperature: PositiveOrInf = 1.0
    """Of the weights of an episode's turns, in nats squared; inf: all turns weigh the same."""
    weight_high: PositiveOrInf = 2.0
    """Largest importance weight of a stale token in the distillation."""

    def needs(self) -> tuple[str, ...]:
        return (*Clipped.needs(self), "teacher_logprobs")


@dataclass(frozen=True, slots=True, kw_only=True)
class GspoOptions(Clipped):
    """Group sequence policy optimisation (arXiv 2507.18071): one ratio for each answer."""

    kind: Literal["gspo"] = "gspo"
    clip_low: Share = 3e-4
    clip_high: NonNegative = 4e-4
    reduction: Reduction = "sequence_mean"


@dataclass(frozen=True, slots=True, kw_only=True)
class GspoTokenOptions(Clipped):
    """GSPO-token (arXiv 2507.18071): the answer's ratio, with a gradient and an advantage for each token."""

    kind: Literal["gspo_token"] = "gspo_token"
    clip_low: Share = 3e-4
    clip_high: NonNegative = 4e-4
    reduction: Reduction = "sequence_mean"


@dataclass(frozen=True, slots=True, kw_only=True)
class PpoOptions(Clipped):
    """Proximal policy optimisation (arXiv 1707.06347) with the values of a critic."""

    kind: Literal["ppo"] = "ppo"
    advantage: Credit = "gae"
    gae_whiten: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ReinforcePpOptions(Clipped):
    """REINFORCE++ (arXiv 2501.03262): divergence in each token's reward, credit normalised over the batch."""

    kind: Literal["reinforce_pp"] = "reinforce_pp"
    advantage: Credit = "reinforce_pp"
    kl_estimator: Literal["k1", "k2", "k3"] = "k1"
    kl_in: Literal["loss", "reward"] = "reward"


@dataclass(frozen=True, slots=True, kw_only=True)
class RlooOptions(Clipped):
    """REINFORCE leave-one-out (arXiv 2402.14740): the answer is one action; clipped as TRL clips it."""

    kind: Literal["rloo"] = "rloo"
    advantage: Credit = "leave_one_out"
    kl_estimator: Literal["k1", "k2", "k3"] = "k1"
    kl_in: Literal["loss", "reward"] = "reward"
    reduction: Reduction = "sequence_mean"


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrected(Clipped):
    """A ratio to the proximal policy, times a bounded weight for who sampled."""

    correction: Literal["truncate", "mask"] = "truncate"
    """What a weight outside of its bounds becomes: the bound, or 0."""
    correction_level: Literal["token", "sequence"] = "token"
    """One weight for each token, or the geometric mean over the answer."""
    correction_low: NonNegative = 0.0
    """Smallest weight."""
    correction_high: PositiveOrInf = 2.0
    """Largest weight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoupledPpoOptions(Corrected):
    """Decoupled PPO as AReaL has it (arXiv 2505.24298): tokens of a behaviour weight above 5 are left out."""

    kind: Literal["decoupled_ppo"] = "decoupled_ppo"
    correction: Literal["truncate", "mask"] = "mask"
    correction_high: PositiveOrInf = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TisOptions(Corrected):
    """Truncated importance sampling (fengyao.notion.site/off-policy-rl) on GRPO."""

    kind: Literal["tis"] = "tis"


@dataclass(frozen=True, slots=True, kw_only=True)
class IcePopOptions(Corrected):
    """IcePop (arXiv 2510.18855): tokens whose behaviour weight leaves [0.5, 5] are left out."""

    kind: Literal["icepop"] = "icepop"
    correction: Literal["truncate", "mask"] = "mask"
    correction_low: NonNegative = 0.5
    correction_high: PositiveOrInf = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighted(PolicyGradient):
    """An importance weight that is truncated and carries no gradient."""

    weight_high: PositiveOrInf = 5.0
    """Largest weight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CispoOptions(Weighted):
    """CISPO (MiniMax-M1, arXiv 2506.13585): every token keeps its gradient; the bound is ScaleRL's."""

    kind: Literal["cispo"] = "cispo"


@dataclass(frozen=True, slots=True, kw_only=True)
class RapidOptions(Weighted):
    """RAPID's policy gradient (arXiv 2510.03515). Its bound is not public; 2 is that of TIS."""

    kind: Literal["rapid"] = "rapid"
    weight_high: PositiveOrInf = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToprOptions(PolicyGradient):
    """Tapered off-policy REINFORCE (arXiv 2503.14286) around the group's mean; the paper leaves it open."""

    kind: Literal["topr"] = "topr"
    advantage: Credit = "group_mean"


@dataclass(frozen=True, slots=True, kw_only=True)
class SaoOptions(PolicyGradient):
    """Single-rollout asynchronous optimisation: a critic's baseline, tokens masked on both sides.

    The paper's bounds were not seen; these are PPO's.
    """

    kind: Literal["sao"] = "sao"
    advantage: Credit = "gae"
    gae_lambda: Share = 1.0
    ratio_low: Share = 0.8
    """Tokens of a ratio below it have no gradient."""
    ratio_high: Positive = 1.2
    """Tokens of a ratio above it have no gradient."""


@dataclass(frozen=True, slots=True, kw_only=True)
class M2poOptions(PolicyGradient):
    """Second-moment trust policy optimisation (arXiv 2510.01161): the batch decides which tokens count."""

    kind: Literal["m2po"] = "m2po"
    threshold: Positive = 0.04
    """Mean squared log-ratio that the kept tokens may have."""
