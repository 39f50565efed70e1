package kuberay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"

	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/observe"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// execInPod runs a command in the Ray container of a pod and returns its exit code.
func execInPod(ctx context.Context, c *api.Client, pod *corev1.Pod, e launcher.ExecRequest) (int, error) {
	request := c.Core.CoreV1().RESTClient().Post().Resource("pods").Namespace(c.Namespace).Name(pod.Name).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: observe.RayContainer(pod), Command: e.Command,
			Stdin: e.Stdin != nil, Stdout: e.Stdout != nil, Stderr: e.Stderr != nil && !e.TTY, TTY: e.TTY,
		}, scheme.ParameterCodec)
	websocket, err := remotecommand.NewWebSocketExecutor(c.Config, http.MethodGet, request.URL().String())
	if err != nil {
		return 0, fmt.Errorf("prepare exec: %w", err)
	}
	spdy, err := remotecommand.NewSPDYExecutor(c.Config, http.MethodPost, request.URL())
	if err != nil {
		return 0, fmt.Errorf("prepare exec: %w", err)
	}
	executor, err := remotecommand.NewFallbackExecutor(websocket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err) || apierrors.IsForbidden(err)
	})
	if err != nil {
		return 0, fmt.Errorf("prepare exec: %w", err)
	}
	o := remotecommand.StreamOptions{Stdin: e.Stdin, Stdout: e.Stdout, Stderr: e.Stderr, Tty: e.TTY}
	if e.TTY {
		o.Stderr = nil
		if terminal, ok := e.Stdin.(*os.File); ok {
			w, err := newTerminalWindow(terminal)
			if err != nil {
				return 0, err
			}
			defer w.takeBack()
			o.TerminalSizeQueue = w
		}
	}
	err = executor.StreamWithContext(ctx, o)
	var code exec.CodeExitError
	if errors.As(err, &code) {
		return code.Code, nil
	}
	return 0, api.Explain(err, "create", "pods/exec", c)
}

// terminalWindow is this terminal in the hands of a command elsewhere.
type terminalWindow struct {
	fd      int
	before  *term.State
	changed chan os.Signal
	over    chan struct{}
}

// newTerminalWindow leaves it to the terminal there what typed keys mean, Ctrl-C too.
func newTerminalWindow(terminal *os.File) (*terminalWindow, error) {
	w := &terminalWindow{fd: int(terminal.Fd()), changed: make(chan os.Signal, 1), over: make(chan struct{})} //nolint:gosec // file descriptors are small
	var err error
	if w.before, err = term.MakeRaw(w.fd); err != nil {
		return nil, launcher.Fail(runstate.CodeConfig, err, "leave -t out", "stdin is no terminal that can be used: %v", err)
	}
	w.changed <- syscall.SIGWINCH // its size now
	signal.Notify(w.changed, syscall.SIGWINCH)
	return w, nil
}

// Next waits for the next size of the window.
func (w *terminalWindow) Next() *remotecommand.TerminalSize {
	select {
	case <-w.over:
		return nil
	case <-w.changed:
	}
	width, height, err := term.GetSize(w.fd)
	if err != nil {
		return nil
	}
	return &remotecommand.TerminalSize{Width: uint16(width), Height: uint16(height)} //nolint:gosec // they are of 16 bits in the kernel
}

func (w *terminalWindow) takeBack() {
	signal.Stop(w.changed)
	close(w.over)
	_ = term.Restore(w.fd, w.before) // if it fails the terminal is gone
}
