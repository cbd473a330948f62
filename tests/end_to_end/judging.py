"""A verdict that scripted engines of five tokens can give by chance, 'a' or 'b', and rewards of it."""

import os
from pathlib import Path

from headrace.services.branch import Parent, Prompt

RIGHT, WRONG = "a", "b"
COUNT = "HEADRACE_TEST_COUNT"
"""Names the file in which `counted` counts."""


def judged(row: Parent) -> Prompt:
    right = row.response.text == row.example["answer"]
    return Prompt(prompt=[row.prompt, row.response, ">"], example={"answer": RIGHT if right else WRONG})


def judgement(response: str, example: dict[str, str]) -> dict[str, float]:
    return {"reward": float(response == example["answer"]), "trust": float(response == RIGHT)}


def counted(response: str, example: dict[str, str]) -> dict[str, float]:
    """A judgement that leaves a line behind."""
    with Path(os.environ[COUNT]).open("a") as file:
        file.write("judged\n")
    return judgement(response, example)


def solution(response: str, example: dict[str, str], *, trust: float | None) -> float:
    return float(response[:1] == example["answer"]) + (trust or 0.0)
