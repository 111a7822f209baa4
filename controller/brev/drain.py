"""Reading the pipes of a child without ever letting it block, and without ever keeping more than asked."""

import asyncio
import os
from typing import IO

_CHUNK = 1 << 16
# The largest pipe an unprivileged Linux process can ask for (fs.pipe-max-size); more than that was written afterwards.
_LARGEST_PIPE = 1 << 20


class Drain:
    """Keeps the first `cap` bytes of a pipe and throws the rest away. Belongs to the running event loop."""

    def __init__(self, pipe: IO[bytes], cap: int) -> None:
        self._pipe = pipe
        self._cap = cap
        self._head = bytearray()
        self._loop = asyncio.get_running_loop()
        self._open = True
        self.truncated = False
        os.set_blocking(pipe.fileno(), False)
        self._loop.add_reader(pipe.fileno(), self._read)

    @property
    def data(self) -> bytes:
        return bytes(self._head)

    def finish(self) -> None:
        """Take what is in the pipe now and close it. Call it once the child is reaped; later writers get SIGPIPE.

        There is no waiting for the end of the file: whoever still holds the other end left the group on purpose.
        """
        left = _LARGEST_PIPE
        while self._open and left > 0:
            got = self._read()
            if got == 0:
                break
            left -= got
        self._close()

    def _read(self) -> int:
        """Read once. Bytes taken, 0 when there was nothing."""
        try:
            chunk = os.read(self._pipe.fileno(), _CHUNK)
        except BlockingIOError:
            return 0
        if not chunk:
            self._close()
            return 0
        room = self._cap - len(self._head)
        self._head += chunk[: max(room, 0)]
        self.truncated = self.truncated or len(chunk) > room
        return len(chunk)

    def _close(self) -> None:
        if self._open:
            self._open = False
            self._loop.remove_reader(self._pipe.fileno())
            self._pipe.close()
