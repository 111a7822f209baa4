"""Default values of the API, each with its source.

They never change within an API version, so that a stored object keeps its meaning.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Default:
    """One default: where it applies, its value as a user would write it, and why it is that."""

    field: str
    value: str | int | bool
    source: str


ACCOUNT_NAME = Default(
    "BrevInstance.spec.accountName", "default", "The name that the documentation gives to the first account."
)
ALLOW_SHORT_SESSION = Default(
    "BrevAccount.spec.allowShortSession",
    False,
    "A machine must not outlive the only login that can delete it; a raw JWT of the Brev console lives about an hour.",
)
PROVISION = Default(
    "BrevInstance.spec.deadlines.provision",
    "20m",
    "Advertised boot times in the Brev catalog are up to ten minutes; twice that.",
)
READY = Default(
    "BrevInstance.spec.deadlines.ready",
    "20m",
    "The first SSH connection of a machine waits for up to ten minutes in the brev CLI; twice that.",
)
INSTANCE_UNREACHABLE = Default(
    "BrevInstance.spec.deadlines.unreachable", "30m", "Long enough for a provider's reboot or a network incident."
)
INTERPRETER = Default("BrevJob.spec.script.interpreter", "bash", "Installed on every image that Brev offers.")
FILE_MODE = Default("BrevJob.spec.files[].mode", "0644", "The default mode of ConfigMap volumes in Kubernetes.")
STARTUP = Default(
    "BrevJob.spec.deadlines.startup",
    "20m",
    "Advertised boot times in the Brev catalog are up to ten minutes; twice that.",
)
RUN = Default(
    "BrevJob.spec.deadlines.run", "24h", "A bound on the cost of a forgotten job, since no cost cap exists yet."
)
JOB_UNREACHABLE = Default(
    "BrevJob.spec.deadlines.unreachable",
    "30m",
    "The same as the machine's own deadline; the run may still be going on.",
)
STOP_GRACE = Default("BrevJob.spec.deadlines.stopGrace", "30s", "The grace period of a Pod in Kubernetes.")
TAIL_BYTES = Default(
    "BrevJob.spec.logs.tailBytes", 4096, "The limit of a container's termination message in Kubernetes."
)

ALL = (
    ALLOW_SHORT_SESSION,
    ACCOUNT_NAME,
    PROVISION,
    READY,
    INSTANCE_UNREACHABLE,
    INTERPRETER,
    FILE_MODE,
    STARTUP,
    RUN,
    JOB_UNREACHABLE,
    STOP_GRACE,
    TAIL_BYTES,
)
