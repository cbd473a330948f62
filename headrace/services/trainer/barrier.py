"""Where trainers of several policies keep pace: a step begins once the others have come as far."""

from collections.abc import Sequence

from headrace.transferqueue import Client, WaitTimeout


async def reached(client: Client, policies: Sequence[str], step: int, *, timeout_s: float) -> None:
    """Returns once each of `policies` has published version `step` or a later one.

    Raises WaitTimeout naming the first that stays away for `timeout_s`.
    """
    for policy in policies:
        version = -1
        while version < step:
            try:
                publication = await client.published(policy, after=step - 1, timeout_s=timeout_s)
            except WaitTimeout as error:
                raise WaitTimeout(
                    f"step {step} waits at the barrier for version {step} of policy {policy!r}: {error}"
                ) from error
            version = publication.version
