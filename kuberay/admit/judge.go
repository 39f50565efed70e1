package admit

import (
	"context"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// Queuer is an admitter whose own objects say why something waits in its queue, and whose queues show whether they would ever admit a cluster.
type Queuer interface {
	Admitter
	// Held is what an object of Info.Requests says of what waits for it.
	Held(ctx context.Context, c dynamic.Interface, request *unstructured.Unstructured) Held
	// Judge looks at a queue of a namespace and at what is behind it, as far as the user may read that. An error is one of Kubernetes', unchanged.
	Judge(ctx context.Context, c dynamic.Interface, namespace, queue string, rc *rayv1.RayCluster) (Verdict, error)
	// At is the admitter in the version of its API that the API server prefers.
	At(version string) Admitter
}

// Held is what an admitter says of an object that waits in its queue.
type Held struct {
	// Why is the admitter's own sentence; "": it has none yet.
	Why string
	// TakenBack: it was admitted before, and is to be admitted again.
	TakenBack bool
	// Stopped: it waits for somebody, not for room.
	Stopped bool
	// Never: it asks for more than the queue can ever have as it is now.
	Never bool
	// Unread: the user may not read what the admitter says; Why says so.
	Unread bool
}

// Verdict is what a queue shows of itself before a cluster waits in it.
type Verdict struct {
	// Shown is the queue and what is behind it.
	Shown string
	// Never is why it admits the cluster never, whoever else leaves; "": it may.
	Never string
	// Closed is why it admits nothing until somebody changes it; "": it admits.
	Closed string
	// Unread is what the user may not read of it.
	Unread []string
	// Hint is the next step where there is one.
	Hint string
}
