#!/usr/bin/env bash
# Compares options/ with the frameworks themselves, and has the parsers that need no GPU read the recipes' commands. Wheels and sources are kept in the cache.
# RECIPES_SOURCES may be a directory with git directories OWNER+NAME/repo, from which sources are taken instead of GitHub.
set -euo pipefail
cd "$(dirname "$0")"
cache=${RAYCTL_TEST_CACHE:-$HOME/.cache/rayctl-test}/recipes
python=${PYTHON312:-python3.12} # SkyRL wants it
venv=$cache/wheels-1
if ! [ -e "$venv/done" ]; then
	"$python" -m venv "$venv"
	"$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps verl==0.9.1 openrlhf==0.11.2 skyrl==0.4.0
	"$venv/bin/pip" install --quiet --disable-pip-version-check hydra-core==1.3.8 omegaconf==2.3.1 pyyaml pydantic loguru cloudpathlib pandas ray==2.55.0 skyrl-gym aiohttp 2>&1 | grep -v "is not installed\|dependency conflicts" || true
	touch "$venv/done"
fi

# source OWNER NAME COMMIT: its directory
source_of() {
	local at=$cache/$2-$3 from=https://github.com/$1/$2
	if ! [ -e "$at" ]; then
		[ -z "${RECIPES_SOURCES:-}" ] || from=$RECIPES_SOURCES/$1+$2/repo
		rm -rf "$at.part"
		git init --quiet "$at.part"
		git -C "$at.part" fetch --quiet --depth 1 "$from" "$3"
		for part in examples scripts train.py nemo_rl slime miles; do # each repository has some of them
			git -C "$at.part" checkout --quiet FETCH_HEAD -- "$part" 2>/dev/null || true
		done
		mv "$at.part" "$at"
	fi
	echo "$at"
}

site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
arguments=$(mktemp -d)
trap 'rm -rf "$arguments"' EXIT
RECIPES_ARGUMENTS=$arguments "${GO:-go}" test -count=1 -run '^TestRecipes$' . >/dev/null

check() { # check FRAMEWORK SOURCE
	"$venv/bin/python" -W ignore options.py "$1" "$2" | diff - <(grep -v '^#' "options/$1.txt") || { echo "options/$1.txt is not what options.py reads from $2" >&2; exit 1; }
	echo "$1: $(grep -vc '^#' "options/$1.txt") options are those of the source"
	if grep -q "\"$1\": " <(grep '^PARSERS' parse.py); then
		for file in "$arguments/$1"-*; do
			xargs -0 "$venv/bin/python" -W ignore parse.py "$1" "$2" <"$file"
		done
	fi
}
check verl "$site"
check openrlhf "$site"
check skyrl "$site"
check nemo-rl "$(source_of NVIDIA-NeMo RL 81aa43dda4765b0429cf31dab44441e4e4383911)"
check slime "$(source_of THUDM slime a6272da0d4f3d0a08520c99a2f3b4f6c887960dc)"
check miles "$(source_of radixark miles 31f1ca961a94cb860cec3b2dea34ec332bfa8f76)"
