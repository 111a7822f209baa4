"""What an executable is: by its version, or by the flags that its help lists. No question here uses the network."""

from collections.abc import Awaitable, Callable, Sequence

from controller.brev import commands, errors
from controller.brev.features import Capabilities, capabilities, flags_in, from_flags, known, with_flags
from controller.brev.model import Output
from controller.brev.parse import version_text

_FAILURES = (errors.UnknownFailure, errors.CliUnsupported, errors.AuthRequired)

Ask = Callable[[Sequence[str]], Awaitable[Output]]


async def ask(call: Ask) -> Capabilities:
    """Ask the program. CliUnsupported if it is none that we know; other errors of a call pass through."""
    version = await _version(call)
    if version is not None and known(version):
        found = capabilities(version)
        create = await _create_flags(call) if found.untested else frozenset()
        return with_flags(found, create) if create else found
    create = await _create_flags(call)
    if create:
        return from_flags(version or "", create, api_keys=await _has_api_keys(call))
    if version is None:
        raise errors.CliUnsupported("brev --version does not name a brev release, and brev create has no help")
    return capabilities(version)


async def _version(call: Ask) -> str | None:
    """What stands after `Current Version:`, None where nothing does."""
    try:
        stdout = (await call(commands.version())).stdout
    except _FAILURES as error:
        stdout = _answer(error)  # up to v0.6.322 it is said before the failure
    return version_text(stdout)


async def _create_flags(call: Ask) -> frozenset[str]:
    try:
        return flags_in((await call(commands.create_help())).stdout)
    except _FAILURES as error:
        return flags_in(_answer(error))


async def _has_api_keys(call: Ask) -> bool:
    try:
        await call(commands.api_key_help())
    except _FAILURES as error:
        _answer(error)
        return False
    return True


def _answer(error: errors.BrevError) -> str:
    """What the program said before it failed by itself; an end by a signal, or before it began, is no answer."""
    if error.returncode != 1:
        raise error
    return error.stdout
