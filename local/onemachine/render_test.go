package onemachine

import (
	"encoding/json"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/spec"
)

// The orders hold nothing but what they must: secrets have a file of their own.
func TestRenderIsWhatLaunchDoes(t *testing.T) {
	l, err := New(Config{StateDir: t.TempDir() + "/a b", CacheDir: t.TempDir()}, localSubstrate{})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TOP", "s3cret")
	files, err := l.Render(&spec.ClusterSpec{Name: "x", Ray: spec.Ray{Python: "/p y/bin/python"}, Secrets: []spec.Secret{{Name: "TOP"}}})
	if err != nil {
		t.Fatal(err)
	}
	var orders keeper.Orders
	if err := json.Unmarshal(files[0].Content, &orders); err != nil || orders.Name != "x" {
		t.Errorf("orders: %v, %+v", err, orders)
	}
	for _, f := range files {
		if strings.Contains(string(f.Content), "s3cret") {
			t.Errorf("%s has a secret", f.Name)
		}
	}
	script, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(string(files[1].Content)), "")
	if err != nil || len(script.Stmts) != 1 || len(script.Stmts[0].Cmd.(*syntax.CallExpr).Args) != 6 {
		t.Errorf("keeper.sh: %v\n%s", err, files[1].Content)
	}
}
