package bed

import "context"

// Guest is a program that only some tests start beside the testbed's own parts, see package kubetest. Down ends it, too.
type Guest struct {
	Part Part
	// Argv and Env are its command; the environment has no more than that and a home directory.
	Argv, Env []string
	// Ready reports why it does not work yet.
	Ready func(ctx context.Context) error
}

// StartGuest starts it, and returns when it works. Stop stops it.
func (b *Bed) StartGuest(ctx context.Context, g Guest) error {
	return b.start(ctx, g.Part, command{argv: g.Argv, env: append([]string{"KUBECONFIG=" + b.Kubeconfig()}, g.Env...), ready: g.Ready})
}

// Answers succeeds once an HTTP address answers 200, whatever its certificate.
func Answers(url string) func(context.Context) error { return answers(url) }

// Loopback is an address for ports that pods must not reach, and no other process of the machine uses.
func (b *Bed) Loopback() string { return b.loopback() }

// ApplyCRDs creates the CRDs of these directories and returns when the API server serves them.
func (b *Bed) ApplyCRDs(ctx context.Context, dirs ...string) error { return b.applyCRDs(ctx, dirs...) }

// CreateNamespace creates a namespace, if it does not exist.
func (b *Bed) CreateNamespace(ctx context.Context, name string) error {
	return b.createNamespace(ctx, name)
}
