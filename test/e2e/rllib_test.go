package e2e

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rayctl/rayctl/test/raytest"
)

// TestRLlibTemplate compares what the template calls with RLlib's sources in Ray's wheel. To import RLlib takes torch, of which PyPI has for Linux only the one with CUDA, which is
// too large for each run of the tests: `make kill-templates TEMPLATE=rllib` runs the template.
func TestRLlibTemplate(t *testing.T) {
	u := newUser(t)
	u.want(0, "init", "rllib", "--dir", "rllib")
	contains(t, "render", u.want(0, "render", "-f", "rllib/rayctl.yaml", "--set", "local={}").out, "train.py --runners 2 --iterations 20")
	out, err := exec.Command(raytest.Env(t, raytest.Ray260), "-c", rllibCheck, filepath.Join(u.dir, "rllib", "train.py")).CombinedOutput()
	if err != nil || string(out) != "8 parameters and 4 methods are RLlib's\n" {
		t.Errorf("%v: %s", err, out)
	}
}

// rllibCheck reads the syntax trees.
const rllibCheck = `import ast, os, sys
import ray

def tree(*path):
    with open(os.path.join(os.path.dirname(ray.__file__), *path)) as file:
        return ast.parse(file.read())

def methods(name, *path):
    """The parameters of a class's methods, by their names."""
    (of,) = [node for node in tree(*path).body if isinstance(node, ast.ClassDef) and node.name == name]
    return {node.name: {a.arg for a in node.args.args + node.args.kwonlyargs} for node in of.body if isinstance(node, ast.FunctionDef)}

config = methods("AlgorithmConfig", "rllib", "algorithms", "algorithm_config.py")
for name, parameters in methods("PPOConfig", "rllib", "algorithms", "ppo", "ppo.py").items():
    config[name] = config.get(name, set()) | parameters
algorithm = {**methods("Trainable", "tune", "trainable", "trainable.py"), **methods("Checkpointable", "rllib", "utils", "checkpoints.py"),
             **methods("Algorithm", "rllib", "algorithms", "algorithm.py")}
checked, called = 0, set()
with open(sys.argv[1]) as file:
    program = ast.parse(file.read())
for node in ast.walk(program):
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        continue
    on, method = node.func.value, node.func.attr
    given = [k.arg for k in node.keywords]
    if isinstance(on, ast.Name) and on.id == "algorithm":
        assert method in algorithm, "Algorithm has no method " + method
        assert set(given) <= algorithm[method], (method, given)
        called.add(method)
    while isinstance(on, ast.Call) and isinstance(on.func, ast.Attribute):
        on = on.func.value
    if isinstance(on, ast.Call) and isinstance(on.func, ast.Name) and on.func.id in ("PPOConfig", "configured"):
        assert method in config, "PPOConfig has no method " + method
        assert set(given) <= config[method], (method, given, sorted(config[method]))
        checked += len(given) + len(node.args)
print(checked, "parameters and", len(called), "methods are RLlib's")
`
