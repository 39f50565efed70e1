package objects

import (
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// TestKueueGang: what Kueue admits as a whole has no gang scheduler, whether its file names the queue or its namespace has one. One that the file names is refused.
func TestKueueGang(t *testing.T) {
	named := planOf(t, strings.Replace(gangFile, "labels: {", "labels: {"+queueLabel+": q, ", 1), true)
	found := planOf(t, gangFile, true)
	if err := found.Obey(Holds{By: kueue, Cluster: Hold{true, "default"}}); err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]*Plan{"by the file": named, "by the namespace": found} {
		all, err := p.Objects()
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(all, func(o Part) bool { return o.name == "podgroup.yaml" }) || p.Admitter != (admit.None{}) {
			t.Errorf("%s: %v", name, p.Admitter)
		}
	}
	wish, err := NewPlan(spec.For(decode(t, strings.Replace(gangFile, "kuberay:\n", "kuberay:\n  scheduler: volcano\n", 1)), kuberayspec.Name), "rl", "ann@laptop", admit.All())
	if err != nil {
		t.Fatal(err)
	}
	if err := wish.Obey(Holds{By: kueue, Cluster: Hold{true, "q"}}); launcher.ExitCode(err) != runstate.CodeStartFailed || !strings.Contains(err.Error(), "leave out kuberay.scheduler") {
		t.Errorf("%v", err)
	}
	free := planOf(t, gangFile, true)
	if err := free.Obey(Holds{}); err != nil || free.Admitter == (admit.None{}) {
		t.Errorf("without Kueue: %v, %v", free.Admitter, err)
	}
}

const queueLabel = "kueue.x-k8s.io/queue-name"

// TestKueueJobs: Jobs that Kueue holds get a queue, from the first place that has one, and take nothing of its quota; without a queue the launch is refused.
func TestKueueJobs(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		seen Holds
		want string
	}{
		"the namespace's":              {"", Holds{By: kueue, Cluster: Hold{true, "default"}, Jobs: Hold{true, "default"}}, "default"},
		"the cluster's":                {"labels: {" + queueLabel + ": q}\n", Holds{By: kueue, Cluster: Hold{true, "q"}, Jobs: Hold{true, ""}}, "q"},
		"the file's":                   {"kuberay: {keeperQueue: small}\n", Holds{By: kueue, Cluster: Hold{true, "q"}, Jobs: Hold{true, "small"}}, "small"},
		"the file's, unheld":           {"kuberay: {keeperQueue: small}\n", Holds{}, "small"},
		"none, as nothing holds Jobs":  {"labels: {" + queueLabel + ": q}\n", Holds{By: kueue, Cluster: Hold{true, "q"}}, ""},
		"none, as Kueue is not served": {"", Holds{}, ""},
	} {
		p := planOf(t, smallFile+c.file, true)
		if err := p.Obey(c.seen); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if p.JobsHeld != c.seen.Jobs.Held {
			t.Errorf("%s: held %v", name, p.JobsHeld)
		}
		for _, job := range []*batchv1.Job{p.KeeperJob(), p.RecordJob()} {
			r := job.Spec.Template.Spec.Containers[0].Resources
			for _, resource := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} { // a missing request is that of the limit
				q, has := r.Requests[resource]
				if !has || q.IsZero() != (c.want != "") || r.Limits.Name(resource, "").IsZero() {
					t.Errorf("%s: %s has %+v", name, job.Name, r)
				}
			}
			if got := job.Labels[queueLabel]; got != c.want {
				t.Errorf("%s: %s is in queue %q, want %q", name, job.Name, got, c.want)
			}
		}
		if p.Service().Labels[queueLabel] != "" {
			t.Errorf("%s: what is no Job has a queue", name)
		}
	}
	for want, seen := range map[string]Holds{
		"no queue would admit the cluster: set the label": {By: kueue, Cluster: Hold{true, ""}, Jobs: Hold{true, ""}},
		"no queue would admit the keeper: set kuberay.":   {By: kueue, Jobs: Hold{true, ""}},
	} {
		err := planOf(t, smallFile, true).Obey(seen)
		if launcher.ExitCode(err) != runstate.CodeStartFailed || !strings.Contains(err.Error(), "manageJobsWithoutQueueName") || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestKeeperAwaitsSecret: the keeper's pod does not start without what its launch puts into the Secret; what is noted there later it can do without.
func TestKeeperAwaitsSecret(t *testing.T) {
	p := planOf(t, smallFile, true)
	secret, err := p.Secret()
	if err != nil {
		t.Fatal(err)
	}
	volumes := p.KeeperJob().Spec.Template.Spec.Volumes
	i := slices.IndexFunc(volumes, func(v corev1.Volume) bool { return v.Projected != nil })
	if i < 0 {
		t.Fatalf("%+v", volumes)
	}
	for _, source := range volumes[i].Projected.Sources {
		for _, item := range source.Secret.Items {
			if _, launched := secret.Data[item.Key]; launched == *source.Secret.Optional {
				t.Errorf("%s: launched %v, optional %v", item.Key, launched, *source.Secret.Optional)
			}
		}
	}
}
