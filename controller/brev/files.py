"""Small private files: nobody else can read them, and nobody ever sees half of one."""

import os
import secrets
from pathlib import Path

PRIVATE_DIRECTORY = 0o700
PRIVATE_FILE = 0o600


def private_directory(path: Path) -> Path:
    """Make the directory and its missing parents, all of mode 0700; one that exists is narrowed to it."""
    for parent in reversed(path.parents):
        if not parent.exists():
            parent.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
    path.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
    path.chmod(PRIVATE_DIRECTORY)
    return path


def write_private(path: Path, text: str, mode: int = PRIVATE_FILE) -> None:
    """Replace the file in one step. A crash leaves the old file, and perhaps a `.tmp` beside it."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
