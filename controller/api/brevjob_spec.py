"""What a user writes in a BrevJob."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import ConfigDict, Field, field_validator, model_validator

from controller.api import defaults
from controller.api.base import SpecModel
from controller.api.brevinstance import BrevInstanceSpec
from controller.api.duration import DurationBounds, parse_duration
from controller.api.fields import ConfigKey, Matching, ObjectName, list_type, rule

MAX_SCRIPT = 262144
MAX_CONTENT = 262144
MAX_ENV_STRING = 131072
"""Linux carries no longer `NAME=value` string through execve (MAX_ARG_STRLEN), its final NUL included."""

ENV_NAME = r"^[ -<>-~]+$"
NO_NUL = r"^[^\x00]*$"
INTERPRETER = r"^(/[!-~]*[!-.0-~]|[A-Za-z0-9_][A-Za-z0-9._+-]*)$"
FILE_MODE = r"^0?[0-7]{3}$"
_SEGMENT = r"([^./\x00][^/\x00]*|\.[^./\x00][^/\x00]*|\.\.[^/\x00]+)"
RELATIVE_PATH = rf"^{_SEGMENT}(/{_SEGMENT})*$"
"""Segments other than `.`, `..` and the empty one, so that each file has one spelling and stays below the directory."""

NAME_MAX_BYTES = 255
RESERVED_PATH = ".brev-script"
"""Where the script itself lies in the job's directory."""

_ONE_SOURCE = "set exactly one of content, configMapKeyRef and secretKeyRef"
_ONE_SCRIPT = "set exactly one of text and configMapKeyRef"
_ONE_VALUE = (
    'set exactly one of value and valueFrom; an unquoted null counts as absent, an empty string is written as ""'
)
_ONE_REF = "set exactly one of configMapKeyRef and secretKeyRef"
_HAS_ONE_SOURCE = "[has(self.content), has(self.configMapKeyRef), has(self.secretKeyRef)].exists_one(x, x)"
_LONG_PART = "no file system takes a file or directory name of more than 255 bytes; use shorter ones"
_RESERVED = f"{RESERVED_PATH} is where the script itself lies; choose another path"
_NESTED = "one file cannot be inside another; give them different paths"
_BAD_INTERPRETER = (
    "must be one program name or absolute path, without blanks and arguments; put arguments into the script"
)
_BAD_NAME = "must be printable ASCII without an equals sign"
_BAD_PATH = "must be a relative path without empty, . and .. segments"
_BAD_MODE = 'must be three octal digits in quotes, with or without a leading zero, such as "0644"'

# CEL has no variables: the list of one list computes the prefixes once, and comparing lengths first spares most
# comparisons; the plain form is over the run-time budget at full size.
_NO_NESTING = rule(
    "[self.map(f, f.path + '/')].all(prefixes, self.all(f, "
    "!prefixes.exists(prefix, f.path.size() > prefix.size() && f.path.startsWith(prefix))))",
    _NESTED,
)


class KeyRef(SpecModel):
    """One key of a ConfigMap or Secret in the job's namespace."""

    name: ObjectName = Field(description="Name of the object, in the job's namespace. Required.")
    key: ConfigKey = Field(description="Key in its data. Required.")


class Script(SpecModel):
    """The script that is run, and by what."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [rule("has(self.text) != has(self.configMapKeyRef)", _ONE_SCRIPT)]
        }
    )

    text: Annotated[str, Field(min_length=1, max_length=MAX_SCRIPT)] | None = Field(
        default=None,
        repr=False,
        description="The script itself, delivered byte for byte in UTF-8. At most 262144 characters.",
    )
    config_map_key_ref: KeyRef | None = Field(default=None, description="Where the script is kept instead.")
    interpreter: Annotated[str, Matching(INTERPRETER, _BAD_INTERPRETER, 255)] = Field(
        default=str(defaults.INTERPRETER.value),
        description="Program that runs the script: one name looked up on the machine's PATH, or an absolute path; no "
        "arguments. Default: bash.",
    )

    @model_validator(mode="after")
    def _one_source(self) -> Script:
        _exactly_one(_ONE_SCRIPT, self.text, self.config_map_key_ref)
        return self


class EnvSource(SpecModel):
    """Where a value is kept."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [rule("has(self.configMapKeyRef) != has(self.secretKeyRef)", _ONE_REF)]
        }
    )

    config_map_key_ref: KeyRef | None = Field(default=None, description="A key of a ConfigMap.")
    secret_key_ref: KeyRef | None = Field(default=None, description="A key of a Secret. Its value is masked in logs.")

    @model_validator(mode="after")
    def _one_source(self) -> EnvSource:
        _exactly_one(_ONE_REF, self.config_map_key_ref, self.secret_key_ref)
        return self


class EnvVar(SpecModel):
    """One environment variable of the script; a subset of the EnvVar of Kubernetes."""

    model_config = ConfigDict(
        json_schema_extra={"x-kubernetes-validations": [rule("has(self.value) != has(self.valueFrom)", _ONE_VALUE)]}
    )

    name: Annotated[str, Matching(ENV_NAME, _BAD_NAME, 256)] = Field(
        description="Name of the variable: printable ASCII without `=`, as Kubernetes allows. Required."
    )
    value: Annotated[str, Field(max_length=MAX_ENV_STRING - 2, pattern=NO_NUL)] | None = Field(
        default=None,
        repr=False,
        description="The value, taken as it is: nothing is expanded. Quote numbers and booleans. No NUL characters, "
        "which no environment can carry.",
    )
    value_from: EnvSource | None = Field(default=None, description="Where the value is kept instead.")

    @model_validator(mode="after")
    def _one_value(self) -> EnvVar:
        _exactly_one(_ONE_VALUE, self.value, self.value_from)
        if len(self.name) + 2 + len((self.value or "").encode()) > MAX_ENV_STRING:
            raise ValueError(f"name and value together must be shorter than {MAX_ENV_STRING} bytes; use a file")
        return self


class JobFile(SpecModel):
    """One file that is there before the script starts."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                rule(_HAS_ONE_SOURCE, _ONE_SOURCE),
                rule("self.path.split('/').all(part, part.size() <= 255)", _LONG_PART, ".path"),
                rule(f"self.path.split('/')[0] != '{RESERVED_PATH}'", _RESERVED, ".path"),
            ]
        }
    )

    path: Annotated[str, Matching(RELATIVE_PATH, _BAD_PATH, 512)] = Field(
        description="Where to put it, relative to the job's directory; without empty, `.` or `..` segments. Required."
    )
    content: Annotated[str, Field(max_length=MAX_CONTENT)] | None = Field(
        default=None,
        repr=False,
        description="The content itself, delivered byte for byte in UTF-8. At most 262144 characters.",
    )
    config_map_key_ref: KeyRef | None = Field(default=None, description="A key of a ConfigMap, text or binary.")
    secret_key_ref: KeyRef | None = Field(default=None, description="A key of a Secret.")
    mode: Annotated[str, Matching(FILE_MODE, _BAD_MODE, 4)] = Field(
        default=str(defaults.FILE_MODE.value),
        description='Permissions, three octal digits with or without a leading zero, quoted. Default: "0644".',
    )

    @field_validator("path")
    @classmethod
    def _short_segments(cls, path: str) -> str:
        if path.split("/", maxsplit=1)[0] == RESERVED_PATH:
            raise ValueError(_RESERVED)
        if any(len(segment.encode()) > NAME_MAX_BYTES for segment in path.split("/")):
            raise ValueError(_LONG_PART)
        return path

    @model_validator(mode="after")
    def _one_source(self) -> JobFile:
        _exactly_one(_ONE_SOURCE, self.content, self.config_map_key_ref, self.secret_key_ref)
        return self

    @property
    def permissions(self) -> int:
        """The mode as a number, 0 to 0o777."""
        return int(self.mode, 8)


class JobDeadlines(SpecModel):
    """How long each step of a run may take."""

    startup: Annotated[timedelta, DurationBounds("1s", "24h")] = Field(
        default=parse_duration(str(defaults.STARTUP.value)),
        description="From the creation of the job until its script runs, the boot included. A duration, 1s to 24h. "
        "Where it is the default, twice the advertised boot time if that is more. Default: 20m.",
    )
    run: Annotated[timedelta, DurationBounds("1s", "8760h")] = Field(
        default=parse_duration(str(defaults.RUN.value)),
        description="How long the script may run before it is stopped. A duration, 1s to 8760h. Default: 24h.",
    )
    unreachable: Annotated[timedelta, DurationBounds("1s", "24h")] = Field(
        default=parse_duration(str(defaults.JOB_UNREACHABLE.value)),
        description="How long a running machine may not answer before the run is given up. A duration, 1s to 24h. "
        "Default: 30m.",
    )
    stop_grace: Annotated[timedelta, DurationBounds("1s", "1h")] = Field(
        default=parse_duration(str(defaults.STOP_GRACE.value)),
        description="From SIGTERM to SIGKILL when the script is stopped. A duration, 1s to 1h. Default: 30s.",
    )


class JobLogs(SpecModel):
    """What is kept of the script's output."""

    tail_bytes: Annotated[int, Field(ge=0, le=16384)] = Field(
        default=int(defaults.TAIL_BYTES.value),
        description="How much of the end of the output is kept in status, in bytes, 0 to 16384. Default: 4096.",
    )


class InstanceTemplate(SpecModel):
    """The BrevInstance that the job makes for itself."""

    spec: BrevInstanceSpec = Field(description="Spec of that BrevInstance. Required.")


class BrevJobSpec(SpecModel):
    """The run that is wanted; immutable as a whole."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                rule("self == oldSelf", "the spec of a BrevJob is immutable; delete the job and create it again")
            ]
        }
    )

    instance_template: InstanceTemplate = Field(description="The machine to run on, made for this job. Required.")
    script: Script = Field(description="What to run. Required.")
    env: Annotated[list[EnvVar], Field(max_length=500, json_schema_extra=list_type(["name"]))] = Field(
        default_factory=list, description="Environment variables of the script. At most 500. Default: none."
    )
    files: Annotated[
        list[JobFile],
        Field(max_length=100, json_schema_extra=list_type(["path"]) | {"x-kubernetes-validations": [_NO_NESTING]}),
    ] = Field(
        default_factory=list, description="Files that are there before the script starts. At most 100. Default: none."
    )
    deadlines: JobDeadlines = Field(
        default_factory=JobDeadlines,
        description="How long each step may take. Default: each field's own.",
        json_schema_extra={"default": {}},
    )
    logs: JobLogs = Field(
        default_factory=JobLogs,
        description="What is kept of the output. Default: each field's own.",
        json_schema_extra={"default": {}},
    )

    @field_validator("env")
    @classmethod
    def _unique_names(cls, env: list[EnvVar]) -> list[EnvVar]:
        if len({variable.name for variable in env}) < len(env):
            raise ValueError("two variables have the same name")
        return env

    @field_validator("files")
    @classmethod
    def _separate_paths(cls, files: list[JobFile]) -> list[JobFile]:
        paths = {file.path for file in files}
        if len(paths) < len(files):
            raise ValueError("two files have the same path")
        for path in paths:
            if any(parent in paths for parent in _parents(path)):
                raise ValueError(_NESTED)
        return files


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _exactly_one(message: str, *values: object) -> None:
    if sum(value is not None for value in values) != 1:
        raise ValueError(message)
