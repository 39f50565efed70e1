package localspec

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
	// Packages are Python packages, as pip takes them, that rayctl installs beside Ray in the environment it makes, such as jax==0.7.0
	// or ray[train]. An error with ray.python, whose environment is yours. Default: none.
	Packages []string `json:"packages,omitempty"`
	// Uv says whether uv installs the packages: the one in PATH, else one that rayctl fetches once from the package index that pip uses. false: pip
	// installs. Default: true.
	Uv *bool `json:"uv,omitempty"`
	// TmpDir is the directory below which each node makes its short temporary directory (Ray's sockets allow paths of about 100
	// characters). Default: TMPDIR, or /tmp.
	TmpDir string `json:"tmpDir,omitempty" path:"client"`
	// MaxNodes is how many Ray nodes a cluster may begin with on this machine. Default: 32 for each processor, and at most as many as need twice
	// the machine's memory at 0.5 GiB each.
	MaxNodes int `json:"maxNodes,omitempty"`
}
