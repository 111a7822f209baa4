"""`python -m controller.sandbox up`: the sandbox kept running, for a person with kubectl."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
from pathlib import Path

from controller.sandbox.terminal import Terminal
from controller.sandbox.world import ROOT, Sandbox, SandboxOptions


async def run_up(options: SandboxOptions, terminal: Terminal, keep_logs: Path | None = None) -> int:
    """Runs until it is cancelled by a signal; an operator that ends is started again."""

    def say(text: str) -> None:
        terminal.line(terminal.style(f"# {text}", "dim"))

    async with Sandbox(options, say=say, keep_logs=keep_logs) as sandbox:
        tools = make_tools(sandbox)
        terminal.line("# In another terminal, in this directory:")
        terminal.line(f"export KUBECONFIG={shlex.quote(str(sandbox.cluster.kubeconfig))}")
        terminal.line(f'export PATH={shlex.quote(str(tools))}:"$PATH"')
        for hint in _hints(sandbox):
            terminal.line(f"# {hint}" if hint else "#")
        terminal.line(terminal.style("# Ctrl-C ends all of it.", "bold"))
        if options.with_operator:
            await sandbox.supervise()
        await asyncio.get_running_loop().create_future()
    return 0


def make_tools(sandbox: Sandbox) -> Path:
    """A directory with `kubectl` and a `brev` that is logged in to the simulator.

    The simulated `brev` gets a HOME of its own: it would else read and write the user's real `~/.brev`.
    """
    tools, home = sandbox.directory / "tools", sandbox.directory / "home"
    tools.mkdir(mode=0o700, exist_ok=True)
    (tools / "kubectl").symlink_to(sandbox.cluster.kubectl.path)
    sandbox.simulator.log_in(home)
    brev = tools / "brev"
    shell = shutil.which("sh") or "/bin/sh"
    target = shlex.quote(str(sandbox.simulator.cli))
    brev.write_text(f'#!{shell}\nHOME={shlex.quote(str(home))} exec {target} "$@"\n', encoding="utf-8")
    brev.chmod(0o700)
    return tools


def _hints(sandbox: Sandbox) -> list[str]:
    samples = os.path.relpath(ROOT / "deploy" / "samples")
    hints = [
        "",
        f"kubectl apply --server-side -f {samples}/iris.yaml",
        "kubectl get bjob,binst -o wide --watch",
        "kubectl describe bjob iris",
        "brev ls                      the simulated machines",
    ]
    if sandbox.options.with_operator:
        return [
            *hints,
            f"curl {sandbox.operator.url}/metrics",
            f"kill -9 {sandbox.operator.pid}                 end the operator at any moment; it is started again",
            f"less {sandbox.operator.log_file}",
            "",
        ]
    variables = sandbox.operator.environment
    command = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items() if name.startswith("BREV_"))
    return [*hints, "", "No operator runs. To start one of your own:", f"{command} {sys.executable} -m controller", ""]
