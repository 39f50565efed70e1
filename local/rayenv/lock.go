package rayenv

import (
	"embed"
	"regexp"
	"strings"
)

// locks are the packages of the default environment with hashes, for each Ray that rayctl tests; scripts/locks.sh writes them.
//
//go:embed locks
var locks embed.FS

// lockOf is the lock of a version of Ray, as a requirements file; "" if there is none.
func lockOf(version string) string {
	text, err := locks.ReadFile("locks/ray-" + version + ".txt")
	if err != nil {
		return ""
	}
	return string(text)
}

// lock is the lock that the environment begins with; "": none.
func (o Options) lock() string {
	if o.NoLock {
		return ""
	}
	return lockOf(o.version())
}

// lockMissing matches why the index does not have what the lock names: no such version, or none for this platform. Another content of a file is none of these.
var lockMissing = regexp.MustCompile(`No solution found|was not found in the package registry|there is no version of|No matching distribution|satisfies the requirement`)

// indexOption matches a line of requirements that says where packages are.
var indexOption = regexp.MustCompile(`^\s*(--index-url|--extra-index-url|--find-links|--no-index|--trusted-host|-i|-f)\b`)

// locked is the requirements file of the lock, with the indexes that the user's lines name.
func locked(lock string, lines []string) string {
	var options strings.Builder
	for _, line := range lines {
		if indexOption.MatchString(line) {
			options.WriteString(line + "\n")
		}
	}
	return options.String() + lock
}
