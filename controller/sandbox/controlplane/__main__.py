"""`python -m controller.sandbox.controlplane build|path`: fill the cache ahead of time, or say where it is."""

import argparse
import sys

from controller.sandbox.controlplane.errors import ControlPlaneError
from controller.sandbox.controlplane.provider import provide
from controller.sandbox.controlplane.recipes import cache_key, cache_root

EXIT_UNAVAILABLE = 1
EXIT_INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0, or 1 with one explained error on stderr."""
    parser = argparse.ArgumentParser(prog="python -m controller.sandbox.controlplane", description=__doc__)
    parser.add_argument(
        "command", choices=["build", "path"], help="build: find or build all binaries; path: print the cache directory"
    )
    if parser.parse_args(arguments).command == "path":
        print(cache_root() / cache_key())
        return 0
    try:
        binaries = provide()
    except ControlPlaneError as error:
        print(f"control plane: {error}", file=sys.stderr)
        return EXIT_UNAVAILABLE
    except KeyboardInterrupt:
        print("\ncontrol plane: interrupted; nothing half-made was left", file=sys.stderr)
        return EXIT_INTERRUPTED
    for path in (binaries.etcd, binaries.kube_apiserver, binaries.kube_controller_manager, binaries.kubectl):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
