//go:build linux

package slurmtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// apptainer is a stand-in for Apptainer: it parses the arguments of `apptainer exec` and refuses what Apptainer refuses (a missing bind
// path or image, an unknown flag). It sets the variable by which programs detect the container, and runs the command
// directly. Copied from Apptainer 1.3: its messages, cmd/internal/cli/action_flags.go, and APPTAINER_CONTAINER.
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

// srunWithPyxis is a stand-in for srun with the plugin Pyxis: it removes the plugin's options and refuses what Pyxis refuses (a missing
// squashfs file or mount source). Then it runs the real srun, with PYXIS_IMAGE in the tasks as proof of the container.
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

// AddContainers adds stand-ins for Apptainer and for srun with Pyxis to a directory of the cluster, makes an image, and returns the
// image and a PATH that starts with the stand-ins.
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
