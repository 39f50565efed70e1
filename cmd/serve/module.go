package serve

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/rayctl/rayctl/cmd/app"
)

// withModule gives the config's directory as working directory to an application whose module lies there, if its runtime_env names no place of modules.
// `serve build` of Ray writes such configs, which would find the module in no process of the cluster; `serve run` sends the directory in which it is called.
// dir is "" where the config is not a file.
func withModule(a *app.App, dir string, application map[string]any) {
	env, ok := application["runtime_env"].(map[string]any)
	if !ok && application["runtime_env"] != nil || env["working_dir"] != nil || env["py_modules"] != nil || dir == "" {
		return
	}
	path, _ := application["import_path"].(string)
	module, _, _ := strings.Cut(path, ":")
	module, _, _ = strings.Cut(module, ".")
	if module == "" || !isModule(filepath.Join(dir, module)) {
		return
	}
	if env == nil {
		env = map[string]any{}
		application["runtime_env"] = env
	}
	env["working_dir"] = "."
	a.UI.Note("application %v: sending the directory of module %s as its working directory; runtime_env.working_dir names another", application["name"], module)
}

// isModule reports whether Python imports this path, which has no suffix, as a module or a package.
func isModule(path string) bool {
	file, err := os.Stat(path + ".py")
	if err == nil && !file.IsDir() {
		return true
	}
	directory, err := os.Stat(path)
	return err == nil && directory.IsDir()
}
