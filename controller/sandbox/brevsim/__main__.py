"""Run the backend: `python -m controller.sandbox.brevsim --directory D`.

Prints one line of JSON when it listens. Ends at SIGTERM, SIGINT, or, with `--lifeline`, when stdin reaches its end;
a forked process ends what the machines run even if this one is killed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import signal
import sys
from pathlib import Path

from aiohttp import web

from controller.sandbox.brevsim.profile import Profile
from controller.sandbox.brevsim.reaper import fork_reaper
from controller.sandbox.brevsim.release import VERSIONS, Release
from controller.sandbox.brevsim.server import application
from controller.sandbox.brevsim.world import World


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m controller.sandbox.brevsim")
    parser.add_argument("--directory", type=Path, required=True, help="state of the world; machines live below it")
    parser.add_argument("--port", type=int, default=0, help="loopback port (0 = any)")
    parser.add_argument("--release", choices=VERSIONS, default="v0.6.327")
    parser.add_argument("--variant", default="a", help="how to play what nobody has seen: a, b, or names of rules")
    parser.add_argument("--profile", default="default", help="default, instant, realistic, or a JSON object of seconds")
    parser.add_argument("--lifeline", action="store_true", help="end when stdin does")
    options = parser.parse_args()
    directory: Path = options.directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    world_id = secrets.token_hex(8)
    fork_reaper(world_id, directory / "machines")
    asyncio.run(_serve(directory, world_id, options))


def read_profile(text: str) -> Profile:
    """A profile by name, or the default one with some latencies replaced."""
    match text:
        case "default" | "instant" | "realistic":
            profile: Profile = getattr(Profile, text)()
            return profile
    return Profile().changed(json.loads(text))


async def _serve(directory: Path, world_id: str, options: argparse.Namespace) -> None:
    world = World(directory, options.release, read_profile(options.profile), world_id, options.variant)
    runner = web.AppRunner(application(world), access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", options.port)
    await site.start()
    port = runner.addresses[0][1]
    world.url = f"http://127.0.0.1:{port}"
    cli = bind_executable(directory, world.url, world.release)
    print(json.dumps({"url": world.url, "cli": str(cli), "pid": os.getpid()}), flush=True)
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ending.set)
    if options.lifeline:
        loop.add_reader(sys.stdin.fileno(), _watch_lifeline, ending)
    running = asyncio.ensure_future(world.run())
    done = asyncio.ensure_future(ending.wait())
    await asyncio.wait({running, done}, return_when=asyncio.FIRST_COMPLETED)
    world.end()
    await runner.cleanup()
    if running.done():
        running.result()
    running.cancel()


def _watch_lifeline(ending: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 65536):
        ending.set()


def bind_executable(directory: Path, url: str, release: Release) -> Path:
    """Write `<directory>/bin/brev` for this backend and return its path."""
    template = (Path(__file__).parent / "cli" / "brev").read_text()
    interpreter = os.path.realpath(sys.executable)
    target = directory / "bin" / "brev"
    target.parent.mkdir(exist_ok=True)
    text = template.replace("@INTERPRETER@", interpreter).replace("@URL@", url)
    text = text.replace("@RELEASE@", release.version).replace("@VERSION_TEXT@", repr(release.version_text))
    target.write_text(text)
    target.chmod(0o755)
    return target


if __name__ == "__main__":
    main()
