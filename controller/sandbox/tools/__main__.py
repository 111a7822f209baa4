"""`python -m controller.sandbox.tools`: find or build Helm and Argo CD's Lua, and print where they are."""

import sys

from controller.sandbox.controlplane.errors import BinariesUnavailableError
from controller.sandbox.tools import glua, helm

if __name__ == "__main__":
    try:
        print(helm(), glua(), sep="\n")
    except BinariesUnavailableError as error:
        sys.exit(f"tools: {error}")
