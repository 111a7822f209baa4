"""Odd but legal input arrives byte for byte."""

from __future__ import annotations

import base64
import hashlib
import json

import pytest

from controller.api.meta import Kind
from tests.integration.bench import Bench, attempt_of, phase, status_of
from tests.integration.kubeapi import Body

VALUES = {
    "PLAIN": "plain",
    "EMPTY": "",
    "BLANKS": "  two  ",
    "NEWLINES": "first\nsecond\n\n",
    "CARRIAGE": "a\r\nb\tc",
    "DOLLAR": "$HOME ${PATH} $(id) `id`",
    "QUOTES": "it's \"quoted\" \\ and 'again'",
    "UNICODE": "Grüße 東京 🚀 e\u0301",
    "TRUE": "true",
    "OCTAL": "010",
    "EXPONENT": "1e3",
    "VERSION": "1.10",
    "YES": "yes",
    "NULL": "null",
    "DATE": "2024-01-01",
    "DASH": "--flag=x",
    "AT": "@/etc/passwd",
    "PERCENT": "%s %n %(a)s {x}",
    "with.dots-and spaces": "an odd name",
}


def reported(job: Body) -> dict[str, str]:
    """What the script has printed as one JSON object."""
    found: dict[str, str] = json.loads(status_of(job)["logTail"])
    return found


def python(text: str) -> Body:
    return {"text": text, "interpreter": "python3"}


@pytest.mark.case(106)
async def test_case_106_environment_values_arrive_byte_for_byte(bench: Bench) -> None:
    await bench.create("configmaps", "settings", data={"text": VALUES["UNICODE"], "quoted": VALUES["QUOTES"]})
    await bench.create("secrets", "keys", data={"pass.word": base64.b64encode(b"\xc3\xbc $x\n").decode()})
    env: list[Body] = [{"name": name, "value": value} for name, value in VALUES.items()]
    env.append({"name": "FROM_MAP", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "text"}}})
    env.append({"name": "FROM_SECRET", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "pass.word"}}})
    names = [*VALUES, "FROM_MAP", "FROM_SECRET"]
    script = f"import hashlib, json, os\nNAMES = {names!r}\n" + (
        "got = {k: os.environb.get(k.encode()) for k in NAMES}\n"
        "print(json.dumps({k: v.hex() for k, v in got.items() if k != 'FROM_SECRET'}"
        " | {'FROM_SECRET': hashlib.sha256(got['FROM_SECRET']).hexdigest()}))"
    )
    job = await bench.run(bench.job("env", None, script=python(script), env=env))
    assert status_of(job)["phase"] == "Succeeded", status_of(job)
    expected = {name: value.encode().hex() for name, value in VALUES.items()}
    expected["FROM_MAP"] = VALUES["UNICODE"].encode().hex()
    expected["FROM_SECRET"] = hashlib.sha256(b"\xc3\xbc $x\n").hexdigest()
    assert reported(job) == expected


@pytest.mark.case(113)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param('cat "$0" | sha256sum\n', id="plain"),
        pytest.param('cat "$0" | sha256sum', id="no-last-newline"),
        pytest.param('cat "$0" | sha256sum\n\n\n', id="empty-lines-at-the-end"),
        pytest.param('if true; then\n\t# a comment: [x]\n\tcat "$0" | sha256sum\nfi\n', id="tabs-and-comments"),
        pytest.param('#!/bin/sh\n# ü 東京\n: \'\\t\' "$HOME"\ncat "$0" | sha256sum\n', id="unicode"),
    ],
)
async def test_case_113_script_bytes_are_kept(bench: Bench, text: str) -> None:
    job = await bench.run(bench.job("script", text))
    assert status_of(job)["logTail"].split()[0] == hashlib.sha256(text.encode()).hexdigest()


async def test_files_arrive_with_their_bytes_modes_and_paths(bench: Bench) -> None:
    binary = bytes(range(256)) * 33
    secret = b"\0\xff secret \n"
    await bench.create(
        "configmaps",
        "data",
        data={"text.txt": "Grüße\n\tno newline"},
        binaryData={"b.in": base64.b64encode(binary).decode()},
    )
    await bench.create("secrets", "keys", data={"key": base64.b64encode(secret).decode()})
    files: list[Body] = [
        {"path": "plain.txt", "content": "a\r\nb"},
        {"path": "empty", "content": "", "mode": "0600"},
        {"path": "bin/tool", "content": "#!/bin/sh\necho ran\n", "mode": "755"},
        {"path": "deep/er/with blank/ü.bin", "configMapKeyRef": {"name": "data", "key": "b.in"}, "mode": "0444"},
        {"path": "-rf", "configMapKeyRef": {"name": "data", "key": "text.txt"}},
        {"path": "secret", "secretKeyRef": {"name": "keys", "key": "key"}, "mode": "0400"},
    ]
    script = (
        "import hashlib, json, os, subprocess\n"
        f"paths = {[file['path'] for file in files]!r}\n"
        "digest = lambda path: hashlib.sha256(open(path, 'rb').read()).hexdigest()\n"
        "seen = {path: [digest(path), oct(os.stat(path).st_mode & 0o7777)] for path in paths}\n"
        "seen['tool'] = subprocess.check_output(['bin/tool']).decode()\n"
        "print(json.dumps(seen))\n"
    )
    job = await bench.run(bench.job("files", None, script=python(script), files=files))
    assert status_of(job)["phase"] == "Succeeded", status_of(job)
    contents = [b"a\r\nb", b"", b"#!/bin/sh\necho ran\n", binary, "Grüße\n\tno newline".encode(), secret]
    modes = ["0o644", "0o600", "0o755", "0o444", "0o644", "0o400"]
    expected: dict[str, object] = {
        str(file["path"]): [hashlib.sha256(content).hexdigest(), mode]
        for file, content, mode in zip(files, contents, modes, strict=True)
    }
    assert reported(job) == expected | {"tool": "ran\n"}


async def test_a_script_from_a_config_map_arrives_as_it_is_stored(bench: Bench) -> None:
    text = '\tcat "$0" | sha256sum  # ünd'
    await bench.create("configmaps", "scripts", data={"main.sh": text})
    reference = {"configMapKeyRef": {"name": "scripts", "key": "main.sh"}}
    job = await bench.run(bench.job("stored", None, script=reference))
    assert status_of(job)["logTail"].split()[0] == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.case(114)
async def test_case_114_names_of_253_characters_with_dots_do_not_collide(bench: Bench) -> None:
    stem = "a.b-c." * 42
    names = [stem[:252] + "1", stem[:252] + "2", stem[:62] + "x", stem[:63] + "x", "9-start", "a.b.c"]
    assert {len(name) for name in names[:2]} == {253}
    for name in names:
        await bench.apply(bench.job(name, "echo hello"))
    jobs = [await bench.ended(name) for name in names]
    assert [status_of(job)["phase"] for job in jobs] == ["Succeeded"] * len(names)
    machines = [status_of(job)["machine"]["brevName"] for job in jobs]
    assert len(set(machines)) == len(names)
    assert all(len(machine) <= 63 and machine.replace("-", "").isalnum() for machine in machines)
    assert len({attempt_of(job)["instance"] for job in jobs}) == len(names)


async def test_an_instance_with_a_long_name_and_labels_becomes_ready_and_goes(bench: Bench) -> None:
    body = bench.instance("x" * 253)
    body["metadata"] |= {"labels": {"team": "a"}, "annotations": {"note": "Grüße"}}
    await bench.apply(body)
    ready = await bench.until(Kind.INSTANCE, "x" * 253, phase("Ready"))
    assert ready["metadata"]["labels"] == {"team": "a"}
    assert ready["metadata"]["annotations"] == {"note": "Grüße"}
    assert len(status_of(ready)["brevName"]) <= 63


async def test_a_script_of_full_size_is_delivered(bench: Bench) -> None:
    text = 'cat "$0" | sha256sum; exit\n' + "# filler 0123456789\n" * 13000
    text = text[:262144]
    job = await bench.run(bench.job("large", text))
    assert status_of(job)["logTail"].split()[0] == hashlib.sha256(text.encode()).hexdigest()
