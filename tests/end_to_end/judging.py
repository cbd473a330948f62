"""A verdict that scripted engines of five tokens can give by chance, 'a' or 'b', and rewards of it."""

from headrace.services.branch import Parent, Prompt

RIGHT, WRONG = "a", "b"


def judged(row: Parent) -> Prompt:
    right = row.response.text == row.example["answer"]
    return Prompt(prompt=[row.prompt, row.response, ">"], example={"answer": RIGHT if right else WRONG})


def judgement(response: str, example: dict[str, str]) -> dict[str, float]:
    return {"reward": float(response == example["answer"]), "trust": float(response == RIGHT)}


def solution(response: str, example: dict[str, str], *, trust: float | None) -> float:
    return float(response[:1] == example["answer"]) + (trust or 0.0)
