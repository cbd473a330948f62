"""A verifier that judges a solver's answers, and what both are rewarded for."""

from headrace.services.branch import Parent, Prompt

RIGHT, WRONG = "j", "i"
"""What the verifier says."""


def judged(row: Parent) -> Prompt:
    """Of 'ab>' answered with 'ac' the verifier is asked 'ab>ac>'."""
    right = row.response.text == row.example["answer"]
    return Prompt(prompt=[row.prompt, row.response, ">"], example={"answer": RIGHT if right else WRONG})


def judgement(response: str, example: dict) -> dict:
    """1 for judging right; `trust` is 1 where it says that the answer is."""
    return {"reward": float(response == example["answer"]), "trust": float(response == RIGHT)}


def solution(response: str, example: dict, *, trust: float | None) -> dict:
    """The share of right places, three parts, and the verifier's trust in the answer, one part."""
    answer = example["answer"]
    places = sum(a == b for a, b in zip(response, answer, strict=False)) / max(len(response), len(answer))
    trusted = trust or 0.0
    return {"reward": 0.75 * places + 0.25 * trusted, "exact": float(response == answer), "trust": trusted}
