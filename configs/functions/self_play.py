"""A proposer makes words for a solver to copy; rewarded are those of which the solver gets half right."""

from headrace.services.branch import Parent, Prompt

LETTERS = set("abcdefghij")
LONG = 8.0
"""Letters from which on a word is worth no more for its length."""


def proposed(row: Parent) -> Prompt | None:
    """The theme and what the proposer adds to it is the solver's word; what does not end is not passed on."""
    added = row.response.text
    if row.columns["finish_reason"] != "stop" or not set(added) <= LETTERS:
        return None
    theme = row.example["answer"]
    return Prompt(prompt=[theme, row.response, ">"], example={"answer": theme + added})


def proposal(response: str, example: dict, *, success: float | None) -> dict:
    """Highest for a long word of which the solver gets half of the places right; a word of which it gets none
    or all is worth a little, and what is no word nothing."""
    if success is None:
        return {"reward": 0.0, "valid": 0.0}
    interest = 1.0 - abs(2.0 * success - 1.0)
    letters = float(len(example["answer"]) + len(response))
    reward = 0.1 + 0.9 * interest * min(1.0, letters / LONG)
    return {"reward": reward, "valid": 1.0, "success": success, "letters": letters}
