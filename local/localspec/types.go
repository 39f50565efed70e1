package localspec

import "github.com/rayctl/rayctl/launcher/spec"

// cluster is what the launcher adds to the cluster file itself.
type cluster struct {
	// Local sets how to run Ray on this machine. Its presence chooses nothing: local is the default.
	Local *Section `json:"local,omitempty"`
}

// mount is what the launcher adds to a mount's source.
type mount struct {
	// Local is a directory of this machine. A relative path is relative to the file. Without containers nothing is mounted: if mountPath
	// does not exist, it is made a symbolic link to this directory, which stays; if it exists, it must be the same directory.
	Local string `json:"local,omitempty" path:"client"`
}

// Section sets how to run Ray on this machine.
type Section struct {
	// Packages are Python packages that rayctl installs beside Ray in the environment it makes: a list, as pip takes them, such as jax==0.7.0, ray[train], -e . or
	// -r requirements.txt; or the name of a requirements file, of a pyproject.toml (its dependencies), or of a uv.lock (which uv installs as it is, without
	// development groups). Relative to the file. An error with ray.python, whose environment is yours. Default: none.
	Packages spec.Requirements `json:"packages,omitzero" path:"client"`
	// Uv says whether uv installs the packages: the one in PATH, else one that rayctl fetches once from the package index that pip uses. false: pip
	// installs. Default: true.
	Uv *bool `json:"uv,omitempty"`
	// Lock says whether Ray and its dependencies are installed in the versions with which rayctl tested this version of Ray, and with their SHA-256 sums checked. It
	// has no effect for a version of Ray that rayctl has no lock for. false: the newest versions of the package index. Default: true.
	Lock *bool `json:"lock,omitempty"`
	// TmpDir is the directory below which each node makes its short temporary directory (Ray's sockets allow paths of about 100
	// characters). Default: TMPDIR, or /tmp.
	TmpDir string `json:"tmpDir,omitempty" path:"client"`
	// MaxNodes is how many Ray nodes a cluster may begin with on this machine. Default: 32 for each processor, but not more than 4 for each GiB of the machine's
	// memory.
	MaxNodes int `json:"maxNodes,omitempty"`
}
