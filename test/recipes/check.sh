#!/usr/bin/env bash
# Compares options/ with the frameworks themselves, and has the parsers that need no GPU read the recipes' commands. Wheels and sources are kept in the cache.
# RECIPES_SOURCES may be a directory with git directories OWNER+NAME/repo, from which sources are taken instead of GitHub.
set -euo pipefail
cd "$(dirname "$0")"
cache=${RAYCTL_TEST_CACHE:-$HOME/.cache/rayctl-test}/recipes
python=${PYTHON312:-python3.12} # SkyRL wants it
venv=$cache/wheels-2
if ! [ -e "$venv/done" ]; then
	"$python" -m venv "$venv"
	"$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps verl==0.9.1 openrlhf==0.11.2 skyrl==0.4.0 areal==1.0.4 trinity-rft==0.6.0
	"$venv/bin/pip" install --quiet --disable-pip-version-check hydra-core==1.3.8 omegaconf==2.3.1 pyyaml pydantic loguru cloudpathlib pandas ray==2.55.0 skyrl-gym aiohttp uvloop colorlog numpy dacite lark 2>&1 | grep -v "is not installed\|dependency conflicts\|but you have" || true
	touch "$venv/done"
fi

parts=(examples scripts train.py nemo_rl slime miles roll) # each repository has some of them

# source OWNER NAME COMMIT: sets source to a directory with these parts
source_of() {
	source=$cache/$2-$3
	[ ! -e "$source" ] || return 0
	local mirror=${RECIPES_SOURCES:-}/$1+$2/repo
	rm -rf "$source.part"
	git init --quiet "$source.part"
	if [ -n "${RECIPES_SOURCES:-}" ]; then
		git --git-dir="$mirror" ls-tree -z --name-only "$3" "${parts[@]}" | xargs -0 git --git-dir="$mirror" archive "$3" | tar -x -C "$source.part"
	else
		git -C "$source.part" fetch --quiet --depth 1 "https://github.com/$1/$2" "$3"
		git -C "$source.part" ls-tree -z --name-only FETCH_HEAD "${parts[@]}" | xargs -0 git -C "$source.part" checkout --quiet FETCH_HEAD --
	fi
	mv "$source.part" "$source"
}

# wheel_of NAME VERSION FILE...: sets source to a directory with these files of a wheel, which is too large to install
wheel_of() {
	source=$cache/$1-$2
	[ ! -e "$source" ] || return 0
	rm -rf "$source.part"
	"$venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$source.part" "$1==$2"
	"$venv/bin/python" -c 'import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extractall(sys.argv[2], sys.argv[3:])' "$source.part"/*.whl "$source.part" "${@:3}"
	rm "$source.part"/*.whl
	mv "$source.part" "$source"
}

site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
arguments=$(mktemp -d)
trap 'rm -rf "$arguments"' EXIT
RECIPES_ARGUMENTS=$arguments "${GO:-go}" test -count=1 -run '^TestRecipes$' . >/dev/null

check() { # check FRAMEWORK SOURCE [MORE]: more than the source, which parse.py wants
	"$venv/bin/python" -W ignore options.py "$1" "$2" | diff - <(grep -v '^#' "options/$1.txt") || { echo "options/$1.txt is not what options.py reads from $2" >&2; exit 1; }
	echo "$1: $(grep -vc '^#' "options/$1.txt") options are those of the source"
	if grep -q "\"$1\": " <(grep '^PARSERS' parse.py); then
		for file in "$arguments/$1"-*; do
			xargs -0 "$venv/bin/python" -W ignore parse.py "$1" "$2${3:+:$3}" <"$file"
		done
	fi
}
check verl "$site"
check openrlhf "$site"
check skyrl "$site"
source_of inclusionAI AReaL 37d6c6400e99a05fa3409d6a067762a44df40d3b
check areal "$site" "$source"
check trinity "$site"
source_of alibaba ROLL 7f9d4d3873a87679c8d070085a4bd3bdeea7e589
check roll "$source"
source_of NVIDIA-NeMo RL 81aa43dda4765b0429cf31dab44441e4e4383911
check nemo-rl "$source"
source_of THUDM slime a6272da0d4f3d0a08520c99a2f3b4f6c887960dc
check slime "$source"
source_of radixark miles 78527b9102b3a5f15891128cbec3ac6c2dc4089e
check miles "$source"
wheel_of vllm 0.29.0 vllm/engine/arg_utils.py vllm/entrypoints/launchers/cli_args.py
check llm "$source"
