"""What the installed CLI can do, from its version or, where it has none that is known, from its flags. Pure.

The facts are in `releases.py`. Releases after the last tested one are let in, marked as untested, so that an upgrade of
the CLI does not stop an operator; those before the first are not, since their `exec` asks the service before each
command and so never works without a login.
"""

import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields, replace

from controller.brev import releases
from controller.brev.errors import CliUnsupported, PlacementUnsupported
from controller.brev.releases import COLUMNS, Number

PLACEMENT_FLAGS = frozenset({"cloud-cred-id", "workspace-group-id"})

_TEXT = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?:[-+.][0-9A-Za-z.+-]*)?")
_FLAG = re.compile(r"^\s+(?:-\w, )?--([a-z][a-z0-9-]*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What one release can do, as far as the client acts on it; the rows of `releases.py` say what each means."""

    version: str
    generation: str
    list_shape: str
    api_keys: bool
    organizations: str
    create_type: bool
    create_gpu: bool
    create_detached: bool
    placement: bool
    type_check: bool
    stop_unknown_fails: bool
    stop_checks_stoppable: bool
    exec_login: str
    exec_replays: bool
    exec_wakes: bool
    exec_code: str
    exec_words: str
    untested: bool = False


def known(version: str) -> bool:
    """Whether the version text alone says what the program can do."""
    return _number(version) is not None


def capabilities(version: str) -> Capabilities:
    """Look up a version text ("v0.6.327"). CliUnsupported names the version and the minimum."""
    if not version:
        raise CliUnsupported(
            "this build of the brev CLI has no version (built by go install?); "
            f"install a release, {name(releases.MINIMUM)} or later"
        )
    number = _number(version)
    if number is None:
        raise CliUnsupported(
            f"the brev CLI calls itself {version[:40]!r}, which is no release; "
            f"{name(releases.MINIMUM)} or later is needed"
        )
    if number < releases.MINIMUM:
        raise CliUnsupported(f"brev {version} is too old; {name(releases.MINIMUM)} or later is needed")
    return _of(releases.column(number).key, version, untested=number > releases.LAST_TESTED)


def from_flags(version: str, create: AbstractSet[str], *, api_keys: bool) -> Capabilities:
    """What a build without a known version can do: by the flags of its `create`, and whether `login` knows API keys.

    Placement flags make it the seeds' dialect. `--launchable` makes it v0.6.323 or later, of which the oldest that fits
    is assumed. Anything else is as `capabilities` says: CliUnsupported.
    """
    if create >= PLACEMENT_FLAGS:
        return replace(with_flags(_of("GS", version or "unversioned", untested=True), create), api_keys=api_keys)
    if create >= {"launchable", "type", "detached"}:
        return _of("324" if api_keys else "323", version or "unversioned", untested=True)
    return capabilities(version)


def with_flags(found: Capabilities, create: AbstractSet[str]) -> Capabilities:
    """The same with what the help of `create` lists, for a release that nobody has tested."""
    if not create & {"type", "gpu"}:
        raise CliUnsupported(f"create of brev {found.version} has neither --type nor --gpu")
    return replace(
        found,
        create_type="type" in create,
        create_gpu="gpu" in create,
        create_detached="detached" in create,
        placement=create >= PLACEMENT_FLAGS,
    )


def flags_in(help_text: str) -> frozenset[str]:
    """The long flags that a `--help` lists."""
    return frozenset(_FLAG.findall(help_text))


def require_api_keys(release: Capabilities) -> None:
    """CliUnsupported if this release does not know API keys: it would act as logged out."""
    if not release.api_keys:
        raise CliUnsupported(
            f"brev {release.version} cannot use API keys; {name(releases.API_KEYS_SINCE)} or later is needed, "
            "or a BREV_API_TOKEN instead of the key"
        )


def require_placement(release: Capabilities) -> None:
    """PlacementUnsupported if `create` has no flags for where a machine goes: an id is never left out silently."""
    if not release.placement:
        raise PlacementUnsupported(
            f"brev {release.version} cannot be told a cloud credential or workspace group: its create has neither flag"
        )


def name(number: Number) -> str:
    """The release as its tag says it."""
    return "v" + ".".join(map(str, number))


def _of(key: str, version: str, *, untested: bool = False) -> Capabilities:
    generation = next(each.generation for each in COLUMNS if each.key == key)
    wanted = {field.name for field in fields(Capabilities)}
    facts = {row: value for row, value in releases.values(key).items() if row in wanted}
    return Capabilities(version=version, generation=generation, untested=untested, **facts)  # type: ignore[arg-type]


def _number(version: str) -> Number | None:
    found = _TEXT.fullmatch(version)
    return None if found is None else (int(found[1]), int(found[2]), int(found[3]))
