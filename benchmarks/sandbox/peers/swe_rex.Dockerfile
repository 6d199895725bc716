ARG BASE
FROM ${BASE}
USER root
COPY packages /opt/swe-rex
ENV PYTHONPATH=/opt/swe-rex
RUN printf '#!/bin/sh\nexec python3 -m swerex.server "$@"\n' > /usr/local/bin/swerex-remote \
 && chmod +x /usr/local/bin/swerex-remote
