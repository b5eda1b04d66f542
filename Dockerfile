# A host of a run with `--on docker`, on any Debian or Ubuntu base: `e2c-dl image build` makes it, and says on which.
#
# It brings what a host needs of a system. Python with e2c_dl and torch are not in it: a run binds those of the machine
# into its containers, read-only. python3 is here for the libraries that it brings along, and for a scenario's own use.
ARG BASE=debian:stable-slim
FROM ${BASE}
RUN set -eu; \
    missing=; \
    for each in sshd:openssh-server python3:python3 ip:iproute2 tc:iproute2 ping:iputils-ping fping:fping ps:procps; do \
        command -v "${each%%:*}" >/dev/null || missing="$missing ${each##*:}"; \
    done; \
    [ -e /etc/protocols ] || missing="$missing netbase"; \
    if [ -n "$missing" ]; then \
        apt-get update; \
        DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing; \
        rm -rf /var/lib/apt/lists/*; \
    fi; \
    rm -f /etc/ssh/ssh_host_*; \
    mkdir -p /run/sshd
