package raytest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/test/needs"
)

// startLimit is long because on a loaded machine the import of Ray alone has taken 23 s.
const startLimit = 3 * time.Minute

// HeadOptions configures a head.
type HeadOptions struct {
	// Version of Ray; empty: Ray260.
	Version string
	// NoToken disables token authentication, if the version has it.
	NoToken bool
	// CPUs of the node; 0: 2.
	CPUs int
	// Env are more variables, "KEY=VALUE".
	Env []string
	// Args are more arguments of "ray start".
	Args []string
}

// Head is a running Ray head.
type Head struct {
	// URL of its dashboard, on loopback.
	URL string
	// Token, and the 0600 file that holds it; empty without token authentication.
	Token, TokenFile string
	// Version of Ray, and the Python it runs on.
	Version, Python string
	// GCSAddress is host:port, for ray.init(address=...).
	GCSAddress string
	// TempDir is Ray's temporary directory.
	TempDir string

	// Env is the environment of its processes; Ray's own tools can use it too.
	Env []string
	// StartArgs is the "ray start" command line, without --block.
	StartArgs []string

	logPath string
	guarded *Guarded
}

// StartHead starts one isolated head, returns once its node is alive, and kills it with all its descendants at the test's end.
func StartHead(t testing.TB, opts HeadOptions) *Head {
	t.Helper()
	needs.RealSystem(t)
	head, err := Start(t.Context(), opts, t.Logf)
	if err != nil {
		t.Fatalf("start a Ray head: %v", err)
	}
	t.Cleanup(head.Kill)
	return head
}

// Client returns a client of the head's dashboard.
func (h *Head) Client(t testing.TB) *dashboardclient.Client {
	t.Helper()
	client, err := dashboardclient.New(h.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// Config is the configuration of a client of the head's dashboard.
func (h *Head) Config() dashboardclient.Config {
	return dashboardclient.Config{URL: h.URL, Token: h.Token}
}

// Kill ends the head and all its descendants at once, like the loss of a machine. It may be called twice.
func (h *Head) Kill() { h.guarded.Kill() }

// Processes are the head's processes, see Guarded.
func (h *Head) Processes() *Guarded { return h.guarded }

// Start is StartHead for programs other than tests; the caller kills the head. ctx bounds only the start.
func Start(ctx context.Context, opts HeadOptions, logf func(string, ...any)) (*Head, error) {
	for attempt := 1; ; attempt++ {
		head, err := startOnce(ctx, opts, logf)
		if err == nil || attempt == 3 || !errors.Is(err, errTooSlow) {
			return head, err
		}
		logf("Ray's own limit of 30 s for its start was too short on this loaded machine: starting it again")
	}
}

// errTooSlow: "ray start" gave up at a limit fixed in its code (raylet_start_wait_time_s in node.py).
var errTooSlow = errors.New("ray start exceeded its own time limit")

func startOnce(ctx context.Context, opts HeadOptions, logf func(string, ...any)) (*Head, error) {
	head, err := Prepare(ctx, opts, logf)
	if err != nil {
		return nil, err
	}
	if err := head.launch(); err != nil {
		_ = os.RemoveAll(head.TempDir)
		return nil, err
	}
	if err := head.waitReady(ctx); err != nil {
		log, _ := os.ReadFile(head.logPath)
		head.Kill()
		if bytes.Contains(log, []byte("timed out during startup")) {
			err = errTooSlow
		}
		return nil, fmt.Errorf("%w\n%s", err, log)
	}
	return head, nil
}

// Prepare makes the requirements of an isolated head (directory, ports, token) and starts nothing, for callers that run StartArgs with Env
// themselves. The caller removes TempDir.
func Prepare(ctx context.Context, opts HeadOptions, logf func(string, ...any)) (*Head, error) {
	if opts.Version == "" {
		opts.Version = Ray260
	}
	python, err := Install(ctx, opts.Version, logf)
	if err != nil {
		return nil, err
	}
	// Short, and not t.TempDir(): Ray's socket paths below it may have 107 bytes at most.
	dir, err := os.MkdirTemp("/tmp", "rt")
	if err != nil {
		return nil, err
	}
	head := &Head{Version: opts.Version, Python: python, TempDir: dir, logPath: filepath.Join(dir, "start.log")}
	if err := head.configure(ctx, opts); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return head, nil
}

// configure sets the address, the environment and the command line.
func (h *Head) configure(ctx context.Context, opts HeadOptions) error {
	ports, err := freePorts(ctx, 2+len(agentPorts))
	if err != nil {
		return err
	}
	h.URL = "http://127.0.0.1:" + ports[0]
	if h.Env, err = h.environment(opts); err != nil {
		return err
	}
	if opts.CPUs == 0 {
		opts.CPUs = 2
	}
	h.StartArgs = append([]string{
		h.Python, "-m", "ray.scripts.scripts", "start", "--head", "--disable-usage-stats",
		"--port=0", "--dashboard-host=127.0.0.1", "--dashboard-port=" + ports[0], "--ray-client-server-port=" + ports[1],
		"--temp-dir=" + h.TempDir, "--num-cpus=" + strconv.Itoa(opts.CPUs), "--object-store-memory=100000000",
	}, h.agentArgs(ports[2:])...)
	h.StartArgs = append(h.StartArgs, opts.Args...)
	return nil
}

// agentPorts are the options of a node's agents.
var agentPorts = []string{"--dashboard-agent-listen-port=", "--dashboard-agent-grpc-port=", "--metrics-export-port=", "--runtime-env-agent-port="}

// agentArgs sets the agents' ports. A raylet of Ray 2.60 waits only 15 s for ports that its agents choose, which is too short on a loaded machine. Older versions do
// not have all these options, nor that limit.
func (h *Head) agentArgs(ports []string) []string {
	if h.Version != Ray260 {
		return []string{agentPorts[0] + "0", agentPorts[1] + "0"}
	}
	var args []string
	for i, option := range agentPorts {
		args = append(args, option+ports[i])
	}
	return args
}

// launch starts "ray start" below its guard.
func (h *Head) launch() error {
	log, err := os.Create(h.logPath)
	if err != nil {
		return err
	}
	defer log.Close()
	command := &exec.Cmd{Args: append(h.StartArgs[:len(h.StartArgs):len(h.StartArgs)], "--block")}
	command.Env, command.Stdout, command.Stderr = h.Env, log, log
	h.guarded, err = Guard(h.Python, h.TempDir, command)
	return err
}

// environment is the test's own, with a private home and an explicit authentication mode for Ray. Without the mode Ray
// checks whether the user has ~/.ray/auth_token.
func (h *Head) environment(opts HeadOptions) ([]string, error) {
	home := filepath.Join(h.TempDir, "home")
	if err := os.Mkdir(home, 0o755); err != nil {
		return nil, err
	}
	// With this file the dashboard does not query the cloud's metadata service, which would block it for up to 12 s.
	if err := os.WriteFile(filepath.Join(home, "ray_bootstrap_config.yaml"), []byte("provider: {type: local}\n"), 0o644); err != nil {
		return nil, err
	}
	var env []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "RAY_") {
			env = append(env, variable)
		}
	}
	// By default a raylet ends, and with it the node, if its agent has not registered within 30 s; the keeper sets the same longer limit (raystart.py). By default
	// Serve's controller kills a proxy that is not ready within 5 s (Ray 2.9, serve/_private/proxy_state.py), and the deployment fails.
	env = append(env, "HOME="+home, "PYTHONUNBUFFERED=1", "RAY_agent_register_timeout_ms=120000", "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S=60")
	if opts.NoToken || !hasTokens(opts.Version) {
		env = append(env, "RAY_AUTH_MODE=disabled")
		return append(env, opts.Env...), nil
	}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // crypto/rand never fails
	h.Token = hex.EncodeToString(secret)
	h.TokenFile = filepath.Join(home, "token")
	if err := os.WriteFile(h.TokenFile, []byte(h.Token), 0o600); err != nil {
		return nil, err
	}
	env = append(env, "RAY_AUTH_MODE=token", "RAY_AUTH_TOKEN_PATH="+h.TokenFile)
	return append(env, opts.Env...), nil
}

// hasTokens: token authentication came with Ray 2.52.
func hasTokens(version string) bool { return version == Ray260 }

// waitReady returns once the head's node is alive; then jobs are accepted.
func (h *Head) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	go func() {
		select {
		case <-h.guarded.Exited():
			cancel()
		case <-ctx.Done():
		}
	}()
	client, err := dashboardclient.New(h.Config())
	if err != nil {
		return err
	}
	if _, err := client.WaitNodes(ctx, 1); err != nil {
		select {
		case <-h.guarded.Exited():
			return errors.New("ray start ended by itself")
		default:
			return err
		}
	}
	return h.waitAddress(ctx)
}

// waitAddress reads the file that "ray start" writes at its very end, some time after the node is alive.
func (h *Head) waitAddress(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		address, err := os.ReadFile(filepath.Join(h.TempDir, "ray_current_cluster"))
		if err == nil && len(address) > 0 {
			h.GCSAddress = strings.TrimSpace(string(address))
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.New("ray start did not write its address")
		}
	}
}
