#!/usr/bin/env bash
# locks.sh UV [VERSION...]: writes local/rayenv/locks/ray-VERSION.txt, the packages of rayctl's default environment with hashes, for every Python from the oldest that
# this Ray supports on, and every platform. UV is uv (rayctl's: ~/.cache/rayctl/uv-*/uv). Without VERSION: all that have a lock.
set -euo pipefail

uv=$1
shift
cd "$(dirname "$0")/../local/rayenv/locks"
[ $# -gt 0 ] || set -- ray-*.txt
for version in "$@"; do
	version=${version#ray-}
	version=${version%.txt}
	minor=${version#*.}
	minor=${minor%%.*}
	oldest=3.10 # as `supported` in ../python.go has it
	[ "$minor" -ge 52 ] || oldest=3.9
	[ "$minor" -ge 13 ] || oldest=3.8
	{
		echo "ray[default]==$version"
		[ "$minor" -ge 41 ] || echo 'setuptools<81' # these import pkg_resources, which setuptools 81 removed
	} | "$uv" pip compile --quiet --universal --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links \
		--python-version "$oldest" --output-file "ray-$version.txt" -
done
