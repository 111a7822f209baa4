"""What differs between releases of the program: rules as rows, each with its source and how sure it is.

Letters and numbers such as A4 name the measured verdicts, § a section of the notes on the source, PR a pull request of
https://github.com/brevdev/brev-cli. What nobody has seen has a second value, `otherwise`: a *variant* plays that one,
so that a client can be held to both. A release without a column is refused when the simulator starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

Value = bool | str

VERSIONS = (
    "v0.6.320",
    "v0.6.322",
    "v0.6.323",
    "v0.6.324",
    "v0.6.325",
    "v0.6.326",
    "v0.6.327",
    "v0.6.334",
    "seeds",
)
"""The last two have never been seen to run: one of the fourth generation, and the program that the seeds describe."""
_SEEDS, _NEWEST_SEEN = "seeds", "v0.6.327"


class Certainty(StrEnum):
    MEASURED = "measured"
    READ = "read"
    UNVERIFIED = "unverified"


@dataclass(frozen=True, slots=True)
class Fact:
    """A value from the release `since` on; one for the seeds counts for them alone."""

    since: str
    value: Value
    source: str
    otherwise: Value | None = None

    @property
    def certainty(self) -> Certainty:
        if self.since in VERSIONS[-2:]:
            return Certainty.UNVERIFIED
        return Certainty.READ if self.source.startswith("§") else Certainty.MEASURED


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that differs. The seeds are like v0.6.327 where they say nothing."""

    name: str
    meaning: str
    facts: tuple[Fact, ...]

    def fact(self, version: str) -> Fact:
        own = {fact.since: fact for fact in self.facts}
        if version in own:
            return own[version]
        place = VERSIONS.index(_NEWEST_SEEN if version == _SEEDS else version)
        return next(own[each] for each in reversed(VERSIONS[: place + 1]) if each in own)


@dataclass(frozen=True, slots=True)
class Release:
    """One release in one variant; the rows of RULES say what each field means."""

    version: str
    variant: str
    list_is_object: bool
    onboarding: bool
    me_after_success: bool
    late_login_prompt: bool
    nodes_in_list: bool
    groups_in_list: bool
    orgs_command: bool
    orgs_say_active: bool
    api_key_login: bool
    api_key_env: bool
    pod_token: bool
    launchables: bool
    create_type: bool
    create_gpu: bool
    create_detached: bool
    placement_flags: bool
    type_check: bool
    workspace_groups: bool
    failure_text: bool
    stop_unknown_fails: bool
    stop_checks_stoppable: bool
    exec_needs_login: bool
    exec_joins_words: bool
    exec_replays: bool
    exec_wakes: bool
    exec_tells_code: bool
    ssh_certificates: bool
    control_path: str

    @property
    def version_text(self) -> str:
        """Assumed for the seeds' program, which is in no list of releases."""
        return "brev, as the seeds have it\n" if self.version == _SEEDS else f"Current Version: {self.version}\n"


RULES = (
    Rule(
        "list_is_object",
        '`ls --json` prints {"workspaces": …}; before, a bare array (`null` when empty)',
        (Fact("v0.6.320", False, "B 0.1"), Fact("v0.6.323", True, "B 0.1")),
    ),
    Rule(
        "onboarding",
        "a menu, or no end, until `onboarding_step.json` says step 1",
        (Fact("v0.6.320", True, "A1"), Fact("v0.6.323", False, "A1")),
    ),
    Rule(
        "me_after_success",
        "one more `GET /api/me` after every command that worked",
        (Fact("v0.6.320", True, "A32"), Fact("v0.6.323", False, "A32")),
    ),
    Rule(
        "late_login_prompt",
        "a logged-out `exec` that worked prints the login prompt after the name line",
        (Fact("v0.6.320", True, "A14"), Fact("v0.6.323", False, "A14")),
    ),
    Rule(
        "nodes_in_list",
        "`ls --all` also lists external nodes, and its table teammates' machines",
        (Fact("v0.6.320", False, "A18"), Fact("v0.6.323", True, "A18")),
    ),
    Rule(
        "groups_in_list",
        "a row of `ls --json` has workspaceGroupId",
        (Fact("v0.6.320", False, "A-1.14"), Fact("seeds", True, "seeds: jq -r '.workspaces[0].workspaceGroupId'")),
    ),
    Rule(
        "orgs_command",
        "`orgs --json` exists, with cloudCredentials",
        (Fact("v0.6.320", False, "B 1.4"), Fact("seeds", True, "seeds: brev orgs --json")),
    ),
    Rule(
        "orgs_say_active",
        "rows of organisations have is_active",
        (Fact("v0.6.320", True, "B 1.3"), Fact("seeds", True, "seeds: not said", otherwise=False)),
    ),
    Rule(
        "api_key_login",
        "`login --api-key`, and keys in credentials.json",
        (
            Fact("v0.6.320", False, "B 0.1"),
            Fact("v0.6.324", True, "B 0.1"),
            Fact("seeds", False, "seeds: not said", otherwise=True),
        ),
    ),
    Rule(
        "api_key_env",
        "BREV_API_KEY of the environment wins",
        (Fact("v0.6.320", False, "B 1.12"), Fact("v0.6.334", True, "PR 464", otherwise=False)),
    ),
    Rule(
        "pod_token",
        "a service-account token file is taken for the login",
        (Fact("v0.6.320", True, "B 1.12"), Fact("v0.6.334", False, "PR 427", otherwise=True)),
    ),
    Rule("launchables", "`create -l`", (Fact("v0.6.320", False, "B 0.1"), Fact("v0.6.323", True, "B 0.1"))),
    Rule(
        "create_type",
        "`create --type`",
        (Fact("v0.6.320", True, "B 1.6"), Fact("seeds", True, "seeds: not said", otherwise=False)),
    ),
    Rule(
        "create_gpu",
        "`create --gpu NAME:COUNT`",
        (Fact("v0.6.320", False, "B 1.6"), Fact("seeds", True, "seeds: --gpu L40S:1")),
    ),
    Rule(
        "create_detached",
        "`create --detached`",
        (Fact("v0.6.320", True, "B 1.6"), Fact("seeds", True, "seeds: not said", otherwise=False)),
    ),
    Rule(
        "placement_flags",
        "`create --cloud-cred-id --workspace-group-id`",
        (Fact("v0.6.320", False, "B 1.6"), Fact("seeds", True, "seeds: placement info")),
    ),
    Rule(
        "type_check",
        "`create` resolves the type itself: unknown types and missing capacity never reach the server",
        (
            Fact("v0.6.320", False, "A5"),
            Fact("v0.6.327", True, "A5"),
            Fact("v0.6.334", False, "PR 421", otherwise=True),
        ),
    ),
    Rule(
        "workspace_groups",
        "`create` sends the first group of the type; else a cloud credential from another catalog",
        (Fact("v0.6.320", True, "B 3.2"), Fact("v0.6.334", False, "PR 421", otherwise=True)),
    ),
    Rule(
        "failure_text",
        "`create` that waits says why a machine failed, not `Timeout`",
        (Fact("v0.6.320", False, "A5"), Fact("v0.6.324", True, "A5")),
    ),
    Rule(
        "stop_unknown_fails",
        "`stop` of an unknown name fails; before, 0 and the name although nothing was stopped",
        (Fact("v0.6.320", False, "A4"), Fact("v0.6.324", True, "A4")),
    ),
    Rule(
        "stop_checks_stoppable",
        "`stop` looks at the type itself",
        (Fact("v0.6.320", False, "B 0.1"), Fact("v0.6.327", True, "B 0.1")),
    ),
    Rule(
        "exec_needs_login",
        "`exec` asks who one is before it connects",
        (Fact("v0.6.320", False, "B 1.11"), Fact("seeds", True, "seeds: EOF error of exec")),
    ),
    Rule(
        "exec_joins_words",
        "what follows `--` is the command, however many words",
        (Fact("v0.6.320", False, "B 1.11"), Fact("seeds", True, "seeds: brev exec <instance> -- docker run …")),
    ),
    Rule(
        "exec_replays",
        "any failure of `exec` takes the slow path, which runs the command again",
        (
            Fact("v0.6.320", True, "B 1.11"),
            Fact("v0.6.334", False, "PR 473", otherwise=True),
            Fact("seeds", True, "seeds: not said", otherwise=False),
        ),
    ),
    Rule(
        "exec_wakes",
        "the slow path of `exec` starts a stopped machine",
        (
            Fact("v0.6.320", True, "B 1.11"),
            Fact("v0.6.334", False, "PR 473", otherwise=True),
            Fact("seeds", True, "seeds: not said", otherwise=False),
        ),
    ),
    Rule(
        "exec_tells_code",
        "`exec` ends with the remote command's exit code",
        (Fact("v0.6.320", False, "B 1.11"), Fact("v0.6.334", True, "PR 473", otherwise=False)),
    ),
    Rule(
        "ssh_certificates",
        "ssh itself calls `brev mint-cert` when it connects",
        (Fact("v0.6.320", False, "B 1.12"), Fact("v0.6.334", True, "PR 452", otherwise=False)),
    ),
    Rule(
        "control_path",
        "ControlPath of the generated ssh_config",
        (Fact("v0.6.320", "~/.ssh/brev-control-%r@%h-%p", "A29"), Fact("v0.6.323", "~/.ssh/brev-control-%C", "§1.12")),
    ),
)


def unseen(version: str) -> tuple[str, ...]:
    """Rules of a release that have a second value."""
    return tuple(rule.name for rule in RULES if rule.fact(version).otherwise is not None)


def release(version: str, variant: str = "a") -> Release:
    """A release as the rows have it. Variant "a" takes the first values, "b" the second ones wherever there are any,
    and names of rules with commas between them the second ones of these alone. ValueError for what does not exist.
    """
    if version not in VERSIONS:
        raise ValueError(f"no such release: {version}; known: {', '.join(VERSIONS)}")
    flipped = {"a": (), "b": unseen(version)}.get(variant, tuple(variant.split(",")))
    if strange := set(flipped) - set(unseen(version)):
        raise ValueError(f"nothing else is thought possible of {', '.join(sorted(strange))} in {version}")
    values: dict[str, Value] = {}
    for rule in RULES:
        fact = rule.fact(version)
        other = fact.otherwise if rule.name in flipped else None
        values[rule.name] = fact.value if other is None else other
    return Release(version=version, variant=variant, **values)  # type: ignore[arg-type]


RELEASES: dict[str, Release] = {version: release(version) for version in VERSIONS}
