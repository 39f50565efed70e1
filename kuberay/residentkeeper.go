package kuberay

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rayctl/rayctl/dashboardclient/proven"
	keeperzip "github.com/rayctl/rayctl/keeper"
	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/kuberay/observe"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// residentKeeper is the keeper of a cluster with kuberay.keeper: none: a child of this client, on this machine. It reaches the dashboard through the
// client, and when it has ended the client deletes the RayCluster. After kill -9 of the client nobody does.
type residentKeeper struct {
	root  string        // of what is on the disk
	run   keeper.RunDir // below it
	token string
	gate  net.Listener // the dashboard, for the keeper
	child *exec.Cmd
	stdin io.Closer // before the commit, its end shows the keeper that the client has ended

	Gone  chan struct{}   // closed when the keeper has ended and its cluster is deleted
	Final *runstate.State // then: its last word, nil if it left none
	logs  map[int]*os.File
}

// headDialer reaches the cluster's dashboard.
type headDialer func(context.Context) (*launcher.Endpoint, error)

// startResident starts the keeper's process, which reaches the dashboard by dial.
func startResident(ctx context.Context, p *objects.Plan, dial headDialer) (*residentKeeper, error) {
	r := &residentKeeper{token: p.Token, Gone: make(chan struct{}), logs: map[int]*os.File{}}
	err := r.prepare(ctx, p)
	if err == nil {
		go carryToHead(context.WithoutCancel(ctx), r.gate, dial)
		err = r.start()
	}
	if err != nil {
		r.remove()
		return nil, launcher.Fail(runstate.CodeConfig, err, "kuberay.keeper: none needs python3 on this machine", "the keeper cannot be started here: %v", err)
	}
	return r, nil
}

// prepare makes the run directory and the listener.
func (r *residentKeeper) prepare(ctx context.Context, p *objects.Plan) (err error) {
	if r.root, err = os.MkdirTemp("", "rayctl-keeper-"); err != nil {
		return err
	}
	gate, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	r.gate = &proven.Listener{Listener: gate}
	orders := p.Orders()
	orders.Start.Dashboard = "http://" + r.gate.Addr().String()
	orders.Listen, orders.Advertise, orders.DashboardHost, orders.Signals, orders.WatchStdin = "127.0.0.1:0", "127.0.0.1", "127.0.0.1", nil, true
	r.run = keeper.RunDir(filepath.Join(r.root, "run"))
	return r.run.Prepare(orders, p.Token, nil)
}

// start runs the keeper in a process group of its own: Ctrl-C on the terminal is the client's.
func (r *residentKeeper) start() error {
	program, err := keeperzip.Write(r.root)
	if err != nil {
		return err
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		return err
	}
	r.child = exec.Command(python, "-S", "-E", program, keeperzip.Keeper, string(r.run)) //nolint:noctx // it ends by itself, or with stdin
	r.child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if r.stdin, err = r.child.StdinPipe(); err != nil {
		return err
	}
	return r.child.Start()
}

// carryToHead takes the keeper's connections to the dashboard until the listener is closed.
func carryToHead(ctx context.Context, gate net.Listener, dial headDialer) {
	for {
		near, err := gate.Accept()
		if err != nil {
			return // closed
		}
		go func() {
			defer near.Close()
			e, err := dial(ctx)
			if err != nil {
				return // the keeper sees a connection that ends, and tries again
			}
			defer e.Close()
			far, err := e.DialContext(ctx, "tcp", "")
			if err != nil {
				return
			}
			defer far.Close()
			go func() {
				_, _ = io.Copy(far, near)
				far.Close()
			}()
			_, _ = io.Copy(near, far)
		}()
	}
}

// Endpoint is the keeper's API, once it listens.
func (r *residentKeeper) Endpoint(id launcher.ID) (*launcher.Endpoint, error) {
	st, err := r.run.State()
	if err != nil || st.Keeper.URL == "" {
		return nil, api.NotReady(string(id), "keeper", err)
	}
	return &launcher.Endpoint{URL: st.Keeper.URL, Token: r.token, TokenHeader: "Authorization", Via: "a process of this machine"}, nil
}

// Commit hands the packages over.
func (r *residentKeeper) Commit(packages *launcher.Packages) error {
	document, err := orders.Commit(packages)
	if err != nil {
		return err
	}
	for _, f := range packages.Files {
		if err := os.Symlink(f.Path, filepath.Join(string(r.run), orders.PackageName(f.URI))); err != nil {
			return fmt.Errorf("hand the package over: %w", err)
		}
	}
	return r.run.Commit(document)
}

// Abandon ends a keeper whose launch was not committed.
func (r *residentKeeper) Abandon() {
	r.stdin.Close()
	_ = r.child.Wait()
	r.remove()
}

// Wait returns when the keeper has ended, and keeps what it has left.
func (r *residentKeeper) Wait() {
	_ = r.child.Wait() // its result has the outcome
	r.collect()
}

// collect keeps what the keeper has left, and removes its files.
func (r *residentKeeper) collect() {
	defer r.remove()
	st, err := r.run.Result()
	if err != nil {
		return
	}
	r.Final = st
	for n := 1; n <= st.Attempt; n++ {
		name := keeper.AttemptLog(n)
		if n == st.Attempt {
			name = keeper.DriverLog
		}
		if f, err := os.Open(filepath.Join(string(r.run), name)); err == nil { // without a file the driver never ran
			r.logs[n] = f
		}
	}
}

// openLog reads what collect has kept.
func (r *residentKeeper) openLog(_ context.Context, attempt int, offset int64) (io.ReadCloser, error) {
	if attempt == 0 && r.Final != nil {
		attempt = r.Final.Attempt
	}
	f := r.logs[attempt]
	if f == nil {
		return io.NopCloser(strings.NewReader("")), nil
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return io.NopCloser(io.NewSectionReader(f, offset, max(0, info.Size()-offset))), nil
}

func (r *residentKeeper) remove() {
	if r.gate != nil {
		r.gate.Close()
	}
	_ = os.RemoveAll(r.root) // what cannot be removed is a few files in the temporary directory
}

// Result is the outcome of a cluster that this client kept. It lives as long as this client does.
func (r *residentKeeper) Result(id launcher.ID, namespace string) (*launcher.Result, error) {
	select {
	case <-r.Gone:
	default:
		return nil, launcher.NotEnded(id)
	}
	info := launcher.LogInfo{}
	if r.Final != nil && r.Final.Log != nil {
		info.Bytes, info.Missing = r.Final.Log.Bytes, r.Final.Log.Missing
	}
	s := observe.FinalStatus(id, namespace, &observe.Snapshot{Now: time.Now().UTC()}, r.Final)
	s.Ours = true
	return launcher.NewResult(s, info, r.openLog), nil
}
