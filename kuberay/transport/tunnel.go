package transport

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/portforward"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/client-go/transport/spdy"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// tunnel is a port-forward to whichever pod serves a target now. One connection to the API server carries all streams. It does not
// notice by itself that its pod has gone, so the pod is watched.
type tunnel struct {
	Place
	api API

	mu      sync.Mutex
	session *session
	pod     string // of the last session, as long as it is not known to have ended
	version string // of that pod, when it was found
	closed  bool
}

// session is one connection to one pod.
type session struct {
	conn     httpstream.Connection
	pod      string
	protocol string
	next     atomic.Int64
	stop     context.CancelFunc
}

const (
	connectTimeout = 20 * time.Second
	streamTimeout  = 10 * time.Second
)

// Dial opens one connection to the target's port.
func (t *tunnel) Dial(ctx context.Context) (net.Conn, error) {
	var lastErr error
	for range 2 { // a connection that broke in silence is noticed here
		s, err := t.open(ctx)
		if err != nil {
			return nil, err
		}
		conn, err := within(ctx, streamTimeout, func() (net.Conn, error) { return s.stream(int32(t.Port), func() { t.drop(s) }) })
		if err == nil {
			return conn, nil
		}
		lastErr = err
		t.drop(s)
	}
	return nil, fmt.Errorf("open a stream to %s: %w", t.What, lastErr)
}

func (t *tunnel) Ready(ctx context.Context) error {
	_, err := t.open(ctx)
	return err
}

// open returns the connection, a new one if there is none that lives.
func (t *tunnel) open(ctx context.Context) (*session, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, net.ErrClosed
	}
	if s := t.session; s != nil {
		select {
		case <-s.conn.CloseChan():
			s.stop()
		default:
			return s, nil
		}
	}
	s, err := t.connect(ctx)
	if err != nil {
		return nil, err
	}
	var watching context.Context
	watching, s.stop = context.WithCancel(context.WithoutCancel(ctx)) // the connection outlives the call that made it
	go t.closeWithPod(watching, s, t.version)
	t.session = s
	return s, nil
}

// connect goes to the pod of the last session, if that may still be there, or to whichever serves now.
func (t *tunnel) connect(ctx context.Context) (*session, error) {
	to := func(pod string) (*session, error) {
		return within(ctx, connectTimeout, func() (*session, error) { return t.api.forward(pod) })
	}
	if t.pod != "" {
		if s, err := to(t.pod); err == nil {
			return s, nil
		}
		t.pod = ""
	}
	pod, err := t.api.serving(ctx, t.Place)
	if err != nil {
		return nil, err
	}
	s, err := to(pod.Name)
	if err != nil {
		return nil, t.api.Explain(err, "create", "pods/portforward")
	}
	t.pod, t.version = pod.Name, pod.ResourceVersion
	return s, nil
}

// closeWithPod ends the connection as soon as its pod has ended: everybody's reads fail at once instead of hanging.
func (t *tunnel) closeWithPod(ctx context.Context, s *session, version string) {
	err := t.untilOver(ctx, s.pod, version)
	if err == nil {
		t.forget(s.pod)
	}
	if err == nil || ctx.Err() != nil {
		t.drop(s)
	}
}

// untilOver waits for a pod's end.
func (t *tunnel) untilOver(ctx context.Context, pod, version string) error {
	lw := cache.NewListWatchFromClient(t.api.Core.CoreV1().RESTClient(), "pods", t.api.Namespace, fields.OneTermEqualSelector("metadata.name", pod))
	ended := func(event watch.Event) (bool, error) {
		if event.Type == watch.Error {
			return false, apierrors.FromObject(event.Object)
		}
		pod, ok := event.Object.(*corev1.Pod)
		return event.Type == watch.Deleted || ok && PodEnded(pod), nil
	}
	_, err := watchtools.Until(ctx, version, lw, ended)
	if err == nil || ctx.Err() != nil {
		return err
	}
	// The pod was found too long ago: the API server has forgotten what happened since.
	missing := func(store cache.Store) (bool, error) { return len(store.ListKeys()) == 0, nil }
	_, err = watchtools.UntilWithSync(ctx, lw, &corev1.Pod{}, missing, ended)
	return err
}

// forget makes the next session look for another pod.
func (t *tunnel) forget(pod string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pod == pod {
		t.pod = ""
	}
}

// PodEnded reports whether a pod's processes have ended.
func PodEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func (t *tunnel) drop(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.stop()
	_ = s.conn.Close() // it is of no use any more
	if t.session == s {
		t.session = nil
	}
}

func (t *tunnel) Close() {
	t.mu.Lock()
	t.closed = true
	s := t.session
	t.mu.Unlock()
	if s != nil {
		t.drop(s)
	}
}

// Via implements Transport.
func (t *tunnel) Via() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.session == nil {
		return "port-forward"
	}
	return "port-forward (" + t.session.protocol + ") to pod " + t.session.pod
}

// forward connects to a pod's kubelet through the API server: by websocket, or by SPDY where that is not known or not permitted (their
// verbs differ: get and create).
func (a API) forward(pod string) (*session, error) {
	u := a.Core.CoreV1().RESTClient().Post().Resource("pods").Namespace(a.Namespace).Name(pod).SubResource("portforward").URL()
	s := &session{pod: pod}
	var err error
	if s.conn, err = a.forwardWebsocket(u); err == nil {
		s.protocol = "websocket"
		return s, nil
	}
	if !httpstream.IsUpgradeFailure(err) && !httpstream.IsHTTPSProxyError(err) && !apierrors.IsForbidden(err) {
		return nil, err
	}
	transport, upgrader, err := spdy.RoundTripperFor(a.Config)
	if err != nil {
		return nil, fmt.Errorf("prepare port-forward: %w", err)
	}
	s.protocol = "SPDY"
	s.conn, _, err = spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, u).Dial(portforward.PortForwardProtocolV1Name)
	return s, err
}

func (a API) forwardWebsocket(u *url.URL) (httpstream.Connection, error) {
	dialer, err := portforward.NewSPDYOverWebsocketDialer(u, a.Config)
	if err != nil {
		return nil, fmt.Errorf("prepare port-forward: %w", err)
	}
	conn, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	return conn, err
}

// within runs a call that takes no context; what comes too late is closed.
func within[T any](ctx context.Context, limit time.Duration, call func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan answer, 1)
	go func() {
		value, err := call()
		done <- answer{value, err}
	}()
	select {
	case a := <-done:
		return a.value, a.err
	case <-ctx.Done():
		go func() {
			if a := <-done; a.err == nil {
				if late, ok := any(a.value).(io.Closer); ok {
					late.Close()
				}
			}
		}()
		var none T
		return none, ctx.Err()
	}
}

// Close ends the connection; for within.
func (s *session) Close() error { return s.conn.Close() }

// serving finds the pod that runs at a place.
func (a API) serving(ctx context.Context, p Place) (*corev1.Pod, error) {
	pods, err := a.Core.CoreV1().Pods(a.Namespace).List(ctx, metav1.ListOptions{LabelSelector: p.Selector})
	if err != nil {
		return nil, a.Explain(err, "list", "pods")
	}
	for i, pod := range pods.Items {
		if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			return &pods.Items[i], nil
		}
	}
	return nil, launcher.Fail(runstate.CodeUnreachable, launcher.ErrNotReady, "`rayctl status NAME` shows why", "no pod of %s runs", p.What)
}
