"""A vLLM without a model: sample `i` of a step draws the number of tokens that its prompt has grown to."""

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.services.rollout.engines.vllm.llm import Drawn


class ScriptedLlm:
    """Draws the length of what it was given so far as the next id; remembers every call."""

    def __init__(self, *, at_once: int = 8, stop: int = 99, confirms: bool = True) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._at_once = at_once
        self._stop = stop
        self._confirms = confirms
        self._lengths: dict[str, int] = {}
        self._left: dict[str, int] = {}

    def submit(self, key: str, prompt_ids: Sequence[int], fields: Mapping[str, Any], salt: str) -> None:
        self.calls.append(("submit", key, list(prompt_ids), salt))
        self._lengths[key] = len(prompt_ids)
        self._left[key] = fields["max_tokens"]

    def step(self) -> list[Drawn]:
        """A token to each of the first `at_once` submissions."""
        return [self._draw(key) for key in list(self._left)[: self._at_once]]

    def abort(self, keys: Sequence[str]) -> None:
        self.calls.append(("abort", *keys))
        for key in keys:
            del self._left[key]

    def load(self, version: int, weights: Mapping[str, Any]) -> None:
        self.calls.append(("load", version, dict(weights)))
        if not self._confirms:
            raise RuntimeError("the worker holds other weights")

    def forget_prefixes(self) -> None:
        self.calls.append(("forget_prefixes",))

    def close(self) -> None:
        self.calls.append(("close",))

    def _draw(self, key: str) -> Drawn:
        token = self._lengths[key]
        self._lengths[key] += 1
        self._left[key] -= 1
        ended = "stop" if token == self._stop else "length" if not self._left[key] else None
        if ended:
            del self._left[key]
        return Drawn(key=key, token_ids=[token], logprobs=[-float(token)], ended=ended)


class TwoTensors:
    """A shape whose weights are named a and b, where c is another name of a."""

    vocabulary = 200
    longest = 64

    def check(self, weights: Mapping[str, Any]) -> None:
        if not {"b"} < set(weights) <= {"a", "b", "c"}:
            raise ValueError(f"weights do not fit: {sorted(weights)}")

    def named(self, weights: Mapping[str, Any]) -> dict[str, Any]:
        return {"a" if name == "c" else name: tensor for name, tensor in weights.items()}
