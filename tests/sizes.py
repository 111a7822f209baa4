"""Files and functions stay small enough to read: run by `make check`, exits 1 with a list of what is too long."""

import ast
import subprocess
import sys
from pathlib import Path

MAX_FILE = 400
MAX_FUNCTION = 40


def problems(path: Path) -> list[str]:
    """What is too long in one Python file: the product's functions count without their docstring."""
    text = path.read_text(encoding="utf-8")
    found = []
    if text.count("\n") > MAX_FILE:
        found.append(f"{path}: {text.count(chr(10))} lines, at most {MAX_FILE}")
    if path.parts[0] != "controller":
        return found
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or node.lineno) - node.lineno + 1 - _docstring_lines(node)
            if size > MAX_FUNCTION:
                found.append(f"{path}:{node.lineno}: {node.name} has {size} lines, at most {MAX_FUNCTION}")
    return found


def _docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    if ast.get_docstring(node) is None:
        return 0
    first = node.body[0]
    return (first.end_lineno or first.lineno) - first.lineno + 1


def main() -> int:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
        check=True,
        capture_output=True,
        text=True,
    )
    found = [line for name in listed.stdout.split() if Path(name).is_file() for line in problems(Path(name))]
    print("\n".join(found) or "All files and functions are within their bounds.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
