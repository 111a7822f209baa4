"""However a sandbox command ends, nothing of it is left; and an operator that is killed is started again."""

import os
import signal
import subprocess
from pathlib import Path

from controller.sandbox.waiting import wait_until
from tests.e2e.running import QUICK, SECONDS, Running, directories_of, wait_until_gone

RUNNING = "The script runs on machine"


def test_kill_9_of_the_demo_leaves_no_process_and_no_directory(demos: list[Running], sleeping: Path) -> None:
    demo = Running("demo", *QUICK, "--sample", str(sleeping))
    demos.append(demo)
    demo.wait_for(RUNNING)
    family = demo.family()
    commands = [" ".join(process.command) for process in family]
    for part in ("etcd", "kube-apiserver", "brevsim", "-m controller", "sleep 3600"):
        assert any(part in command for command in commands), (part, commands)
    directories = directories_of(family)
    assert len(directories) == 2
    demo.signal(signal.SIGKILL)
    wait_until_gone(family)
    wait_until(lambda: not any(path.exists() for path in directories), SECONDS, f"the removal of {directories}")


def test_ctrl_c_while_the_job_runs_ends_everything_in_order(demos: list[Running], sleeping: Path) -> None:
    demo = Running("demo", *QUICK, "--sample", str(sleeping))
    demos.append(demo)
    demo.wait_for(RUNNING)
    family = demo.family()
    directories = directories_of(family)
    demo.signal(signal.SIGINT)
    assert demo.finish() == 128 + signal.SIGINT
    assert "Traceback" not in demo.output
    wait_until_gone(family)
    wait_until(lambda: not any(path.exists() for path in directories), SECONDS, f"the removal of {directories}")


def test_a_terminal_that_is_closed_during_the_start_ends_everything_at_once(demos: list[Running]) -> None:
    demo = Running("demo", *QUICK)
    demos.append(demo)
    demo.wait_for("the Brev simulator is up")
    family = demo.family()
    demo.signal(signal.SIGHUP)
    assert demo.finish() == 128 + signal.SIGHUP
    assert "Traceback" not in demo.output
    wait_until_gone(family)


def test_an_operator_that_is_killed_is_started_again_and_the_job_ends_once(demos: list[Running], slow: Path) -> None:
    demo = Running("demo", *QUICK, "--sample", str(slow))
    demos.append(demo)
    demo.wait_for(RUNNING)
    os.kill(demo.operator(), signal.SIGKILL)
    assert demo.finish() == 0, demo.output
    assert "the operator has ended with -9 and is started again" in demo.output
    assert demo.output.count("| started") == 1
    assert demo.output.count("Creating machine") == 1
    assert "machines left: 0" in demo.output


def test_up_serves_kubectl_and_a_brev_of_its_own_until_it_is_told_to_end(demos: list[Running]) -> None:
    up = Running("up", *QUICK)
    demos.append(up)
    up.wait_for("Ctrl-C ends all of it.")
    exports = [line for line in up.output.splitlines() if line.startswith("export ")]
    assert [line.partition("=")[0] for line in exports] == ["export KUBECONFIG", "export PATH"]
    said = _shell("\n".join([*exports, "kubectl get bacct default -o name", "brev ls --json", "command -v brev"]))
    assert "brevaccount.brev.nvidia.com/default" in said
    assert '"workspaces": null' in said
    assert "/brev-sandbox-" in said
    family = up.family()
    up.signal(signal.SIGTERM)
    assert up.finish() == 128 + signal.SIGTERM
    wait_until_gone(family)


def _shell(script: str) -> str:
    done = subprocess.run(["sh", "-e", "-c", script], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
