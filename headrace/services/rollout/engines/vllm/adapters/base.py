"""The contract of a way to put weights into vLLM: one file for each generation of its API."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from headrace.services.errors import ServiceError


class WeightsApi(Protocol):
    """Puts whole weights, by Hugging Face name, into every worker of an engine that is not stepping."""

    def engine_fields(self) -> dict[str, Any]:
        """What vLLM's EngineArgs have to say for it."""
        ...

    def load(self, engine: Any, version: int, weights: Mapping[str, Any]) -> None:
        """`engine`: vLLM's LLMEngine. Raises where a worker fails or does not confirm `version`."""
        ...


def confirm(answers: Sequence[Any], version: object) -> None:
    """Raises ServiceError unless every rank says that it holds `version`."""
    if not answers or any(answer != version for answer in answers):
        raise ServiceError(
            f"vLLM's workers hold the versions {list(answers)} after a load of {version}; the engine may "
            "not serve and is ended"
        )
