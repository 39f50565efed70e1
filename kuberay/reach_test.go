package kuberay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/kuberay"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/conformance/terminaltest"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/kubetest"
)

// TestReach reaches one cluster by each connection that there is, as the user's permissions allow.
func TestReach(t *testing.T) {
	b := newBed(t)
	id := b.launched(t, "reached")
	all := map[string]*kuberay.Launcher{}
	for _, way := range []struct {
		via string
		may rbacv1.PolicyRule
	}{{"port-forward (websocket)", b.websocketOnly(t)}, {"port-forward (SPDY)", spdyOnly}, {"the API server's proxy", proxyOnly}} {
		l := kuberay.New(kuberay.Config{Kubeconfig: b.LimitedKubeconfig(t, b.namespace, reachingBy(t, way.may)...)})
		all[way.via] = l
		t.Run(way.via, func(t *testing.T) {
			for _, target := range []launcher.Target{launcher.Dashboard, launcher.Keeper} {
				e, err := l.Dial(t.Context(), id, target)
				if err != nil {
					t.Fatal(err)
				}
				if !strings.HasPrefix(e.Via, way.via) {
					t.Errorf("%s: via %s", target, e.Via)
				}
			}
			useDashboard(t, l, id, way.via)
		})
	}
	t.Run("none", func(t *testing.T) {
		l := kuberay.New(kuberay.Config{Kubeconfig: b.LimitedKubeconfig(t, b.namespace, reachingBy(t)...)})
		_, err := l.Dial(t.Context(), id, launcher.Dashboard)
		if launcher.ExitCode(err) != runstate.CodePermission || !strings.Contains(err.Error(), "create pods/portforward (SPDY) nor get services/proxy") {
			t.Errorf("code %d: %v", launcher.ExitCode(err), err)
		}
		err = l.ReachNode(t.Context(), id, "") // which is what `rayctl port-forward` asks before it says that it reaches
		if launcher.ExitCode(err) != runstate.CodePermission || !strings.Contains(err.Error(), "create pods/portforward") {
			t.Errorf("port-forward: code %d: %v", launcher.ExitCode(err), err)
		}
	})
	t.Run("proxy, to look at only", func(t *testing.T) {
		l := kuberay.New(kuberay.Config{Kubeconfig: b.LimitedKubeconfig(t, b.namespace, reachingBy(t, permit("services/proxy", "get"))...)})
		c, done := dashboard(t, l, id)
		defer done()
		if _, err := c.ListJobs(t.Context()); err != nil {
			t.Error(err)
		}
		_, err := c.SubmitJob(t.Context(), dashboardclient.SubmitRequest{SubmissionID: "refused", Entrypoint: "true"})
		if !errors.Is(err, dashboardclient.ErrUnauthorized) || !strings.Contains(err.Error(), `cannot create resource "services/proxy"`) {
			t.Errorf("submit: %v", err)
		}
	})
	t.Run("terminal", func(t *testing.T) { terminaltest.OnTerminal(t, b.l, id) })
	t.Run("from inside", func(t *testing.T) { fromInside(t, b, id) })
	t.Run("healing", func(t *testing.T) { heal(t, b, id, all) })
}

// launched is a cluster without a job that is ready.
func (b bed) launched(t *testing.T, name string) launcher.ID {
	t.Helper()
	s := smallSpec()
	s.Name = name
	b.nothingLeft(t, launcher.ID(name))
	id, err := b.l.Launch(t.Context(), s, launcher.Payload{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	statuses, err := b.l.Watch(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	last := launcher.Status{}
	for last = range statuses {
		if last.Phase == runstate.Ready {
			return id
		}
	}
	t.Fatalf("%s did not become ready: %+v", id, last)
	return ""
}

// websocketOnly is the rule for websockets, which from Kubernetes 1.35 on (AuthorizePodWebsocketUpgradeCreatePermission) is that for both.
func (b bed) websocketOnly(t *testing.T) rbacv1.PolicyRule {
	t.Helper()
	version, err := b.Core.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if minor, err := strconv.Atoi(version.Minor); err != nil || minor >= 35 {
		return permit("pods/portforward", "get", "create")
	}
	return permit("pods/portforward", "get")
}

// useDashboard uploads a package larger than any buffer, runs a job and reads its output, byte for byte.
func useDashboard(t *testing.T, l launcher.Launcher, id launcher.ID, message string) {
	t.Helper()
	c, done := dashboard(t, l, id)
	defer done()
	path := filepath.Join(t.TempDir(), "package.zip")
	if err := os.WriteFile(path, bytes.Repeat([]byte("0123456789abcdef"), 3<<16), 0o600); err != nil {
		t.Fatal(err)
	}
	sum := fmt.Sprintf("%x", message)
	if _, err := c.UploadPackage(t.Context(), "gcs://_ray_pkg_"+sum+".zip", path, nil); err != nil {
		t.Errorf("upload: %v", err)
	}
	job := "job-" + sum
	if _, err := c.SubmitJob(t.Context(), dashboardclient.SubmitRequest{SubmissionID: job, Entrypoint: "seq 1 20000"}); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := c.FollowJob(job, dashboardclient.FollowOptions{StripHeader: true}).Run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for i := range 20000 {
		fmt.Fprintln(&want, i+1)
	}
	if out.String() != want.String() {
		t.Errorf("%d bytes of output, want %d", out.Len(), want.Len())
	}
}

func dashboard(t *testing.T, l launcher.Launcher, id launcher.ID) (*dashboardclient.Client, func()) {
	t.Helper()
	e, err := l.Dial(t.Context(), id, launcher.Dashboard)
	if err != nil {
		t.Fatal(err)
	}
	c, err := launcher.DashboardClient(e, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c, func() { c.Close(); e.Close() }
}

// fromInside runs rayctl in a pod of the same Kubernetes, with the pod's own service account, which may not reach pods through the API server.
func fromInside(t *testing.T, b bed, id launcher.ID) {
	bind(t, b, reachingBy(t))
	dir := filepath.Dir(newUser(t, b.kubeconfig).rayctl)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "inside"},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Volumes:       []corev1.Volume{{Name: "bin", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}}}},
			Containers: []corev1.Container{{
				Name: "rayctl", Image: "rayproject/ray:2.60.0", VolumeMounts: []corev1.VolumeMount{{Name: "bin", MountPath: "/opt/rayctl"}},
				Command: []string{"/opt/rayctl/rayctl", "submit", "-v", "--launcher", "kuberay", "-c", string(id), "--", "echo", "from inside"},
				// The testbed has no kube-proxy, so the service's usual address does not answer.
				Env: []corev1.EnvVar{{Name: "KUBERNETES_SERVICE_HOST", Value: b.NodeIP()}, {Name: "KUBERNETES_SERVICE_PORT", Value: "6443"}, {Name: "HOME", Value: "/tmp"}},
			}},
		},
	}
	if _, err := b.Core.CoreV1().Pods(b.namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var phase corev1.PodPhase
	kubetest.Await(t, "the end of rayctl's pod", func(ctx context.Context) error {
		p, err := b.Core.CoreV1().Pods(b.namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if phase = p.Status.Phase; phase != corev1.PodSucceeded && phase != corev1.PodFailed {
			return fmt.Errorf("it is %s", phase)
		}
		return nil
	})
	text := string(b.log(pod.Name))
	if phase != corev1.PodSucceeded || !strings.Contains(text, "direct, "+string(id)+"-head-svc."+b.namespace+".svc:8265") || !strings.Contains(text, "\nfrom inside\n") {
		t.Errorf("%s: %s", phase, text)
	}
}

// bind gives the rules to the namespace's default service account.
func bind(t *testing.T, b bed, rules []rbacv1.PolicyRule) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: "user-default"}
	if _, err := b.Core.RbacV1().Roles(b.namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Core.RbacV1().RoleBindings(b.namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "default", Namespace: b.namespace}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// heal cuts every way: the keeper's pod goes and another one comes, and the API server, through which they lead, is killed. The same
// endpoints work again.
func heal(t *testing.T, b bed, id launcher.ID, all map[string]*kuberay.Launcher) {
	check := map[string]func(context.Context) error{}
	for via, l := range all {
		e, err := l.Dial(t.Context(), id, launcher.Keeper)
		if err != nil {
			t.Fatal(err)
		}
		k := launcher.KeeperClient(e)
		defer k.Close()
		check[via] = func(ctx context.Context) error { _, err := k.State(ctx); return err }
	}
	answered := func(after string) {
		for via, ask := range check {
			kubetest.Await(t, "an answer by "+via+" after "+after, ask)
		}
	}
	answered("nothing")
	keeper := func() (uid string) {
		pods, err := b.Core.CoreV1().Pods(b.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "rayctl.io/role=keeper,rayctl.io/name=" + string(id)})
		if err != nil || len(pods.Items) == 0 {
			return ""
		}
		return string(pods.Items[0].UID)
	}
	before := keeper()
	b.killKeeper(t, id)
	kubetest.Await(t, "another keeper", func(context.Context) error {
		if now := keeper(); now == "" || now == before {
			return errors.New("there is none")
		}
		return nil
	})
	answered("the loss of the keeper's pod")
	b.StopAPIServer(t)
	b.StartAPIServer(t)
	answered("the restart of the API server")
}
