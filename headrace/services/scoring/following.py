"""A scorer that follows its policy: it scores under the newest weights that a trainer of the run published.

Where nobody trains the policy it scores under the policy's own weights, and waits for no publication.
Invariant: a lease is scored under one version, the newest one loaded before its turn.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from headrace.services.base import Context
from headrace.services.scoring.scorer import ModelScorer

NOT_LOADED = -1


class FollowingScorer(ModelScorer):
    """What teacher and critic have in common."""

    version = NOT_LOADED
    follows = False

    async def setup(self, context: Context) -> None:
        self.follows = context.policy_is_trained
        await super().setup(context)

    async def load(self, version: int, weights: Mapping[str, Any]) -> None:
        """Takes its turn among the leases that are scored. Raises ValueError where the weights do not fit,
        and the old ones stay then."""
        await asyncio.get_running_loop().run_in_executor(self._compute, self._replace, weights)
        self.version = version

    def _replace(self, weights: Mapping[str, Any]) -> None:
        from headrace.services.models.in_place import check_weights, replace_weights

        check_weights(self._scoring.model, weights)
        replace_weights(self._scoring.model, weights)
