"""A solver's and a verifier's functions, of which some rows cannot be made and some not be scored."""

from headrace.services.branch import Parent, Prompt

RAISES, WITHOUT, UNJUDGED = 1 << 16 | 1, 2 << 16, 3 << 16
"""Rows that no prompt can be made of, that have none, and whose prompt's answers cannot be scored."""


def judged(row: Parent) -> Prompt | None:
    if row.uid == RAISES:
        raise ArithmeticError("cannot be asked")
    if row.uid == WITHOUT:
        return None
    return Prompt(prompt=[row.prompt, row.response, ">"], example={"unjudged": row.uid == UNJUDGED})


def judgement(response: str, example: dict) -> dict:
    if example["unjudged"]:
        raise ArithmeticError("cannot be judged")
    return {"reward": float(len(response) % 2), "trust": 0.5}


def solution(response: str, example: dict, *, trust: float | None) -> dict:
    return {"reward": len(response) / 8, "trusted": -1.0 if trust is None else trust}
