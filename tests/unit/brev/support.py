"""A `brev` that answers as told, and what the tests of the session share."""

import asyncio
import base64
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from controller.brev import BrevSession, Credential

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEY = Credential("APIKey", "bak-secret-1", "org-a")
REFRESH = Credential("RefreshToken", "session:device", "org-a")
ROW = {"name": "bo-1", "id": "aaa000001", "status": "RUNNING"}
ORGS = json.dumps([{"id": "org-a", "name": "acme", "is_active": True}])
OFFER = {"type": "g5.xlarge", "gpu_name": "A10G", "gpu_count": 1, "price_per_hour": 1.006}

FRAMES = "⣷⣯⣟⡿⢿⣻⣽⣾"


class Transcript:
    """Pieces of what the real CLI prints, byte for byte in shape (measured on v0.6.317 to v0.6.327)."""

    login_prompt = "You are currently logged out, would you like to log in? [Y/n]: "

    @staticmethod
    def spinner(text: str) -> str:
        """Frames on stderr, also without a terminal; what follows is glued to the last one."""
        return "".join(f"\r\x1b[K\r{frame} {text} " for frame in FRAMES) + "\r\x1b[K"

    @staticmethod
    def trace(depth: int = 2) -> str:
        """The stack trace that stands in the middle of a message."""
        group = "[error] \n/src/brev-cli/pkg/cmd/some.function\n/src/brev-cli/pkg/cmd/some/file.go:78\n: "
        return group * depth

    def resty(self, reason: str = "EOF") -> str:
        """Two log lines of the HTTP library before the message."""
        return (
            f"2026/01/02 10:11:12.123456 WARN RESTY {self.trace()}{reason}, Attempt 1\n"
            f"2026/01/02 10:11:12 ERROR RESTY {self.trace()}{reason}\n"
        )

    def collected(self, reason: str) -> str:
        """The frame of `delete`, `stop` and `exec` around an error."""
        return f"1 error occurred:\n\t* {self.trace()}{reason}\n\n\n"

    def create(self, outcome: str, machine_type: str = "g6e.xlarge") -> str:
        """The log of a create that made nothing."""
        return (
            "Attempting to create 1 instance(s) with 1 parallel attempts\n"
            f"Instance types to try: {machine_type}\n\nTrying {machine_type} for 1 instance(s)...\n"
            f"{outcome}\n\nType {machine_type} had failures, trying next type...\n\n\n"
            "Warning: Only created 0/1 instances\ncould only create 0/1 instances\n\n"
        )

    def create_failed(self, reason: str) -> str:
        return self.create(
            "[Worker 1] Trying g6e.xlarge for instance 'tj-1'...\n"
            f"[Worker 1] g6e.xlarge Failed: {self.trace()}{reason}\n"
        )


FAKE = """#!{interpreter} -IS
import json, os, sys, time
directory = {directory!r}
verb = sys.argv[1] if len(sys.argv) > 1 else ""
with open(directory + "/behaviour.json") as file:
    rules = json.load(file)
rule = rules.get(" ".join(sys.argv[1:3]), rules.get(verb, {{}}))
home = os.environ["HOME"]
login = home + "/.brev/credentials.json"
call = {{
    "argv": sys.argv[1:],
    "env": dict(os.environ),
    "cwd": os.getcwd(),
    "home": home,
    "login": open(login).read() if os.path.exists(login) else "",
    "stdin": os.readlink("/proc/self/fd/0"),
}}
with open(directory + "/calls.jsonl", "a") as file:
    file.write(json.dumps(call) + "\\n")
if verb in ("refresh", "copy"):
    with open(home + "/.brev/ssh_config", "w") as file:
        for name in rule.get("hosts", []):
            file.write("Host %s\\n  Port 1\\n\\nHost %s-host\\n  Port 1\\n\\n" % (name, name))
if "credentials" in rule and "auto-login" in call["login"]:
    with open(login, "w") as file:
        file.write(rule["credentials"])
sys.stdout.write(rule.get("stdout", ""))
sys.stdout.flush()
sys.stderr.write(rule.get("stderr", ""))
sys.stderr.flush()
if rule.get("hang"):
    time.sleep(300)
sys.exit(rule.get("code", 0))
"""


class FakeCli:
    """A `brev` that answers as told, by verb or by the first two words, and records how it was called."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.path = directory / "brev"
        self.path.write_text(FAKE.format(interpreter=sys.executable, directory=str(directory)))
        self.path.chmod(0o755)
        self._rules: dict[str, dict[str, Any]] = {}
        self.on("--version", stdout="Current Version: v0.6.327\n")

    def on(self, verb: str, **rule: Any) -> None:
        """`stdout`, `stderr`, `code`, `hang`; `hosts` after refresh and copy; `credentials` after a renewal."""
        self._rules[verb] = rule
        (self._directory / "behaviour.json").write_text(json.dumps(self._rules))

    def calls(self, verb: str = "") -> list[dict[str, Any]]:
        path = self._directory / "calls.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        calls: list[dict[str, Any]] = [json.loads(line) for line in lines]
        return [call for call in calls if not verb or call["argv"][0] == verb]


class Make(Protocol):
    def __call__(self, credential: Credential = KEY, **options: Any) -> BrevSession: ...


def listing(*rows: object) -> str:
    return json.dumps({"workspaces": list(rows)}, indent=2)


def jwt(expires: datetime) -> str:
    payload = base64.urlsafe_b64encode(json.dumps({"exp": expires.timestamp()}).encode()).rstrip(b"=").decode()
    return f"eyJhbGciOiJub25lIn0.{payload}.c2ln"


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - other processes make it true
            await asyncio.sleep(0.005)


async def refreshed(session: BrevSession, cli: FakeCli, name: str = "bo-1") -> None:
    cli.on("refresh", hosts=[name, "somebody-else"])
    await session.refresh(name)
