"""What the program says to command lines, before it asks anybody."""

from __future__ import annotations

import re

import pytest

from controller.sandbox.brevsim.release import Release
from tests.contract.program import Case, Program


def said(text: str) -> str:
    return re.escape(text + "\n")


_BAD_NAME = "name must start with a letter or digit and contain only letters, digits, hyphens, underscores, and dots"
_ONE_SIDE = "exactly one of source or destination must be an instance path (format: instance_name:/path)"
_NO_NAME = "instance name required: provide as argument or pipe from another command"
_SORTS = "arch, boot-time, capability, disk, gpu-count, price, provider, ram, total-vram, type, vcpu, vram"
_KEY_NEEDS_ORG = "api key auth requires an org id; run brev login --api-key <api-key> --org-id <org-id>"
_KEY_ALONE = "api-key cannot be used with token, skip-browser, email, or auth flags"


def has_keys(rules: Release) -> bool:
    return rules.api_key_login


def is_a_release(rules: Release) -> bool:
    return not rules.placement_flags


CASES = [
    Case(
        "version",
        ["--version", "--no-check-latest"],
        0,
        r"Current Version: v\d+\.\d+\.\d+\n",
        source="§1",
        fits=is_a_release,
    ),
    Case("no arguments: usage on stderr", [], 0, r"\n👋 .*", r"Usage:\n.*", source="A20"),
    Case("help on stdout", ["create", "--help"], 0, r".*--detached .*--type string.*", source="§1"),
    Case(
        "orgs is no command",
        ["orgs"],
        1,
        "",
        r'unknown command "orgs" for "brev"\n\nDid you mean this\?\n\torg\n\n',
        fits=is_a_release,
    ),
    Case(
        "orgs is no command, with a flag",
        ["orgs", "--json"],
        1,
        "",
        r'unknown command "orgs" for "brev".*',
        fits=is_a_release,
    ),
    Case("a typo", ["lst"], 1, "", r'unknown command "lst" for "brev"\n\nDid you mean this\?\n.*\tls\n.*', source="§1"),
    Case("delete --yes", ["delete", "x", "--yes"], 1, "", said("unknown flag: --yes"), source="§1"),
    Case(
        "create --gpu",
        ["create", "x", "--gpu", "L40S:1"],
        1,
        "",
        said("unknown flag: --gpu"),
        source="§1",
        fits=is_a_release,
    ),
    Case("create --json", ["create", "x", "--json"], 1, "", said("unknown flag: --json"), source="§1"),
    Case("create --org", ["create", "x", "--org", "acme"], 1, "", said("unknown flag: --org"), source="§1"),
    Case(
        "create --cloud-cred-id",
        ["create", "x", "--cloud-cred-id", "c"],
        1,
        "",
        said("unknown flag: --cloud-cred-id"),
        fits=is_a_release,
    ),
    Case(
        "a value is missing", ["create", "x", "--type"], 1, "", said("flag needs an argument: --type"), source="source"
    ),
    Case("create without name", ["create"], 1, "", said("name is required"), source="§6"),
    Case(
        "create, 64 letters",
        ["create", "a" * 64, "--type", "t"],
        1,
        "",
        said("name must be 63 characters or fewer (got 64)"),
    ),
    Case("create, flag-like", ["create", "-x", "-d"], 1, "", said("unknown shorthand flag: 'x' in -x"), source="§6"),
    Case("create, underscore first", ["create", "_x", "--type", "t"], 1, "", said(_BAD_NAME), source="§6"),
    Case("create, a space", ["create", "a b", "--type", "t"], 1, "", said(_BAD_NAME), source="§6"),
    Case("create, count 0", ["create", "x", "--count", "0"], 1, "", said("--count must be at least 1"), source="§6"),
    Case("create, no script", ["create", "x", "-s", "@/nope"], 1, "", said("open /nope: no such file or directory")),
    Case(
        "create, container",
        ["create", "x", "-m", "container"],
        1,
        "",
        said("--container-image is required for container mode"),
    ),
    Case(
        "create, T4 is below the default capability", ["create", "x", "-g", "T4"], 1, "", r"no GPU instances match .*\n"
    ),
    Case("dry run of an unknown type", ["create", "x", "--type", "bogus", "--dry-run"], 0, "bogus\n", source="§6"),
    Case("delete without name", ["delete"], 1, "", said(_NO_NAME), source="§7"),
    Case("stop without name", ["stop"], 1, "", said(_NO_NAME), source="§7"),
    Case("reset without name", ["reset"], 0, source="§7"),
    Case("exec without arguments", ["exec"], 1, "", said("requires at least 1 arg(s), only received 0"), source="§9"),
    Case("exec with a command alone", ["exec", "true"], 1, "", said(_NO_NAME), source="§9"),
    Case("exec, empty command", ["exec", "tj-1", ""], 1, "", said("command is required"), source="§9"),
    Case(
        "exec, missing file",
        ["exec", "tj-1", "@/none"],
        1,
        "",
        said("open /none: no such file or directory"),
        source="§9",
    ),
    Case("exec, @ alone", ["exec", "tj-1", "@"], 1, "", said("open : no such file or directory"), source="§9"),
    Case(
        "exec, words after the name", ["exec", "tj-1", "ls", "-la"], 1, "", said("unknown shorthand flag: 'l' in -la")
    ),
    Case("copy, one argument", ["copy", "a"], 1, "", said("accepts 2 arg(s), received 1"), source="§10"),
    Case("copy, no instance", ["copy", "a", "b"], 1, "", said(_ONE_SIDE), source="§10"),
    Case("copy, two instances", ["copy", "x:/a", "y:/b"], 1, "", said(_ONE_SIDE), source="§10"),
    Case(
        "copy, two colons",
        ["copy", "tj-1:/a:b", "/x"],
        1,
        "",
        said("invalid instance path format, use instance_name:/path"),
        source="§10",
    ),
    Case(
        "copy, nothing here",
        ["copy", "/none", "tj-1:/x"],
        1,
        "",
        said("local file or directory does not exist: /none"),
        source="§10",
    ),
    Case(
        "search, bad sort",
        ["search", "--sort", "zz"],
        1,
        "",
        said(f'invalid sort option "zz". Valid options: {_SORTS}'),
    ),
    Case("search --gpu-count", ["search", "--gpu-count", "1"], 1, "", said("unknown flag: --gpu-count"), source="§5"),
    Case("org --json", ["org", "--json"], 1, "", said("unknown flag: --json"), source="§4"),
    Case(
        "org set without name", ["org", "set"], 1, "", said("requires at least 1 arg(s), only received 0"), source="§4"
    ),
    Case(
        "login with a word", ["login", "extra"], 1, "", said('unknown command "extra" for "brev login"'), source="§2.2"
    ),
    Case(
        "login, odd key",
        ["login", "--api-key", "x", "--org-id", "o"],
        1,
        "",
        said("api key must start with bak-"),
        fits=has_keys,
    ),
    Case(
        "login, key without org",
        ["login", "--api-key", "bak-x"],
        1,
        "",
        said(_KEY_NEEDS_ORG),
        source="§2.3",
        fits=has_keys,
    ),
    Case(
        "login, org alone",
        ["login", "--org-id", "o"],
        1,
        "",
        said("org-id can only be used with api-key"),
        source="§2.3",
        fits=has_keys,
    ),
    Case(
        "login, both",
        ["login", "--api-key", "bak-x", "--token", "t"],
        1,
        "",
        said(_KEY_ALONE),
        source="§2.3",
        fits=has_keys,
    ),
    Case(
        "login, auth", ["login", "--auth", "foo"], 1, "", said("auth provider must be nvidia or legacy"), source="§2.3"
    ),
    Case(
        "--user",
        ["ls", "--user", "nosuch"],
        1,
        "",
        said('strconv.Atoi: parsing "nosuch": invalid syntax'),
        source="§11",
    ),
    Case("healthcheck", ["healthcheck"], 0, "Healthy!\n", source="§7"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_a_command_line_is_answered_as_measured(brev: Program, case: Case) -> None:
    await case.run(brev)
    assert await brev.simulator.machines() == []
