"""What all tests share: examples are the same each time, and judged by what they find, never by how long it
takes to find it."""

import os

from hypothesis import HealthCheck, settings

os.environ.setdefault("RAY_worker_niceness", "0")
"""Ray gives its workers way to everything else, and a machine that is busy gives them next to nothing."""

settings.register_profile(
    "headrace", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("headrace")
