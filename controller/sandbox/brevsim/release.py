"""What differs between releases of the real program, one row a release.

Sources: measurements of v0.6.317 to v0.6.327 against a fake API and a real sshd. Letters and numbers such as A4 name
the measured verdicts. A release without a row is refused when the simulator starts.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Release:
    version: str
    list_is_object: bool = True
    """`ls --json` prints `{"workspaces": …}`; older ones a bare array (`null` when empty)."""
    api_key_login: bool = True
    launchables: bool = True
    """`create -l`."""
    type_check: bool = True
    """`create` resolves the type itself: unknown types and missing capacity never reach the server (A5)."""
    failure_text: bool = True
    """`create` that waits says why a machine failed, not `Timeout` (A5)."""
    stop_unknown_fails: bool = True
    """Older ones end with 0 and print the name although nothing was stopped (A4)."""
    stop_checks_stoppable: bool = True
    onboarding: bool = False
    """Older ones show a menu, or hang, until `onboarding_step.json` says step 1 (A1)."""
    control_path: str = "~/.ssh/brev-control-%C"
    nodes_in_list: bool = True
    """`ls --all` also lists external nodes and the table shows teammates' machines (A18)."""
    late_login_prompt: bool = False
    """A logged-out `exec` that worked prints the login prompt after the name line (A14)."""
    me_after_success: bool = False
    """One more `GET /api/me` after every command that worked (A32)."""


_G2 = Release(
    version="v0.6.322",
    list_is_object=False,
    api_key_login=False,
    launchables=False,
    type_check=False,
    failure_text=False,
    stop_unknown_fails=False,
    stop_checks_stoppable=False,
    onboarding=True,
    control_path="~/.ssh/brev-control-%r@%h-%p",
    nodes_in_list=False,
    late_login_prompt=True,
    me_after_success=True,
)
_V323 = Release(
    version="v0.6.323",
    api_key_login=False,
    type_check=False,
    failure_text=False,
    stop_unknown_fails=False,
    stop_checks_stoppable=False,
)


def _v324_to_326(version: str) -> Release:
    return Release(version=version, type_check=False, stop_checks_stoppable=False)


RELEASES: dict[str, Release] = {
    release.version: release
    for release in (
        _G2,
        _V323,
        _v324_to_326("v0.6.324"),
        _v324_to_326("v0.6.325"),
        _v324_to_326("v0.6.326"),
        Release(version="v0.6.327"),
    )
}
