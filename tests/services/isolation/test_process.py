"""A function in a process of its own; what a verifier does there is tested with the reward."""

import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from headrace.services.isolation.errors import Died, Raised, TookTooLong, Unusable
from headrace.services.isolation.process import Isolated


def scaled(by: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def answer(question: dict[str, Any]) -> dict[str, Any]:
        match question["x"]:
            case "sleep":
                time.sleep(60)
            case "exit":
                raise KeyboardInterrupt
            case "die":
                os._exit(3)
            case "unsayable":
                return {"y": object()}
        return {"y": by * question["x"]}

    return answer


def scaling(timeout_s: float = 60.0, **arguments: Any) -> Isolated:
    return Isolated(f"{__file__}:scaled", arguments, noun="scaler", timeout_s=timeout_s)


async def test_what_is_made_of_the_arguments_answers_questions() -> None:
    scaler = scaling(by=3)
    assert await scaler.ask({"x": 2}) == {"y": 6}
    assert await scaler.ask({"x": "ab"}) == {"y": "ababab"}
    await scaler.close()
    assert scaler.pid is None


async def test_whatever_goes_wrong_names_the_function_and_the_next_question_is_answered() -> None:
    scaler = scaling(0.5, by=2)
    with pytest.raises(TookTooLong, match=r"^the scaler took longer than 0\.5 s$"):
        await scaler.ask({"x": "sleep"})
    scaler._timeout_s = 60.0
    with pytest.raises(Raised, match=r"^KeyboardInterrupt: "):
        await scaler.ask({"x": "exit"})
    with pytest.raises(Raised, match=r"^TypeError: can not serialize 'object' object"):
        await scaler.ask({"x": "unsayable"})
    with pytest.raises(Died, match=r"^the scaler's process ended with code 3 while it was asked$"):
        await scaler.ask({"x": "die"})
    assert await scaler.ask({"x": 1}) == {"y": 2}
    await scaler.close()


async def test_a_function_that_cannot_be_made_says_why() -> None:
    scaler = scaling(to=3)
    with pytest.raises(Unusable, match=r"^TypeError: scaled\(\) got an unexpected keyword argument 'to'"):
        await scaler.start()
    assert scaler.pid is None
