"""The rules of the `brev` program: from argv to output, exit code and effects."""

from __future__ import annotations

from controller.sandbox.brevsim.rules.run import run

__all__ = ["run"]
