//go:build linux

package slurmtest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// container runs a command in a mount namespace that has nothing but what an image lists, the system's own file systems, and what is bound into it: what
// nobody binds is not seen, as with Pyxis on enroot, whose /tmp is a small file system of the container's own (enroot: conf/mounts/10-system.fstab), and
// with Apptainer where apptainer.conf has `mount home = no` and `mount tmp = no`.
// Usage: container IMAGE SOURCE:TARGET[:OPTIONS]... -- COMMAND...
const container = `#!/bin/bash
fail() { echo "container: $*" >&2; exit 255; }
if [ -z "$CONTAINER_NAMESPACE" ]; then
	user=()
	[ "$(id -u)" = 0 ] || user=(--user --map-current-user --keep-caps)
	CONTAINER_NAMESPACE=1 exec unshare "${user[@]}" --mount --propagation private "$0" "$@"
fi
unset CONTAINER_NAMESPACE
root=/mnt where=$PWD chroot=$(PATH=$PATH:/usr/sbin:/sbin type -P chroot)
mount -n -t tmpfs container "$root" || fail "no root file system"
show() { # SOURCE TARGET [OPTIONS]
	if [ -L "$1" ]; then
		cp -P "$1" "$root$2"
		return
	elif [ -d "$1" ]; then
		mkdir -p "$root$2"
	else
		mkdir -p "$(dirname "$root$2")" && touch "$root$2"
	fi
	mount -n --rbind "$1" "$root$2" || fail "cannot mount $1"
	[ -z "$3" ] || mount -n -o "remount,bind,$3" "$root$2" || fail "cannot mount $1 $3"
}
while read -r path; do show "$path" "$path"; done <"$1"
shift
for path in /proc /sys /dev; do show "$path" "$path"; done
mkdir -m 755 "$root/tmp" && mount -n -t tmpfs -o size=1m,mode=755 tmp "$root/tmp"
while [ "$1" != -- ]; do
	IFS=: read -r source target options <<<"$1"
	show "$source" "${target:-$source}" "$options"
	shift
done
shift
exec "$chroot" "$root" /bin/sh -c 'cd "$0" 2>/dev/null; exec "$@"' "$where" "$@"
`

// apptainer is a stand-in for Apptainer, also under the name singularity: it parses the arguments of its exec, and refuses what Apptainer refuses (a missing
// bind path or image, an unknown flag). The environment is the caller's, but for PATH and LD_LIBRARY_PATH, which are the image's.
// CONTAINER_OPTIONS is not Apptainer's: it has the options for the tests. Copied from Apptainer 1.3: its messages,
// cmd/internal/cli/action_flags.go, the separators of --bind, and APPTAINER_CONTAINER.
const apptainer = `#!/bin/bash
fail() { echo "FATAL:   $*" >&2; exit 255; }
[ "$1" = exec ] || fail "unknown command $1"
shift
binds=() given=()
while :; do
	case $1 in
	--nv|--rocm) given+=("$1"); shift ;;
	--env=*) export "${1#*=}"; shift ;;
	--env) export "${2%%=*}=${2#*=}"; shift 2 ;;
	--bind)
		IFS=, read -ra parts <<<"$2"
		for bind in "${parts[@]}"; do
			[ -e "${bind%%:*}" ] || fail "mount ${bind%%:*} failed: no such file or directory"
			binds+=("$bind")
		done
		shift 2 ;;
	-*) fail "unknown flag: $1" ;;
	*) break ;;
	esac
done
[ -f "$1" ] || fail "could not open image $1: no such file or directory"
export APPTAINER_CONTAINER="$1" SINGULARITY_CONTAINER="$1" CONTAINER_OPTIONS="${given[*]}" LD_LIBRARY_PATH=/.singularity.d/libs
export CONTAINER_PROGRAM="${0##*/}"
image=$1
shift
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin exec "$(dirname "$(readlink -f "$0")")/container" "$image" "${binds[@]}" -- "$@"
`

// srunWithPyxis is a stand-in for srun with the plugin Pyxis: it removes the plugin's options and refuses what Pyxis refuses (a missing
// squashfs file or mount source, mounts that it cannot parse). Then it runs the real srun, whose tasks are in the container. The image's own
// PATH and LD_LIBRARY_PATH go before the user's. PYXIS_IMAGE is not Pyxis': it has the image for the tests.
// Copied from Pyxis 0.20: args.c, which separates mounts by commas and colons and gives them to enroot with spaces between, and its messages.
const srunWithPyxis = `#!/bin/bash
fail() { echo "slurmstepd: error: pyxis: $*" >&2; exit 1; }
own=() binds=() image= real=$(type -ap srun | sed -n 2p)
while [ $# -gt 0 ]; do
	case $1 in
	--container-image=*)
		image=${1#*=}
		[ -f "$image" ] || fail "couldn't open image $image" ;;
	--container-mounts=*)
		IFS=, read -ra mounts <<<"${1#*=}"
		for mount in "${mounts[@]}"; do
			IFS=: read -r source target options <<<"$mount"
			case $source$target in *[[:space:]]*) fail "could not parse mount $mount" ;; esac
			[ -e "$source" ] || fail "couldn't mount $source"
			binds+=("$mount")
		done ;;
	--container-mount-home) binds+=("$HOME:$HOME") ;;
	--no-container-remap-root) ;;
	--container-*|--no-container-*) fail "unknown option $1" ;;
	--nodelist) own+=("$1=$2"); shift ;;
	-*) own+=("$1") ;;
	*) break ;;
	esac
	shift
done
[ -n "$image" ] || exec "$real" "${own[@]}" "$@"
export PYXIS_IMAGE=$image
exec "$real" "${own[@]}" env PATH=/usr/local/bin:/usr/bin:/bin LD_LIBRARY_PATH=/usr/local/nvidia/lib "$(dirname "$0")/container" "$image" "${binds[@]}" -- "$@"
`

// inEachImage is what images have beside Ray.
var inEachImage = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc"}

// AddContainers adds stand-ins for Apptainer, which is singularity in shared/modules/bin, and for srun with Pyxis to a directory of the cluster, makes an image
// that has the machine's programs and these directories, and returns the image and a PATH that starts with the stand-ins.
func (c *Cluster) AddContainers(t testing.TB, inImage ...string) (image, path string) {
	t.Helper()
	bin := filepath.Join(c.Dir, "shared", "bin")
	image = filepath.Join(c.Dir, "shared", "ray.sif")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, dir := range slices.Concat(inEachImage, inImage) {
		if _, err := os.Lstat(dir); err == nil && !slices.Contains(list, dir) {
			list = append(list, dir)
		}
	}
	for name, text := range map[string]string{
		bin + "/container": container, bin + "/apptainer": apptainer, bin + "/srun": srunWithPyxis, image: strings.Join(list, "\n") + "\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	modules := filepath.Join(c.Dir, "shared", "modules", "bin")
	if err := os.MkdirAll(modules, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(bin+"/apptainer", modules+"/singularity"); err != nil {
		t.Fatal(err)
	}
	return image, strings.Join([]string{bin, SearchPath}, ":")
}
