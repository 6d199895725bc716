# What a sandbox starts from: Python and Node projects can be installed, tested and changed here
# with no network. Everything is a Debian package, so the build needs no other index.
ARG BASE=debian:bookworm-slim
FROM ${BASE}

RUN apt-get update \
 && apt-get install --yes --no-install-recommends \
    ca-certificates git make nodejs npm ripgrep \
    python3 python3-venv python3-pip python3-pytest \
    python3-setuptools python3-setuptools-scm python3-wheel \
    python3-hatchling python3-hatch-vcs python3-poetry-core flit \
 && ln --symbolic python3 /usr/bin/python \
 && rm /usr/lib/python3.*/EXTERNALLY-MANAGED \
 && apt-get clean \
 && rm --recursive /var/lib/apt/lists/*

COPY editables.py /usr/lib/python3/dist-packages/

RUN useradd --uid 1000 --create-home --shell /bin/bash agent \
 && install --directory --owner=agent --group=agent /workspace

ENV LANG=C.UTF-8 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
USER agent
WORKDIR /workspace
