"""The part of an ssh_config that concerns one machine. Pure.

`brev refresh` writes two blocks for each RUNNING machine of the organisation, `Host <name>` and `Host <name>-host`.
"""

import re

_MINTS = re.compile(r"^Match\b.*\bexec\b.*\bmint-cert\b", re.IGNORECASE | re.MULTILINE)
_HEADER = re.compile(r"^(?:Host|Match)\s+(.*)$", re.IGNORECASE)


def has_host(config: str, name: str) -> bool:
    """Whether the alias `name` is there. A longer name that begins the same is another machine."""
    return any(name in words for words, _ in _blocks(config))


def only(config: str, name: str) -> str:
    """The blocks of `name` and `name-host`, as they were; "" if there are none."""
    own = {name, f"{name}-host"}
    return "\n".join(text for words, text in _blocks(config) if own & words)


def mints(config: str) -> bool:
    """Whether a block calls `brev mint-cert` while ssh connects (https://github.com/brevdev/brev-cli/pull/452)."""
    return any(_MINTS.search(text) for _, text in _blocks(config))


def _blocks(config: str) -> list[tuple[frozenset[str], str]]:
    """The words of each header line with the whole block's text; what stands before the first header is dropped."""
    blocks: list[tuple[frozenset[str], list[str]]] = []
    for line in config.splitlines():
        header = _HEADER.match(line)
        if header:
            words = (word.strip('"') for word in re.split(r"[\s,]+", header[1]))
            blocks.append((frozenset(words), [line]))
        elif blocks and line.strip():
            blocks[-1][1].append(line)
    return [(words, "\n".join(lines) + "\n") for words, lines in blocks]
