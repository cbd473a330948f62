"""A host that can be cut off: what goes to it and comes from it passes through a relay that may stop.

While cut, bytes vanish into it and no socket is closed or refused, as when a switch drops packets.
"""

import asyncio
from contextlib import suppress
from types import TracebackType

_CHUNK_BYTES = 1 << 16


class Relay:
    """Listens on `host` and passes on to `target`, an address as tcp://HOST:PORT."""

    def __init__(self, host: str, target: str = "") -> None:
        self.host = host
        self.target = target
        self.address = ""
        self._open = asyncio.Event()
        self._open.set()
        self._pumps: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server

    async def __aenter__(self) -> "Relay":
        self._server = await asyncio.start_server(self._accept, self.host, 0)
        port = self._server.sockets[0].getsockname()[1]
        self.address = f"tcp://{self.host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    def cut(self) -> None:
        self._open.clear()

    def mend(self) -> None:
        self._open.set()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving = asyncio.create_task(self._serve(reader, writer))
        self._pumps.add(serving)
        serving.add_done_callback(self._pumps.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._open.wait()
            host, port = self.target.removeprefix("tcp://").split(":")
            there_reader, there_writer = await asyncio.open_connection(host, int(port))
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(reader, there_writer))
                both.create_task(self._pump(there_reader, writer))
        except OSError:
            writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(ConnectionError):
                while data := await reader.read(_CHUNK_BYTES):
                    await self._open.wait()
                    writer.write(data)
                    await writer.drain()
            await self._open.wait()
        finally:
            writer.close()
