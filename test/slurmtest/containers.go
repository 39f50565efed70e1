//go:build linux

package slurmtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// apptainer stands for Apptainer: it takes the arguments of `apptainer exec` apart as that does, refuses what that refuses (a path to
// bind or an image that is not there, an unknown flag), sets the variable that tells programs of the container, and runs the command
// where it is. Copied from Apptainer 1.3: its messages, cmd/internal/cli/action_flags.go, and APPTAINER_CONTAINER.
const apptainer = `#!/bin/sh
fail() { echo "FATAL:   $*" >&2; exit 255; }
[ "$1" = exec ] || fail "unknown command $1"
shift
while :; do
	case $1 in
	--nv) shift ;;
	--bind) [ -e "${2%%:*}" ] || fail "mount ${2%%:*} failed: no such file or directory"; shift 2 ;;
	-*) fail "unknown flag: $1" ;;
	*) break ;;
	esac
done
[ -f "$1" ] || fail "could not open image $1: no such file or directory"
export APPTAINER_CONTAINER="$1"
shift
exec "$@"
`

// srunWithPyxis stands for srun with the plugin Pyxis: it takes the plugin's options out, refuses what Pyxis refuses (a squashfs file
// or a mount's source that is not there), and runs the real srun, in whose tasks PYXIS_IMAGE says that there was a container.
// Copied from Pyxis 0.20: args.c, and its messages.
const srunWithPyxis = `#!/bin/bash
fail() { echo "slurmstepd: error: pyxis: $*" >&2; exit 1; }
args=()
for arg; do
	case $arg in
	--container-image=*)
		export PYXIS_IMAGE=${arg#*=}
		[ -f "$PYXIS_IMAGE" ] || fail "couldn't open image $PYXIS_IMAGE" ;;
	--container-mounts=*)
		IFS=, read -ra mounts <<<"${arg#*=}"
		for mount in "${mounts[@]}"; do [ -e "${mount%%:*}" ] || fail "couldn't mount ${mount%%:*}"; done ;;
	--no-container-remap-root) ;;
	--container-*) fail "unknown option $arg" ;;
	*) args+=("$arg") ;;
	esac
done
exec "$(type -ap srun | sed -n 2p)" "${args[@]}"
`

// AddContainers puts stand-ins for Apptainer and for srun with Pyxis into a directory of the cluster, makes an image, and returns the
// image and the PATH that has the stand-ins first.
func (c *Cluster) AddContainers(t testing.TB) (image, path string) {
	t.Helper()
	bin := filepath.Join(c.Dir, "shared", "bin")
	image = filepath.Join(c.Dir, "shared", "ray.sif")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{bin + "/apptainer": apptainer, bin + "/srun": srunWithPyxis, image: ""} {
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return image, strings.Join([]string{bin, searchPath}, ":")
}
