"""The maths: advantages, losses, divergences, reductions, schedules, seeds. Imports nothing of ours."""
