"""The part of an ssh_config that concerns one machine. Pure.

`brev refresh` writes two blocks for each RUNNING machine of the organisation, `Host <name>` and `Host <name>-host`.
"""

import re
from collections.abc import Iterator

_MINTS = re.compile(r"^Match\b.*\bexec\b.*\bmint-cert\b", re.IGNORECASE | re.MULTILINE)
_HEADER = re.compile(r"^(?:Host|Match)[^\S\n]+(.*)$", re.IGNORECASE | re.MULTILINE)
_WORDS = re.compile(r"[\s,]+")


def has_host(config: str, name: str) -> bool:
    """Whether the alias `name` is there. A longer name that begins the same is another machine."""
    return any(True for _ in _blocks(config, {name}))


def only(config: str, name: str) -> str:
    """The blocks of `name` and `name-host`, as they were without their empty lines; "" if there are none."""
    return "\n".join(_blocks(config, {name, f"{name}-host"}))


def mints(config: str) -> bool:
    """Whether a block calls `brev mint-cert` while ssh connects (https://github.com/brevdev/brev-cli/pull/452)."""
    return _MINTS.search(config) is not None


def _blocks(config: str, names: set[str]) -> Iterator[str]:
    """The text of each block whose header has one of the names. A config may have thousands of others."""
    headers = list(_HEADER.finditer(config))
    for number, header in enumerate(headers):
        if any(name in header[1] for name in names) and names & {word.strip('"') for word in _WORDS.split(header[1])}:
            end = headers[number + 1].start() if number + 1 < len(headers) else len(config)
            yield "\n".join(line for line in config[header.start() : end].splitlines() if line.strip()) + "\n"
