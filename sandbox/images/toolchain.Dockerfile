# Another image with more programs: packages of Debian, and of npm, which are fetched in a stage of
# their own that is thrown away together with the certificates that the host may need for it.
# A repository names packages of npm: none runs scripts here, where root and the host's network are,
# but Node and Bun, which have no program without. They are in a folder of their own, so that none
# takes the place of a client that is asked for its package index.
ARG BASE=harness-base:latest
FROM ${BASE} AS fetched

LABEL harness.stage=fetched
ARG NPM
USER root
COPY host-ca.pem /tmp/
RUN mkdir --parents /opt/npm \
 && if [ -n "$NPM" ]; then \
      if [ -s /tmp/host-ca.pem ]; then \
        export NODE_EXTRA_CA_CERTS=/tmp/host-ca.pem npm_config_cafile=/tmp/host-ca.pem; \
      fi; \
      export npm_config_prefix=/opt/npm npm_config_audit=false npm_config_fund=false \
      npm_config_update_notifier=false; \
      for package in $NPM; do \
        case "$package" in node@*|bun@*) scripts=;; *) scripts=--ignore-scripts;; esac; \
        npm install --global $scripts "$package" || exit 1; \
      done; \
    fi

FROM ${BASE}
ARG PACKAGES
USER root
# A slim Debian has no folder for manual pages, without which the packages of Java cannot be set up.
RUN if [ -n "$PACKAGES" ]; then \
      mkdir --parents /usr/share/man/man1 \
      && find /etc/apt -name "*.list" -exec sed --quiet "s/ bookworm-updates / bookworm-backports /p" {} + \
         > /etc/apt/sources.list.d/backports.list \
      && find /etc/apt -name "*.sources" -exec sed --in-place "s/bookworm-updates/& bookworm-backports/" {} + \
      && apt-get update \
      && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends $PACKAGES \
      && apt-get clean \
      && rm --recursive /var/lib/apt/lists/*; \
    fi
COPY --from=fetched /opt/npm /opt/npm
ENV PATH=/opt/npm/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
USER agent
# Go has no compiled standard library since 1.20: each sandbox would compile it anew.
RUN if command -v go > /dev/null; then go build std; fi
