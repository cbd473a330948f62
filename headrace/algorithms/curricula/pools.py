"""The prompts of each domain, drawn without repetition until the domain begins anew.

The n-th draw from a domain depends on (seed, domain, n) alone.
"""

import numpy as np

from headrace.algorithms.saved import State, check_size
from headrace.algorithms.seeds import sample_seed


class Pools:
    def __init__(self, domains: np.ndarray, seed: int) -> None:
        """`domains` int64 [size]: the domain of each prompt, 0 to K - 1, none of them empty.

        Raises ValueError for an empty domain or an id below 0.
        """
        if len(domains) == 0 or domains.min() < 0:
            raise ValueError("domains must hold one id of 0 or more per prompt, and at least one prompt")
        sizes = np.bincount(domains)
        if not sizes.all():
            empty = np.flatnonzero(sizes == 0).tolist()
            raise ValueError(f"domains {empty} have no prompt; number the domains from 0 without a gap")
        self._members = np.split(np.argsort(domains, kind="stable"), np.cumsum(sizes)[:-1])
        self._seed = seed
        self._taken = [0] * len(sizes)
        self._orders: list[tuple[int, np.ndarray] | None] = [None] * len(sizes)

    @property
    def number(self) -> int:
        """K, the domains."""
        return len(self._members)

    def take(self, domain: int) -> int:
        """Index of the domain's next prompt."""
        members = self._members[domain]
        epoch, place = divmod(self._taken[domain], len(members))
        self._taken[domain] += 1
        return int(members[self._order(domain, epoch)[place]])

    def state(self) -> State:
        return {"taken": list(self._taken)}

    def load_state(self, state: State) -> None:
        check_size("domains", len(state["taken"]), self.number)
        self._taken = list(state["taken"])

    def _order(self, domain: int, epoch: int) -> np.ndarray:
        kept = self._orders[domain]
        if kept is None or kept[0] != epoch:
            generator = np.random.default_rng(sample_seed(self._seed, domain, epoch))
            kept = (epoch, generator.permutation(len(self._members[domain])))
            self._orders[domain] = kept
        return kept[1]
