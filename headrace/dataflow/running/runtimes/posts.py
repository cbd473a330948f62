"""The nodes of a cluster that a run is on: each has one post, which the replicas there stand on.

    a replica's process is somewhere ─► is there a post? ─► else it is made, and all are told of each other
    a post is gone ─► the others are told, and the launcher's stands in for its rows

Invariant: a replica works only on a node whose post all others know, so that whatever it publishes can be had
by them. A post that comes after another on the same node has another name in the queue.
"""

import asyncio
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from headrace.dataflow.running.kept_queue import NODES
from headrace.dataflow.running.runtimes.base import QueuePlace, ReplicaDied
from headrace.dataflow.running.runtimes.post import Opened, PostActor, PostPlace, keys_in, peers_in
from headrace.dataflow.running.runtimes.remote import kill, or_kill, remote, result
from headrace.services.base import Report
from headrace.services.errors import ReplicaFailed
from headrace.services.host import Assignment
from headrace.services.site import Site
from headrace.transferqueue.link.keys import read_keys

STOP_TIMEOUT_S = 10.0
NAME_DIGITS = 12
"""Of Ray's id of a node, in its name in the queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What the posts of a launch stand on."""

    home: str
    """Ray's id of the launcher's node, where the queue's controller is too."""
    shared: Path
    """The launcher's folder there; the run's keys are in it."""
    queue: QueuePlace
    queue_address: str
    report: Report


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Post:
    name: str
    actor: Any
    opened: Opened
    watch: "asyncio.Task[None]"


class Posts:
    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._posts: dict[str, Post] = {}
        """By Ray's id of their nodes."""
        self._turns = asyncio.Lock()
        self._numbers = count(1)

    async def open(self) -> None:
        """The launcher's own, and in a queue on disk stand-ins for the nodes of earlier launches."""
        home = await self._at(self._ground.home)
        if self._ground.queue.options.durable and self._cells.is_dir():
            for cells in sorted(self._cells.iterdir()):
                await result(home.actor.stand_in.remote(cells.name, cells), f"post of {cells.name}")

    async def told(self, assignment: Assignment, node: str) -> Assignment:
        """What a replica on a node of Ray's is told."""
        post = await self._at(node)
        shared = post.opened.shared
        site = Site(node=post.name, keys=keys_in(shared), peers=peers_in(shared))
        return replace(assignment, shared_dir=shared, site=site)

    async def close(self) -> None:
        async with self._turns:
            posts = list(self._posts.values())
            self._posts.clear()
            for post in posts:
                post.watch.cancel()
            await asyncio.gather(*(_stopped(post) for post in posts), return_exceptions=True)

    @property
    def _cells(self) -> Path:
        """Where rows of other nodes lie in a queue on disk, a folder each."""
        return self._ground.queue.directory / NODES

    async def _at(self, node: str) -> Post:
        async with self._turns:
            if node not in self._posts:
                self._posts[node] = await self._made(node)
                await self._introduce()
            return self._posts[node]

    async def _made(self, node: str) -> Post:
        ground, is_home = self._ground, node == self._ground.home
        name = "" if is_home else f"{node[:NAME_DIGITS]}-{next(self._numbers)}"
        away = self._cells / name if ground.queue.options.durable else None
        place = PostPlace(
            name=name,
            queue_address=ground.queue_address,
            shared=ground.shared if is_home else None,
            cells=ground.queue.directory if is_home else away,
            keys=read_keys(keys_in(ground.shared)),
            log_file=ground.queue.log_file.with_name(f"node-{name or 'launcher'}.log"),
        )
        actor = remote(PostActor, node=node).remote(place)
        opened = await or_kill(actor, result(actor.open.remote(), f"post of node {node[:NAME_DIGITS]}"))
        if not is_home:
            ground.report.event("node_joined", node=name, ray_node=node)
        watch = asyncio.create_task(self._watch(node, name, actor), name=f"watch post {name}")
        return Post(name=name, actor=actor, opened=opened, watch=watch)

    async def _watch(self, node: str, name: str, actor: Any) -> None:
        try:
            await result(actor.run.remote(), f"post of node {node[:NAME_DIGITS]}")
            reason = "it stopped"
        except (ReplicaDied, ReplicaFailed) as error:
            reason = str(error)
        kill(actor)
        self._ground.report.event("node_lost", node=name, ray_node=node, reason=reason)
        async with self._turns:
            self._posts.pop(node, None)
            await self._introduce()
        try:
            await self._stand_in(name)
        except (ReplicaDied, ReplicaFailed) as error:
            self._ground.report.event("node_without_stand_in", node=name, reason=str(error))

    async def _stand_in(self, name: str) -> None:
        """The launcher's post, made again where it was lost, serves the rows of a node that is gone."""
        home = await self._at(self._ground.home)
        if name:
            lies_in = self._cells if self._ground.queue.options.durable else self._ground.shared / "lost"
            await result(home.actor.stand_in.remote(name, lies_in / name), f"post in the place of {name}")

    async def _introduce(self) -> None:
        """Tells every post the weight servers of the others; who is gone meanwhile is seen by its watch."""
        told = [
            result(
                post.actor.meet.remote(
                    [other.opened.weights_address for other in self._posts.values() if other is not post]
                ),
                post.name,
            )
            for post in self._posts.values()
        ]
        for outcome in await asyncio.gather(*told, return_exceptions=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, ReplicaDied):
                raise outcome


async def _stopped(post: Post) -> None:
    try:
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await result(post.actor.stop.remote(), post.name)
    finally:
        kill(post.actor)
