package objects

import (
	"strings"
	"testing"

	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher/spec"
)

func decode(t *testing.T, text string) *spec.ClusterSpec {
	t.Helper()
	s, err := spec.Decode(strings.NewReader(text), "rayctl.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const smallFile = `
name: small
launcher: kuberay
image: rayproject/ray:2.60.0
job: {entrypoint: python train.py}
`

const gangFile = `
name: grpo
labels: {team: rl}
launcher: kuberay
ray: {version: 2.60.0}
env: {HF_HOME: "/models/$(HOSTNAME)/$x"}
setup: "ulimit -Sn 65535"
secrets: [WANDB_API_KEY, {name: X, secretKeyRef: {name: s, key: k}}]
mounts: [{mountPath: /models, readOnly: true, source: {kuberay: {persistentVolumeClaim: {claimName: models}}}}]
head: {cpus: 2, memory: 8Gi, resources: {head: 1}, labels: {zone: a}, env: {OWN: "head's", HF_HOME: /mine}}
workers:
  - {name: trainer, replicas: 4, cpus: 96, memory: 1500Gi, gpus: 8, gpuType: h100, shm: 200Gi}
  - {name: rollout, replicas: 3, cpus: 500m, memory: 8Gi, objectStoreMemory: 2Gi, objectSpillingDirectory: "/spill/it's $x", resources: {rollout: 1, "it's": 2}, kuberay: {limits: {rdma/ib: 8}, nodeSelector: {zone: a}}}
  - {name: reward, replicas: 2, minReplicas: 1, maxReplicas: 5, image: "other:2", patch: {spec: {hostNetwork: true, containers: [{name: ray-worker, env: [{name: E, value: v}]}]}}}
lifetime: {queue: 12h, max: 4h, start: 2h}
gpuTypes: {h100: {nodeSelector: {gpu: h100}, tolerations: [{key: gpu, operator: Exists}]}}
kuberay:
  namespace: rl
  queue: research
  priorityClassName: high
  serviceAccountName: ray
  imagePullSecrets: [{name: registry}]
  patch: {metadata: {annotations: {a: b}}, spec: {headGroupSpec: {serviceType: ClusterIP}}}
job: {entrypoint: python grpo.py, grace: 20s}
`

// gangs are the schedulers of a Kubernetes with or without Volcano.
func gangs(volcano bool) admit.Served {
	if volcano {
		return admit.All()
	}
	return nil
}

func planOf(t *testing.T, text string, volcano bool) *Plan {
	t.Helper()
	p, err := NewPlan(spec.For(decode(t, text), kuberayspec.Name), "rl", "ann@laptop", gangs(volcano))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var kueue = admit.Kueue{}.Info()
