"""Rows of one table become prompts of another: what a function of the user's takes and gives."""

from headrace.services.branch.asked import Continued, Parent, Prompt, Tokens

__all__ = ["Continued", "Parent", "Prompt", "Tokens"]
