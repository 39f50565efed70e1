package driverio

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"maps"
	"strings"

	keeperzip "github.com/rayctl/rayctl/keeper"
)

// ranksLine begins a command that runs on every node (job.launch). It puts the program keeper/rayctl_keeper/ranks/main.py in the place of the shell, with the Python
// that has Ray; all else in the entrypoint is the user's command, for people.
const ranksLine = "eval \"$RAYCTL_RANKS\"\n"

// ranksShell is that variable. Ray changes nothing in it: it has no dollar and no apostrophe.
const ranksShell = `command -v python >/dev/null 2>&1 && exec python -c "` + ranksPython + `"; exec python3 -c "` + ranksPython + `"`

const ranksPython = `import base64, json, os, zlib; JOB = json.loads(zlib.decompress(base64.b64decode(os.environ[\"RAYCTL_RANKS_JOB\"]))); exec(JOB[\"program\"])`

// Ranks is a command that runs on every node, for the program that runs it.
type Ranks struct {
	Program  string      `json:"program"` // its own text
	Guard    string      `json:"guard"`   // that of the program that runs one rank
	Command  string      `json:"command"`
	PerNode  any         `json:"perNode"` // a number, or gpu
	Groups   []RankGroup `json:"groups"`  // all of the cluster, in the order of ranks
	Reserved [2]float64  `json:"reserved"`
	Ports    string      `json:"ports"` // FIRST-LAST of MASTER_PORT; empty: any
	Grace    float64     `json:"grace"`
}

// RankGroup is a group of nodes with the number of required ones.
type RankGroup struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
	Head  bool   `json:"head"`
	Runs  bool   `json:"runs"` // ranks
}

// OnNodes is the entrypoint and the variables of a command that runs on every node.
func OnNodes(r Ranks, env map[string]string) (entrypoint string, variables map[string]string) {
	r.Program, r.Guard = keeperzip.Source("rayctl_keeper/ranks/main.py"), keeperzip.Source("rayctl_keeper/ranks/guard.py")
	var packed bytes.Buffer
	w := zlib.NewWriter(&packed)
	data, err := json.Marshal(r)
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic("ranks: " + err.Error()) // neither the document nor a buffer in memory can fail
	}
	variables = map[string]string{"RAYCTL_RANKS": ranksShell, "RAYCTL_RANKS_JOB": base64.StdEncoding.EncodeToString(packed.Bytes())}
	maps.Copy(variables, env)
	return ranksLine + r.Command, variables
}

// HasRanks reports whether an entrypoint runs on every node.
func HasRanks(entrypoint string) bool {
	entrypoint = withoutHeading(entrypoint)
	return strings.HasPrefix(entrypoint[len(entering.FindString(entrypoint)):], ranksLine)
}
