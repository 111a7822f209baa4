"""Running an Argo CD health script: gopher-lua, `obj` as the only input, and no library that Argo CD withholds.

Argo CD opens package, base, table, string and a safe part of os for scripts without `useOpenLibs`.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from tests.chart.rendering import Body

LUA_SECONDS = 20


def health_of(lua: Path, script: str, body: Body) -> dict[str, str]:
    """`status` and `message` that the script gives to the object."""
    program = f"""
io, debug, coroutine, channel, dofile, loadfile = nil, nil, nil, nil, nil, nil
obj = {_literal(body)}
local function health()
{script}
end
local found = health()
print(found.status)
print(found.message)
"""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "health.lua"
        file.write_text(program, encoding="utf-8")
        done = subprocess.run([lua, file], capture_output=True, text=True, timeout=LUA_SECONDS, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    status, _, message = done.stdout.partition("\n")
    return {"status": status, "message": message.removesuffix("\n")}


def _literal(value: object) -> str:
    """A Lua expression for parsed JSON."""
    match value:
        case None:
            return "nil"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return '"' + "".join(f"\\{byte:03d}" for byte in value.encode()) + '"'
        case list():
            return "{" + ", ".join(map(_literal, value)) + "}"
        case dict():
            return "{" + ", ".join(f"[{_literal(key)}] = {_literal(each)}" for key, each in value.items()) + "}"
    raise TypeError(f"no JSON: {value!r}")
