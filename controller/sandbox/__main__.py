"""`python -m controller.sandbox demo|up`: see the operator at work without a cluster, an account or a cloud."""

from __future__ import annotations

import signal

# Ctrl-C while the modules below are being loaded ends the process without a traceback; nothing has been started yet.
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import argparse
import asyncio
import os
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

from controller.sandbox.brevsim.harness import SimulatorError
from controller.sandbox.brevsim.profile import Profile
from controller.sandbox.brevsim.release import RELEASES
from controller.sandbox.controlplane import ControlPlaneError
from controller.sandbox.demo import DemoOptions, run_demo
from controller.sandbox.manifest import ManifestError
from controller.sandbox.operator import OperatorError, OperatorOptions
from controller.sandbox.terminal import Terminal
from controller.sandbox.up import run_up
from controller.sandbox.watching import WatchError
from controller.sandbox.world import ROOT, TIME_SCALE, SandboxError, SandboxOptions

FAILURES = (ControlPlaneError, SimulatorError, OperatorError, SandboxError, ManifestError, WatchError, OSError)
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
DEMO_TIMEOUT = 900.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, 1 with a reason, or 128 + the number of the signal that ended it."""
    options = _parser().parse_args(arguments)
    terminal = Terminal()
    try:
        return asyncio.run(_until_signalled(_command(options, terminal)))
    except BrokenPipeError:
        # Whoever read along has gone; the interpreter would complain once more when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except FAILURES as error:
        print(f"sandbox: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m controller.sandbox", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser("demo", help="apply a manifest and follow its jobs to their end")
    up = commands.add_parser("up", help="keep a control plane, the simulator and the operator running")
    demo.add_argument(
        "--sample",
        type=Path,
        default=ROOT / "deploy" / "samples" / "iris.yaml",
        metavar="FILE",
        help="manifest with at least one BrevJob (default: deploy/samples/iris.yaml)",
    )
    demo.add_argument(
        "--timeout",
        type=_seconds,
        default=DEMO_TIMEOUT,
        metavar="SECONDS",
        help="give the jobs up after (default: 900)",
    )
    up.add_argument("--no-operator", action="store_true", help="leave the operator to you")
    for command in (demo, up):
        command.add_argument(
            "--profile",
            choices=["default", "instant", "realistic"],
            default="default",
            help="latencies of the machines",
        )
        command.add_argument(
            "--time-scale",
            type=_seconds,
            default=TIME_SCALE,
            metavar="X",
            help=f"factor on the operator's intervals (default: {TIME_SCALE:g})",
        )
        command.add_argument("--release", choices=sorted(RELEASES), default="v0.6.327", help="the simulated brev-cli")
        command.add_argument("--keep-logs", type=Path, metavar="DIR", help="copy all logs into this directory")
    return parser


def _command(options: argparse.Namespace, terminal: Terminal) -> Coroutine[Any, Any, int]:
    sandbox = SandboxOptions(
        profile=getattr(Profile, options.profile)(),
        release=options.release,
        operator=OperatorOptions(time_scale=options.time_scale),
        with_operator=options.command == "demo" or not options.no_operator,
    )
    if options.command == "up":
        return run_up(sandbox, terminal, options.keep_logs)
    return run_demo(DemoOptions(options.sample, sandbox, options.timeout, options.keep_logs), terminal)


async def _until_signalled(command: Coroutine[Any, Any, int]) -> int:
    """Run the command; the first signal ends it in an orderly way, a second one at once."""
    task = asyncio.create_task(command)
    received: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        if received:
            os._exit(128 + number)
        received.append(number)
        task.cancel()

    for number in ENDING_SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    try:
        return await task
    except asyncio.CancelledError:
        if not received:
            raise
        # Not sys.exit: a thread that still builds the control plane must not be waited for. Its janitor ends the rest.
        sys.stdout.flush()
        os._exit(128 + received[0])


def _seconds(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise ValueError(text)
    return value


if __name__ == "__main__":
    sys.exit(main())
