"""Pure pieces of the rules: flags, Go's JSON, tables, faults, ssh configuration, scp."""

from __future__ import annotations

import json
import stat
from dataclasses import fields, replace
from pathlib import Path

import pytest

from controller.brev.features import capabilities
from controller.brev.releases import column, values
from controller.sandbox.brevsim.faults import Faults, Point
from controller.sandbox.brevsim.profile import Profile
from controller.sandbox.brevsim.release import RULES, VERSIONS, Certainty, Release, release, unseen
from controller.sandbox.brevsim.rules.call import CliError
from controller.sandbox.brevsim.rules.flags import Flag, parse
from controller.sandbox.brevsim.rules.ssh import read_config
from controller.sandbox.brevsim.rules.text import go_json, multierror, table
from controller.sandbox.brevsim.transfer import TransferError, remote_path, transfer

FLAGS = (
    Flag("type", "string", "t"),
    Flag("count", "int", "c", 1),
    Flag("detached", "bool", "d", False),
    Flag("jupyter", "bool", "", True),
)


@pytest.mark.parametrize(
    ("argv", "values", "rest"),
    [
        (["x", "--type", "a", "-d"], {"type": "a", "detached": True}, ["x"]),
        (["--type=a,b", "-c3", "x"], {"type": "a,b", "count": 3}, ["x"]),
        (["-dt", "a"], {"type": "a", "detached": True}, []),
        (["-d=false", "--jupyter=false"], {"detached": False, "jupyter": False}, []),
        (["x", "--", "--type", "-d"], {"detached": False}, ["x", "--type", "-d"]),
        (["-"], {}, ["-"]),
    ],
)
def test_flags_are_read_as_pflag_reads_them(argv: list[str], values: dict[str, object], rest: list[str]) -> None:
    parsed = parse(argv, FLAGS)
    assert {key: parsed[key] for key in values} == values
    assert parsed.arguments == rest


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["--nope"], "unknown flag: --nope"),
        (["-x"], "unknown shorthand flag: 'x' in -x"),
        (["--type"], "flag needs an argument: --type"),
        (["-t"], "flag needs an argument: 't' in -t"),
        (["-c", "x"], 'invalid argument "x" for "-c, --count" flag: strconv.ParseInt: parsing "x": invalid syntax'),
    ],
)
def test_bad_flags_have_pflags_texts(argv: list[str], text: str) -> None:
    with pytest.raises(CliError) as caught:
        parse(argv, FLAGS)
    assert caught.value.text == text


def test_json_is_indented_and_escaped_as_go_does() -> None:
    value = {"a": [], "b": None, "c": [1.0, 0.5, True], "d": '<&>"ü\n', "e": {"f": "g"}}
    text = go_json(value)
    assert json.loads(text) == value
    assert text == (
        '{\n  "a": [],\n  "b": null,\n  "c": [\n    1,\n    0.5,\n    true\n  ],\n'
        '  "d": "\\u003c\\u0026\\u003e\\"ü\\n",\n  "e": {\n    "f": "g"\n  }\n}'
    )


def test_several_errors_are_counted() -> None:
    assert multierror(["a", "b"]) == "2 errors occurred:\n\t* a\n\t* b\n\n"


def test_a_table_is_padded_to_its_end() -> None:
    assert table(("N", "COUNT"), [("ab", "1")], frozenset({1})) == " N   COUNT \n ab      1 \n"


@pytest.mark.parametrize(
    ("match", "fired"),
    [
        ({"verb": "ls"}, [True, False, False]),
        ({"verb": ["ls", "create"], "count": 2}, [True, True, False]),
        ({"name": "bo-*", "nth": 2}, [False, True, False]),
        ({"every": True}, [True, True, True]),
        ({"verb": "delete", "every": True}, [False, False, False]),
        ({"name": "other", "every": True}, [False, False, False]),
    ],
)
def test_a_rule_fires_as_often_as_it_says(match: dict[str, object], fired: list[bool]) -> None:
    faults = Faults()
    faults.add({"match": match, "action": "fail"})
    assert [bool(faults.take(Point.CALL, verb="ls", name="bo-1")) for _ in range(3)] == fired
    assert faults.take(Point.SSH, verb="ls", name="bo-1") == []


def test_an_unknown_latency_is_refused() -> None:
    with pytest.raises(TypeError):
        Profile.instant().changed({"bot": 1.0})


def test_the_blocks_of_an_ssh_configuration_are_read(tmp_path: Path) -> None:
    config = tmp_path / "ssh_config"
    config.write_text(
        '# included\nHost a\n  Hostname 198.18.0.2\n  IdentityFile "/k/brev.pem"\n  User u\n  Port 2222\n\nHost b\n'
    )
    hosts = read_config(config)
    assert list(hosts) == ["a", "b"]
    found = hosts["a"]
    assert (found.address, found.identity, found.user, found.port) == ("198.18.0.2", "/k/brev.pem", "u", 2222)
    assert read_config(tmp_path / "none") == {}


def test_an_existing_file_keeps_its_mode_and_links_are_followed(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("new")
    source.chmod(0o777)
    (tmp_path / "link").symlink_to(source)
    target.write_text("an older and longer text")
    target.chmod(0o600)
    transfer(tmp_path / "link", target, 0o022, shown="target", source_shown="link")
    assert (target.read_text(), stat.S_IMODE(target.stat().st_mode)) == ("new", 0o600)


@pytest.mark.parametrize("text", ["/etc/passwd", "../../../x", "~/../../x", "/"])
def test_no_remote_path_leaves_the_machine(tmp_path: Path, text: str) -> None:
    with pytest.raises(TransferError, match="Permission denied"):
        remote_path(tmp_path / "m", tmp_path / "m" / "home", text)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_rule_has_a_value_a_source_and_a_certainty_in_every_release(version: str) -> None:
    assert {rule.name for rule in RULES} == {field.name for field in fields(Release)} - {"version", "variant"}
    for rule in RULES:
        fact = rule.fact(version)
        assert fact.source
        assert fact.certainty in Certainty
        assert fact.otherwise is None or fact.certainty is Certainty.UNVERIFIED


def test_a_variant_plays_the_other_value_of_what_nobody_has_seen() -> None:
    first, other = release("v0.6.334"), release("v0.6.334", "b")
    assert (first.exec_replays, other.exec_replays) == (False, True)
    single = release("v0.6.334", "exec_replays")
    assert (single.exec_replays, single.ssh_certificates) == (True, first.ssh_certificates)
    assert unseen("v0.6.327") == ()
    assert release("v0.6.327", "b") == replace(release("v0.6.327"), variant="b")
    for version, variant in (("v0.6.327", "exec_replays"), ("v0.6.334", "nonsense"), ("v0.6.300", "a")):
        with pytest.raises(ValueError, match=r"no such release|nothing else"):
            release(version, variant)


@pytest.mark.parametrize("version", [each for each in VERSIONS if each != "seeds"])
def test_the_client_and_the_simulator_tell_the_same_of_every_release(version: str) -> None:
    """Two tables, written apart: what one of them has wrong would otherwise be proved right by the other."""
    rules, client = release(version), capabilities(version)
    facts = values(column((int(version[1]), int(version[3]), int(version[5:]))).key)
    assert (client.list_shape == "object") == rules.list_is_object
    assert (client.exec_login == "certificate") == rules.ssh_certificates
    assert (client.exec_code != "1") == rules.exec_tells_code
    for name, rule in _SAME.items():
        assert facts[name] == getattr(rules, rule), name


def test_the_client_and_the_simulator_tell_the_same_of_the_seeds() -> None:
    rules, facts = release("seeds"), values("GS")
    assert (facts["organizations"], facts["exec_words"], facts["exec_login"]) == ("orgs", "--", "always")
    assert rules.orgs_command
    assert rules.exec_joins_words
    assert rules.exec_needs_login
    for name, rule in _SAME.items():
        assert facts[name] == getattr(rules, rule), name


_SAME = {
    "onboarding_trap": "onboarding",
    "api_keys": "api_key_login",
    "placement": "placement_flags",
} | {
    name: name
    for name in (
        "me_after_success",
        "late_login_prompt",
        "api_key_env",
        "pod_token",
        "create_type",
        "create_gpu",
        "create_detached",
        "launchables",
        "type_check",
        "workspace_groups",
        "failure_text",
        "stop_unknown_fails",
        "stop_checks_stoppable",
        "exec_replays",
        "exec_wakes",
        "control_path",
        "nodes_in_list",
    )
}
