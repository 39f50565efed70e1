package raytest_test

import (
	"testing"

	"github.com/rayctl/rayctl/test/raytest"
)

func TestMain(m *testing.M) { raytest.Main(m) }

func TestHeadStartsAndLeavesNothing(t *testing.T) {
	head := raytest.StartHead(t, raytest.HeadOptions{})
	info, err := head.Client(t).Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v %s", info, head.GCSAddress)
	head.Kill()
}
