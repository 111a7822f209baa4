"""What a person sees of a long build: one line that updates on a terminal, a line now and then elsewhere."""

import io

from controller.sandbox.controlplane.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def run_for(stream: io.StringIO, seconds: int) -> str:
    clock = Clock()
    progress = Progress(stream, clock)
    progress.begin("building etcd")
    for second in range(1, seconds + 1):
        clock.now = float(second)
        progress.tick(f"{second} packages compiled")
    progress.done("built")
    return stream.getvalue()


def test_elsewhere_a_plain_line_comes_every_fifteen_seconds() -> None:
    assert run_for(io.StringIO(), 64).splitlines() == [
        "control plane: building etcd …",
        "control plane: building etcd · 0:15 · 15 packages compiled",
        "control plane: building etcd · 0:30 · 30 packages compiled",
        "control plane: building etcd · 0:45 · 45 packages compiled",
        "control plane: building etcd · 1:00 · 60 packages compiled",
        "control plane: building etcd · 1:04 · built",
    ]


def test_on_a_terminal_one_line_updates_in_place_and_ends_once() -> None:
    written = run_for(Terminal(), 30)
    assert written.count("\n") == 1
    assert written.endswith("\r\x1b[Kcontrol plane: building etcd · 0:30 · built\n")
    assert written.count("\r\x1b[K") == 31
