# The operator's image. You supply the brev CLI, since nothing here downloads a program that it cannot verify:
#
#   docker build -t REGISTRY/brev-operator:TAG \
#     --build-context brev=DIRECTORY --build-arg BREV_SHA256="$(sha256sum < DIRECTORY/brev | cut -d' ' -f1)" .
#
# DIRECTORY holds `brev` (v0.6.324 to v0.6.327, for Linux and the image's architecture) and, if your machines are reached
# through Cloudflare, `cloudflared`; docs/install.md says more. Needs BuildKit (Docker 23 or newer).

# Pin it by digest for builds that can be repeated: --build-arg PYTHON_IMAGE=python@sha256:…
ARG PYTHON_IMAGE=python:3.13-slim-bookworm

# Stands for the directory that --build-context gives; by itself it is empty and the build ends at the first COPY from it.
FROM scratch AS brev

FROM ${PYTHON_IMAGE} AS build
ARG BREV_SHA256
ARG CLOUDFLARED_SHA256
COPY --from=brev brev cloudflared* /programs/
RUN set -eu; \
    test -n "${BREV_SHA256:-}" || { echo "Give --build-arg BREV_SHA256: the SHA-256 of your brev CLI." >&2; exit 1; }; \
    echo "${BREV_SHA256}  /programs/brev" | sha256sum --check --strict; \
    if [ -e /programs/cloudflared ]; then \
      test -n "${CLOUDFLARED_SHA256:-}" || { echo "Give --build-arg CLOUDFLARED_SHA256 too." >&2; exit 1; }; \
      echo "${CLOUDFLARED_SHA256}  /programs/cloudflared" | sha256sum --check --strict; \
    fi; \
    chmod 0755 /programs/*
COPY requirements-runtime.lock /
RUN python -m venv /opt/venv \
    && /opt/venv/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --require-hashes \
         --only-binary :all: -r /requirements-runtime.lock
COPY controller /opt/brev-operator/controller
RUN python -m compileall -q /opt/brev-operator

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="brev-operator" \
      org.opencontainers.image.description="NVIDIA Brev GPU machines, and the jobs on them, as Kubernetes objects"
# bash and ssh are what the CLI calls; setpriv (util-linux) ends its processes with the operator; tini reaps orphans.
RUN apt-get update \
    && apt-get install -y --no-install-recommends bash ca-certificates openssh-client tini util-linux \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 65532 brev-operator \
    && useradd --uid 65532 --gid 65532 --home-dir /var/lib/brev-operator --create-home --shell /bin/bash brev-operator
COPY --from=build /opt/venv /opt/venv
COPY --from=build /opt/brev-operator /opt/brev-operator
COPY --from=build /programs/ /usr/local/bin/
ENV PATH=/opt/venv/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONPATH=/opt/brev-operator \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
WORKDIR /opt/brev-operator
# Numeric, so that a kubelet can see that it is not root.
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["tini", "--", "python", "-m", "controller"]
