"""Builds the runner into one file that Python can run. The same sources give the same bytes, on every machine and
day.
"""

from __future__ import annotations

import functools
import hashlib
import io
import sys
import zipfile
from pathlib import Path

_SOURCES = Path(__file__).parent / "runner"
_PACKAGE = "brev_runner"
_MAIN = b"import sys\n\nfrom brev_runner.main import main\n\nsys.exit(main(sys.argv[1:]))\n"
#: The earliest time that a zip archive can hold.
_EPOCH = (1980, 1, 1, 0, 0, 0)


@functools.cache
def runner_archive() -> bytes:
    """The bytes of ``runner.pyz``. Stored without compression: deflate differs between zlib builds."""
    entries = {f"{_PACKAGE}/{path.name}": path.read_bytes() for path in _SOURCES.glob("*.py")}
    entries["__main__.py"] = _MAIN
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(entries):
            info = zipfile.ZipInfo(name, _EPOCH)
            info.create_system = 3
            info.external_attr = 0o100644 << 16
            archive.writestr(info, entries[name])
    return buffer.getvalue()


def runner_digest() -> str:
    """SHA-256 of the archive, in hex: names the runner's version in manifests and logs."""
    return hashlib.sha256(runner_archive()).hexdigest()


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "runner.pyz")
    target.write_bytes(runner_archive())
    print(f"{runner_digest()}  {target}")
