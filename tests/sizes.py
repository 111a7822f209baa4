"""Files and functions stay small enough to read: run by `make check`, exits 1 with a list of what is too long."""

import ast
import subprocess
import sys
from pathlib import Path

MAX_FILE = 400
MAX_FUNCTION = 40


def problems(path: Path) -> list[str]:
    """What is too long in one Python file; of the product's functions, the body without its docstring counts."""
    text = path.read_text(encoding="utf-8")
    found = []
    if text.count("\n") > MAX_FILE:
        found.append(f"{path}: {text.count(chr(10))} lines, at most {MAX_FILE}")
    if path.parts[0] != "controller":
        return found
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = _body_lines(node)
            if size > MAX_FUNCTION:
                found.append(f"{path}:{node.lineno}: {node.name} has {size} lines, at most {MAX_FUNCTION}")
    return found


def _body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return (body[-1].end_lineno or body[-1].lineno) - body[0].lineno + 1 if body else 0


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
