# Another image with the program of one agent, or with the Node that all of them need. Packages are
# fetched in a stage of their own, which is thrown away together with the certificates that the
# host may need for it.
ARG BASE=harness-base:latest
FROM ${BASE} AS fetched

LABEL harness.stage=fetched
ARG NPM
USER root
COPY host-ca.pem /tmp/
# npm here is Debian's and does not tell musl from glibc or one processor from another: programs
# that it fetched for others go again, and opencode's own one, which it has linked beside.
RUN if [ -s /tmp/host-ca.pem ]; then \
      export NODE_EXTRA_CA_CERTS=/tmp/host-ca.pem npm_config_cafile=/tmp/host-ca.pem; \
    fi \
 && export npm_config_prefix=/opt/agents npm_config_audit=false npm_config_fund=false \
    npm_config_update_notifier=false \
 && npm install --global $NPM \
 && cd /opt/agents/lib/node_modules \
 && rm --recursive --force */node_modules/*-musl @*/*/node_modules/@*/*-musl \
    opencode-ai/node_modules

FROM ${BASE}
ARG PACKAGES
USER root
RUN if [ -n "$PACKAGES" ]; then \
      apt-get update \
      && apt-get install --yes --no-install-recommends $PACKAGES \
      && apt-get clean \
      && rm --recursive /var/lib/apt/lists/*; \
    fi \
 && if [ -e /usr/bin/fdfind ]; then ln --symbolic --force fdfind /usr/bin/fd; fi
COPY --from=fetched /opt/agents /usr/local
USER agent
