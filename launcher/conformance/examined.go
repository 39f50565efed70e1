package conformance

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/spec"
)

// examined is a launcher.Evidence that keeps what a launcher hands over for debug-dump.
type examined struct {
	texts   map[string][]byte
	secrets []string
	missing []string
	spec    *spec.ClusterSpec
}

func (e *examined) UsersOutput() bool { return false }

func (e *examined) Add(name string, text []byte, _ int64) bool {
	e.texts[name] = text
	return true
}

func (e *examined) Missing(what string, err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		e.missing = append(e.missing, what+": "+err.Error())
	}
}

func (e *examined) Secret(values ...string)  { e.secrets = append(e.secrets, values...) }
func (e *examined) Spec(s *spec.ClusterSpec) { e.spec = s }

// examine adds to the surfaces what the launcher hands over of a living cluster, and checks that it hands over these secrets, the cluster file, the keeper's orders
// and its log.
func (s *suite) examine(t *testing.T, id launcher.ID, surfaces map[string][]byte, secrets ...string) {
	t.Helper()
	found := &examined{texts: map[string][]byte{}}
	s.l.Examine(s.context(t), id, found)
	orders, log := false, false
	for name, text := range found.texts {
		surfaces["examined "+name] = text
		orders = orders || strings.HasSuffix(name, "/"+keeper.OrdersFile)
		log = log || strings.HasSuffix(name, "/"+keeper.KeeperLog) && len(text) > 0
	}
	log = log || !s.KeeperLog
	if !orders || !log || found.spec == nil || found.spec.Name != string(id) {
		t.Errorf("for debug-dump: orders %t, keeper's log %t, cluster file %v; missing %q", orders, log, found.spec, found.missing)
	}
	for i, secret := range secrets {
		if !slices.Contains(found.secrets, secret) {
			t.Errorf("debug-dump does not learn secret %d; missing %q", i+1, found.missing)
		}
	}
}
