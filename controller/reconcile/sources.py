"""The ConfigMaps and Secrets that a job names: whether all of their keys exist, and what the job is delivered."""

from collections.abc import Iterator
from dataclasses import dataclass

from controller.api.brevjob_spec import BrevJobSpec, EnvVar, JobFile, KeyRef
from controller.api.reasons import Reason
from controller.decide.types import Failure
from controller.kube.errors import Forbidden
from controller.kube.protocol import KubeClient
from controller.logs import register_secret
from controller.remote.bundle import BundleFile


@dataclass(frozen=True, slots=True, repr=False)
class Sources:
    """Everything of a job that is delivered, resolved. `masks` are the values of its Secrets."""

    script: bytes
    env: dict[str, str]
    files: tuple[BundleFile, ...]
    masks: tuple[bytes, ...]


class SourceMissing(Exception):  # noqa: N818 - reads as the reason that it becomes
    """A reference that does not resolve now; time or a person may change that."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.failure = Failure(reason, message)


async def read_sources(kube: KubeClient, namespace: str, spec: BrevJobSpec) -> Sources:
    """Read every referenced key. Raises SourceMissing for the first that does not exist, in the order of the spec.

    Secrets are read by `get` of the named object only. Their values are registered for masking before anything else.
    """
    reader = _Reader(kube, namespace)
    script_ref = spec.script.config_map_key_ref
    if script_ref is not None:
        script = await reader.config_map(script_ref, "spec.script.configMapKeyRef")
    else:
        script = (spec.script.text or "").encode()
    env = {variable.name: await reader.variable(variable, index) for index, variable in enumerate(spec.env)}
    files = [await reader.file(file, index) for index, file in enumerate(spec.files)]
    return Sources(script, env, tuple(files), tuple(reader.masks))


def has_references(spec: BrevJobSpec) -> bool:
    """Whether anything outside the job itself has to exist."""
    return next(_references(spec), None) is not None


def _references(spec: BrevJobSpec) -> Iterator[KeyRef]:
    found = [spec.script.config_map_key_ref]
    for variable in spec.env:
        if variable.value_from is not None:
            found += [variable.value_from.config_map_key_ref, variable.value_from.secret_key_ref]
    for file in spec.files:
        found += [file.config_map_key_ref, file.secret_key_ref]
    return (reference for reference in found if reference is not None)


class _Reader:
    """Reads each object once for one job."""

    def __init__(self, kube: KubeClient, namespace: str) -> None:
        self._kube = kube
        self._namespace = namespace
        self._config_maps: dict[str, dict[str, bytes] | None] = {}
        self._secrets: dict[str, dict[str, bytes] | None] = {}
        self.masks: list[bytes] = []

    async def variable(self, variable: EnvVar, index: int) -> str:
        path = f"spec.env[{index}].valueFrom"
        if variable.value_from is None:
            return variable.value or ""
        reference = variable.value_from.config_map_key_ref
        if reference is not None:
            return _text(await self.config_map(reference, f"{path}.configMapKeyRef"), variable.name, path)
        secret = variable.value_from.secret_key_ref
        if secret is None:
            raise SourceMissing(Reason.INVALID_SPEC, f"{path} names no source.")
        return _text(await self.secret(secret, f"{path}.secretKeyRef"), variable.name, path)

    async def file(self, file: JobFile, index: int) -> BundleFile:
        path = f"spec.files[{index}]"
        if file.config_map_key_ref is not None:
            content = await self.config_map(file.config_map_key_ref, f"{path}.configMapKeyRef")
        elif file.secret_key_ref is not None:
            content = await self.secret(file.secret_key_ref, f"{path}.secretKeyRef")
        else:
            content = (file.content or "").encode()
        return BundleFile(file.path, content, file.permissions, secret=file.secret_key_ref is not None)

    async def config_map(self, reference: KeyRef, path: str) -> bytes:
        if reference.name not in self._config_maps:
            try:
                self._config_maps[reference.name] = await self._kube.get_config_map(self._namespace, reference.name)
            except Forbidden:
                raise SourceMissing(
                    Reason.FORBIDDEN,
                    f'{path}: the operator may not read ConfigMaps in namespace "{self._namespace}"; whoever runs it '
                    "can add the namespace to those it serves.",
                ) from None
        data = self._config_maps[reference.name]
        return _key(data, reference, path, "ConfigMap", Reason.CONFIG_MAP_MISSING, Reason.CONFIG_MAP_KEY_MISSING)

    async def secret(self, reference: KeyRef, path: str) -> bytes:
        if reference.name not in self._secrets:
            try:
                self._secrets[reference.name] = await self._kube.get_secret(self._namespace, reference.name)
            except Forbidden:
                raise SourceMissing(
                    Reason.SECRET_FORBIDDEN,
                    f'{path}: the operator may not read Secrets in namespace "{self._namespace}"; whoever runs it can '
                    "add the namespace to those it serves.",
                ) from None
        data = self._secrets[reference.name]
        value = _key(data, reference, path, "Secret", Reason.SECRET_MISSING, Reason.SECRET_KEY_MISSING)
        register_secret(value)
        self.masks.append(value)
        return value


def _key(
    data: dict[str, bytes] | None, reference: KeyRef, path: str, kind: str, missing: Reason, key_missing: Reason
) -> bytes:
    if data is None:
        raise SourceMissing(missing, f'{path}: there is no {kind} "{reference.name}" in this namespace; create it.')
    if reference.key not in data:
        raise SourceMissing(
            key_missing, f'{path}: {kind} "{reference.name}" has no key "{reference.key}"; add it to the {kind}.'
        )
    return data[reference.key]


def _text(value: bytes, name: str, path: str) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise SourceMissing(
            Reason.INVALID_SPEC,
            f"{path}: the value for {name} is not UTF-8 text without NUL, which an environment variable has to be; "
            "deliver it in files[] instead.",
        )
    return text
