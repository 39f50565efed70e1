#!/usr/bin/env bash
# Installs what rayctl's demo and tests need beside Go, Python 3 and make: only Debian packages, only as root, only what is
# missing. Everything else (Ray, Slurm, Kubernetes) is put into private caches by the parts that use it.
set -euo pipefail

need=()
want() { # want PACKAGE TEST...: the package is needed unless the test passes
	local package=$1
	shift
	"$@" >/dev/null 2>&1 || need+=("$package")
}

# Elsewhere certificates are in other places and Python has venv; if not, Go, pip and rayctl fail with an error of their own.
if command -v apt-get >/dev/null; then
	command -v uv >/dev/null || want python3-venv python3 -c 'import ensurepip, venv'
	want ca-certificates test -e /etc/ssl/certs/ca-certificates.crt
fi
if [ "${1:-demo}" = test ]; then
	want gcc command -v gcc # and the C library: the race detector is linked with them
	want libc6-dev test -e /usr/include/stdlib.h
	want procps command -v ps
	want openssh-client command -v ssh
	if [ "$(uname)" = Linux ]; then
		want util-linux command -v unshare
		want iproute2 command -v ip
		want environment-modules test -e /etc/profile.d/modules.sh
	fi
	want shellcheck command -v shellcheck
	want tcsh command -v tcsh
	want fish command -v fish
	want zsh command -v zsh
	want rpm command -v rpm
	want groff-base command -v groff
	want tmux command -v tmux
	want task-spooler command -v tsp
	want chromium command -v chromium
fi

[ ${#need[@]} -gt 0 ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "missing: ${need[*]}; install these packages (as root: apt-get install ${need[*]}) and run this again" >&2
	exit 1
fi
echo "installing ${need[*]}" >&2
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends "${need[@]}" >/dev/null
