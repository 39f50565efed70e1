package app

import (
	"regexp"
	"slices"
	"strings"
)

// rayExtras matches the messages in which Ray's libraries name the packages that they need.
var rayExtras = regexp.MustCompile(`\bray\[[a-z,]{1,40}\]`)

// extraModules are the modules that the extras of Ray's libraries bring (setup.py of Ray 2.9 to 2.60), without those of ray[default].
var extraModules = map[string][]string{
	"data":  {"fsspec", "numpy", "pandas", "pyarrow"},
	"train": {"fsspec", "numpy", "pandas", "pyarrow", "pydantic", "requests", "tensorboardX"},
	"tune":  {"fsspec", "numpy", "pandas", "pyarrow", "pydantic", "requests", "tensorboardX"},
	"serve": {"aiorwlock", "fastapi", "requests", "starlette", "uvicorn", "watchfiles"},
	"rllib": {"dm_tree", "fsspec", "gymnasium", "lz4", "numpy", "ormsgpack", "pandas", "pyarrow", "requests", "rich", "scipy", "skimage", "tensorboardX", "tree", "yaml"},
}

var (
	// tracebackFrame matches a line of a traceback that names a file, without those of Python's import system.
	tracebackFrame = regexp.MustCompile(`File "([^"<]+)", line \d+`)
	// raysFile matches Ray's own files, raysLibrary those of one of its libraries.
	raysFile    = regexp.MustCompile(`-packages/ray/`)
	raysLibrary = regexp.MustCompile(`-packages/ray/(data|train|tune|serve|rllib)/`)
)

// extraFor is the extra of Ray that brings a module: the one that Ray's own message in the output names, else that of the libraries in the traceback, which ends
// at the error, if the import that failed is Ray's and not one of the user's code; "" if there is none.
func extraFor(module, output string, failed int) string {
	if named := rayExtras.FindAllString(output, -1); len(named) > 0 {
		return named[len(named)-1]
	}
	traceback := output[max(0, strings.LastIndex(output[:failed], "Traceback (most recent call last)")):failed]
	frames := tracebackFrame.FindAllStringSubmatch(traceback, -1)
	if len(frames) == 0 || !raysFile.MatchString(frames[len(frames)-1][1]) {
		return ""
	}
	var extras []string
	for _, f := range frames {
		if m := raysLibrary.FindStringSubmatch(f[1]); m != nil && slices.Contains(extraModules[m[1]], module) && !slices.Contains(extras, m[1]) {
			extras = append(extras, m[1])
		}
	}
	if len(extras) == 0 {
		return ""
	}
	slices.Sort(extras)
	return "ray[" + strings.Join(extras, ",") + "]"
}
