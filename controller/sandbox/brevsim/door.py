"""The executable's door: one HTTP request whose body and answer are a conversation of frames."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from aiohttp import web
from aiohttp.streams import StreamReader

from controller.sandbox.brevsim.api import Api
from controller.sandbox.brevsim.rules import run
from controller.sandbox.brevsim.rules.call import Call, KilledError
from controller.sandbox.brevsim.world import World

_HEAD_LIMIT = 4 * 1024 * 1024


class Wire:
    """The client's side of a call: its streams, and whether it still lives."""

    def __init__(self, response: web.StreamResponse, content: StreamReader) -> None:
        self._response = response
        self._content = content
        self._answers: asyncio.Queue[bytes] = asyncio.Queue()
        self.gone = asyncio.Event()

    async def listen(self) -> None:
        """Collect what the client sends until its end; to be run as a task."""
        try:
            while True:
                size = int.from_bytes(await self._content.readexactly(4), "big")
                self._answers.put_nowait(await self._content.readexactly(size))
        except (OSError, EOFError, web.PayloadAccessError, asyncio.IncompleteReadError):
            self.gone.set()

    async def _send(self, letter: bytes, payload: bytes) -> None:
        if self.gone.is_set():
            raise ConnectionResetError("the client is gone")
        await self._response.write(letter + len(payload).to_bytes(4, "big") + payload)

    async def out(self, data: bytes) -> None:
        await self._send(b"o", data)

    async def err(self, data: bytes) -> None:
        await self._send(b"e", data)

    async def read_stdin(self, *, line: bool) -> bytes:
        await self._send(b"r", b"line" if line else b"")
        return await self._answers.get()

    async def linger(self, pid: int) -> None:
        """Have a child of the program hold its stderr until process `pid` has ended."""
        await self._send(b"l", str(pid).encode())

    async def exit(self, code: int) -> None:
        await self._send(b"x", str(code).encode())

    async def kill(self) -> None:
        await self._send(b"k", b"")
        await self.gone.wait()


async def serve_call(request: web.Request, world: World, api: Api) -> web.StreamResponse:
    """Run one invocation; if its process dies first, what it was doing stops there and what it began goes on."""
    response = web.StreamResponse()
    await response.prepare(request)
    size = int.from_bytes(await request.content.readexactly(4), "big")
    if size > _HEAD_LIMIT:
        raise web.HTTPRequestEntityTooLarge(_HEAD_LIMIT, size)
    wire = Wire(response, request.content)
    call = Call.parse(await request.content.readexactly(size), wire, world, api)
    entry = call.log_entry()
    world.ledger.calls.append(entry)
    world.touch()
    listening = asyncio.ensure_future(wire.listen())
    try:
        entry["rc"] = await _until_gone(call, wire)
    finally:
        entry["endedAt"] = world.clock.now()
        world.touch()
        listening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await listening
    return response


async def _until_gone(call: Call, wire: Wire) -> int:
    """The exit code that the client was told, or -9 if it was killed before."""
    work: asyncio.Future[Any] = asyncio.ensure_future(_work(call, wire))
    gone = asyncio.ensure_future(wire.gone.wait())
    await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
    gone.cancel()
    if not work.done():
        work.cancel()
    try:
        return int(await work)
    except (asyncio.CancelledError, ConnectionError):
        return -9


async def _work(call: Call, wire: Wire) -> int:
    try:
        code = await run(call)
    except KilledError:
        await wire.kill()
        return -9
    except Exception as error:
        if not isinstance(error, ConnectionError):
            call.world.ledger.alarm(call.world.clock.now(), "crash", f"{call.argv}: {error!r}")
        raise
    await wire.exit(code)
    return code
