"""The versions of one policy, and whether a trainer that went back makes them again as they were.

    publish 1, 2, 3 ─► rewind to 1 ─► publish 2 again ─┬─ same checksum  ─► same timeline, 3 stays the newest
                                                       └─ another one    ─► timeline + 1, 2 is the newest

Invariant: on one timeline a version has one checksum. Readers are offered what was published last, repeats
included: between `rewind` and the next `publish` nothing is, since the weights went with their trainer.
"""

from headrace.transferqueue.errors import StepRefused
from headrace.transferqueue.state.records import Publication


class Publications:
    """What was published of a policy, as far back as its trainer may go."""

    def __init__(self, policy: str) -> None:
        self.policy = policy
        self.newest: Publication | None = None
        """The greatest version of the timeline."""
        self.offered: Publication | None = None
        """What readers may pull; None: nothing now."""
        self._serials = 0
        self._checksums: dict[int, str] = {}
        self._again_from: int | None = None
        """Version from which a trainer that went back may publish again; None: only new ones."""

    def publish(self, version: int, checksum: str) -> bool:
        """Takes a version; True: it began a new timeline. StepRefused where it does not follow."""
        newest = self.newest
        if newest is None or version > newest.version:
            self._take(version, checksum, timeline=newest.timeline if newest else 0)
            return False
        if self._checksums.get(version) == checksum and self._may_come_again(version, newest):
            if version == newest.version:
                self._again_from = None
            self._offer(version, checksum, timeline=newest.timeline)
            return False
        if self._again_from is None or version < self._again_from or version not in self._checksums:
            raise StepRefused(
                f"policy {self.policy!r} is at version {newest.version} with checksum {newest.checksum}; "
                f"version {version} with checksum {checksum} does not follow it"
            )
        for lost in [each for each in self._checksums if each >= version]:
            del self._checksums[lost]
        self._take(version, checksum, timeline=newest.timeline + 1)
        return True

    def rewind(self, version: int) -> None:
        """The trainer is back at a version, and will publish it and the later ones again."""
        if self.newest is not None and version <= self.newest.version:
            self._again_from = version
        self.offered = None

    def cover(self, version: int) -> None:
        """The trainer will never go back below it."""
        for each in [each for each in self._checksums if each < version]:
            del self._checksums[each]

    def _may_come_again(self, version: int, newest: Publication) -> bool:
        return version == newest.version or (self._again_from is not None and version >= self._again_from)

    def _take(self, version: int, checksum: str, *, timeline: int) -> None:
        self.newest = self._offer(version, checksum, timeline=timeline)
        self._checksums[version] = checksum
        self._again_from = None

    def _offer(self, version: int, checksum: str, *, timeline: int) -> Publication:
        self._serials += 1
        self.offered = Publication(
            policy=self.policy, version=version, checksum=checksum, timeline=timeline, serial=self._serials
        )
        return self.offered
