# The base image with agents that people know. They are fetched in a stage of their own, which
# is thrown away together with the certificates that the host may need for it.
ARG BASE=harness-base:latest
FROM ${BASE} AS fetched

LABEL harness.stage=fetched
USER root
COPY host-ca.pem /tmp/
# npm here is Debian's and does not tell musl from glibc: the other half of claude goes again.
RUN if [ -s /tmp/host-ca.pem ]; then \
      export NODE_EXTRA_CA_CERTS=/tmp/host-ca.pem npm_config_cafile=/tmp/host-ca.pem; \
    fi \
 && export npm_config_prefix=/opt/agents npm_config_audit=false npm_config_fund=false \
    npm_config_update_notifier=false PATH=/opt/agents/bin:$PATH \
 && npm install --global node@22.23.3 \
 && npm install --global \
    @anthropic-ai/claude-code@2.1.329 \
    @earendil-works/pi-coding-agent@0.87.1 \
 && rm --recursive --force /opt/agents/lib/node_modules/@anthropic-ai/claude-code/node_modules/@anthropic-ai/*-musl \
 && claude --version && pi --version \
 && apt-get update && apt-get install --yes --no-install-recommends fd-find \
 && cp /usr/bin/fdfind /opt/agents/bin/fd

FROM ${BASE}
COPY --from=fetched /opt/agents /usr/local
