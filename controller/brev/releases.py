"""What differs between the releases of the CLI: one table, from which `docs/reference/cli.md` is made. Pure.

*measured*: seen when that release of the real program was run against a stand-in service. *read*: in its source code.
*unverified*: from pull requests, reports or the seeds, never seen to run; the simulator can play it both ways.
Letters with numbers name the measured verdicts that the project's simulator follows, `PR n` a pull request of
https://github.com/brevdev/brev-cli.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

Value = bool | str
Number = tuple[int, int, int]


class Certainty(StrEnum):
    MEASURED = "measured"
    READ = "read"
    UNVERIFIED = "unverified"


@dataclass(frozen=True, slots=True)
class Column:
    """Releases that behave alike: from `first` to the next column's. `first` is None where no release has a number."""

    key: str
    generation: str
    title: str
    first: Number | None


COLUMNS = (
    Column("320", "G2", "v0.6.320 to .322", (0, 6, 320)),
    Column("323", "G3", "v0.6.323", (0, 6, 323)),
    Column("324", "G3", "v0.6.324 to .326", (0, 6, 324)),
    Column("327", "G3", "v0.6.327", (0, 6, 327)),
    Column("G4", "G4", "after v0.6.327", (0, 6, 328)),
    Column("GS", "GS", "the seeds' dialect", None),
)
MINIMUM: Number = (0, 6, 320)
API_KEYS_SINCE: Number = (0, 6, 324)
LAST_TESTED: Number = (0, 6, 327)


@dataclass(frozen=True, slots=True)
class Fact:
    """A value from the column `since` on, to the next fact of the row. A fact for GS counts for GS alone."""

    since: str
    value: Value
    source: str
    certainty: Certainty = Certainty.MEASURED


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that differs. The first fact is that of the oldest column; GS without a fact is like v0.6.327."""

    name: str
    meaning: str
    facts: tuple[Fact, ...]

    def fact(self, column: str) -> Fact:
        """What is known about a column."""
        own = {fact.since: fact for fact in self.facts}
        if column in own:
            return own[column]
        keys = [each.key for each in COLUMNS if each.key != "GS"]
        place = keys.index("327" if column == "GS" else column)
        found = next(own[key] for key in reversed(keys[: place + 1]) if key in own)
        if column == "GS" or (column == "G4" and found.certainty is not Certainty.UNVERIFIED):
            return Fact(column, found.value, f"assumed as in v0.6.327 ({found.source})", Certainty.UNVERIFIED)
        return found


_READ = Certainty.READ
_UNSEEN = Certainty.UNVERIFIED

ROWS = (
    Row(
        "list_shape",
        "the outermost JSON of `ls --json`; an empty list is `null` inside it",
        (Fact("320", "array", "§0.1"), Fact("323", "object", "§0.1")),
    ),
    Row(
        "text_around_json",
        "where `ls --json` may print more text on stdout",
        (Fact("320", "before and after", "A1, A2"), Fact("323", "before", "§1.0.4")),
    ),
    Row(
        "onboarding_trap",
        "without `onboarding_step.json` a login and the version fail, and `ls` may never end",
        (Fact("320", True, "A1"), Fact("323", False, "A1")),
    ),
    Row(
        "me_after_success",
        "one more request for the user after every command that worked",
        (Fact("320", True, "A32"), Fact("323", False, "A32")),
    ),
    Row(
        "late_login_prompt",
        "`exec` without a login prints the login prompt after the machine's name",
        (Fact("320", True, "A14"), Fact("323", False, "A14")),
    ),
    Row(
        "api_keys",
        "API keys (`login --api-key`, `api_key` in credentials.json)",
        (
            Fact("320", False, "§0.1"),
            Fact("324", True, "§0.1"),
            Fact("GS", False, "the seeds know tokens only; asked for by flag", _UNSEEN),
        ),
    ),
    Row(
        "api_key_env",
        "`BREV_API_KEY` in the environment wins over the saved login",
        (Fact("320", False, "B §1.12"), Fact("G4", True, "PR 464", _UNSEEN)),
    ),
    Row(
        "pod_token",
        "takes the pod's service-account token for its own login and sends it to Brev",
        (Fact("320", True, "B §1.12, A15"), Fact("G4", False, "PR 427", _UNSEEN)),
    ),
    Row(
        "organizations",
        "the command that lists organisations as JSON",
        (Fact("320", "ls orgs", "B §1.3"), Fact("GS", "orgs", "seeds: `brev orgs --json`", _UNSEEN)),
    ),
    Row(
        "create_type",
        "`create --type`",
        (Fact("320", True, "§1.6"), Fact("GS", True, "assumed; asked for by flag", _UNSEEN)),
    ),
    Row(
        "create_gpu",
        "`create --gpu NAME:COUNT`",
        (Fact("320", False, "B §1.6"), Fact("GS", True, "seeds: `--gpu L40S:1`", _UNSEEN)),
    ),
    Row(
        "create_detached",
        "`create --detached`",
        (Fact("320", True, "§1.6"), Fact("GS", True, "assumed; asked for by flag", _UNSEEN)),
    ),
    Row(
        "placement",
        "`create --cloud-cred-id` and `--workspace-group-id`",
        (Fact("320", False, "B §1.6"), Fact("GS", True, "seeds: placement info", _UNSEEN)),
    ),
    Row(
        "launchables",
        "`create --launchable`; tells a build without a version from older ones",
        (Fact("320", False, "B §0.1"), Fact("323", True, "B §0.1")),
    ),
    Row(
        "type_check",
        "`create` itself says that a type is unknown or has no capacity; else the service decides",
        (
            Fact("320", False, "A5"),
            Fact("327", True, "A5"),
            Fact("G4", False, "PR 421: the catalog moved, groups are gone", _UNSEEN),
        ),
    ),
    Row(
        "workspace_groups",
        "`create` sends a workspace group that it looks up; later ones send a cloud credential",
        (Fact("320", True, "B §3.2"), Fact("G4", False, "PR 421", _UNSEEN)),
    ),
    Row(
        "failure_text",
        "a waiting `create` says why a machine failed, not `Timeout`",
        (Fact("320", False, "A5"), Fact("324", True, "A5")),
    ),
    Row(
        "stop_unknown_fails",
        "`stop` of an unknown name is an error, not exit code 0",
        (Fact("320", False, "A4"), Fact("324", True, "A4")),
    ),
    Row(
        "stop_checks_stoppable",
        "`stop` itself refuses a type that cannot stop",
        (Fact("320", False, "B §0.1"), Fact("327", True, "B §0.1")),
    ),
    Row(
        "exec_login",
        "when `exec` is given a login: never, for a machine with SSH certificates, or always",
        (
            Fact("320", "never", "B §1.11"),
            Fact("G4", "certificate", "PR 452: ssh itself calls `brev mint-cert`", _UNSEEN),
            Fact("GS", "always", "seeds: exec without a login is an EOF error", _UNSEEN),
        ),
    ),
    Row(
        "exec_replays",
        "with a login, `exec` runs a failed command again",
        (Fact("320", True, "B §1.11"), Fact("G4", False, "PR 473", _UNSEEN)),
    ),
    Row(
        "exec_wakes",
        "with a login, `exec` starts a stopped machine",
        (Fact("320", True, "B §1.11"), Fact("G4", False, "PR 473", _UNSEEN)),
    ),
    Row(
        "exec_code",
        "the exit code of `exec` when the remote command failed",
        (Fact("320", "1", "B §1.11"), Fact("G4", "the command's", "PR 473", _UNSEEN)),
    ),
    Row(
        "exec_words",
        "what stands between `exec NAME` and `COMMAND`",
        (Fact("320", "", "B §1.11"), Fact("GS", "--", "seeds: `brev exec <instance> -- …`", _UNSEEN)),
    ),
    Row(
        "control_path",
        "`ControlPath` in the ssh_config that `refresh` writes (never used: A10)",
        (Fact("320", "~/.ssh/brev-control-%r@%h-%p", "A29"), Fact("323", "~/.ssh/brev-control-%C", "A29", _READ)),
    ),
    Row(
        "analytics",
        "analytics unless the environment forbids them, which it always does here",
        (Fact("320", "opt-in", "A24"), Fact("323", "opt-out", "A24")),
    ),
    Row(
        "nodes_in_list",
        "`ls --all` lists teammates' machines in its table and external nodes in its JSON",
        (Fact("320", False, "A18"), Fact("323", True, "A18")),
    ),
)


def column(number: Number) -> Column:
    """The column of a release that is not older than MINIMUM."""
    return next(each for each in reversed(COLUMNS) if each.first is not None and each.first <= number)


def values(key: str) -> Mapping[str, Value]:
    """All values of a column, by the name of their row."""
    return MappingProxyType({row.name: row.fact(key).value for row in ROWS})
