package objects

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// TestPodMeasures: a pod with GPUs sends the keeper what they do, with the cluster's token and under its address, and `ray start` sees nothing of that.
// nvidia-smi is a stand-in, and so is the keeper.
func TestPodMeasures(t *testing.T) {
	type report struct {
		Node                       string
		Count                      int
		Seconds, BusySeconds, Idle float64
		Message, token             string
	}
	reports, refused := make(chan report, 1000), make(chan bool, 10)
	var over atomic.Bool // the cluster's token is another
	keeper := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if over.Load() {
			w.WriteHeader(http.StatusUnauthorized)
			refused <- true
			return
		}
		var sent report
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil || r.URL.Path != "/v1/gpus" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		sent.token = r.Header.Get("Authorization")
		reports <- sent
	}))
	defer keeper.Close()
	dir := t.TempDir()
	// The container's files, where the script expects them in a pod.
	script := strings.NewReplacer("/rayctl/keeper.pyz", "../../keeper", "/rayctl/", dir+"/").Replace(string(scriptFile("node.sh")))
	for name, text := range map[string]string{"nvidia-smi": "#!/bin/sh\necho 'GPU-1, 50'\n", "ray": "#!/bin/sh\nenv | grep ^RAYCTL_[GKP]\ncat\n", "node.sh": script} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", `. "$0"; ray`, filepath.Join(dir, "node.sh"))
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "RAYCTL_KEEPER="+keeper.URL, "RAYCTL_KEEPER_TOKEN=secret",
		"RAYCTL_GPUS=1", "RAYCTL_GPUS_PERIOD=0.5", "RAYCTL_POD_IP=10.1.2.3", "NVIDIA_VISIBLE_DEVICES=GPU-1", "PYTHONDONTWRITEBYTECODE=1")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var seen strings.Builder
	cmd.Stdout, cmd.Stderr = &seen, &seen
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first, second := <-reports, <-reports
	if first.Node != "10.1.2.3" || first.Count != 1 || first.Message != "" || first.token != "Bearer secret" || second.Seconds <= first.Seconds || second.BusySeconds < second.Seconds/3 {
		t.Errorf("%+v, %+v", first, second)
	}
	stdin.Close()
	if err := cmd.Wait(); err != nil || seen.String() != "" {
		t.Errorf("%v, Ray saw %q", err, seen.String())
	}
	over.Store(true)
	<-refused // it ends
}

// TestPodInterface: in the network of the host, torch.distributed is told the interface of the pod's address, unless the file or its setup says another; elsewhere nothing is told.
func TestPodInterface(t *testing.T) {
	dir := t.TempDir()
	script := strings.NewReplacer("/rayctl/keeper.pyz", "../../keeper", "/rayctl/", dir+"/").Replace(string(scriptFile("node.sh")))
	for name, text := range map[string]string{"ray": "#!/bin/sh\nenv | grep -E '_SOCKET_IFNAME|HOST_NETWORK'\n", "node.sh": script} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		env         []string
		setup, want string
	}{
		"its own network":       {nil, "", ""},
		"of the host":           {[]string{"RAYCTL_HOST_NETWORK_IP=127.0.0.1"}, "", "GLOO_SOCKET_IFNAME=lo\n"},
		"the file says another": {[]string{"RAYCTL_HOST_NETWORK_IP=127.0.0.1", "GLOO_SOCKET_IFNAME=ib0", "NCCL_SOCKET_IFNAME=ib1"}, "", "GLOO_SOCKET_IFNAME=ib0\nNCCL_SOCKET_IFNAME=ib1\n"},
		"setup says another":    {[]string{"RAYCTL_HOST_NETWORK_IP=127.0.0.1"}, "export GLOO_SOCKET_IFNAME=ib2\n", "GLOO_SOCKET_IFNAME=ib2\n"},
		"of no interface":       {[]string{"RAYCTL_HOST_NETWORK_IP=192.0.2.7"}, "", ""},
	} {
		setup := filepath.Join(dir, "setup.sh")
		os.Remove(setup)
		if c.setup != "" {
			if err := os.WriteFile(setup, []byte(c.setup), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), "bash", "-c", `. "$0"; ray | sort`, filepath.Join(dir, "node.sh"))
		cmd.Env = append([]string{"PATH=" + dir + ":" + os.Getenv("PATH"), "PYTHONDONTWRITEBYTECODE=1"}, c.env...)
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != c.want {
			t.Errorf("%s: %q, %v, want %q", name, out, err, c.want)
		}
	}
}
