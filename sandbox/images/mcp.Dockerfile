# The image of an MCP server's sandbox: packages of npm and of the Python Package Index, which are
# fetched in a stage of their own that is thrown away together with the certificates that the host
# may need for it, and packages of Debian. No package of npm runs scripts here.
ARG BASE=harness-base:latest
FROM ${BASE} AS fetched

LABEL harness.stage=fetched
ARG NPM
ARG PYPI
USER root
COPY host-ca.pem /tmp/
RUN mkdir --parents /opt/npm /opt/pypi \
 && if [ -s /tmp/host-ca.pem ]; then \
      export NODE_EXTRA_CA_CERTS=/tmp/host-ca.pem npm_config_cafile=/tmp/host-ca.pem \
      PIP_CERT=/tmp/host-ca.pem; \
    fi \
 && if [ -n "$NPM" ]; then \
      export npm_config_prefix=/opt/npm npm_config_audit=false npm_config_fund=false \
      npm_config_update_notifier=false \
      && npm install --global --ignore-scripts $NPM; \
    fi \
 && if [ -n "$PYPI" ]; then \
      python3 -m venv /opt/pypi \
      && /opt/pypi/bin/pip install --no-cache-dir --only-binary :all: $PYPI; \
    fi

FROM ${BASE}
ARG PACKAGES
USER root
RUN if [ -n "$PACKAGES" ]; then \
      apt-get update \
      && apt-get install --yes --no-install-recommends $PACKAGES \
      && apt-get clean \
      && rm --recursive /var/lib/apt/lists/*; \
    fi
COPY --from=fetched /opt/npm /opt/npm
COPY --from=fetched /opt/pypi /opt/pypi
ENV PATH=/opt/npm/bin:/opt/pypi/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
USER agent
