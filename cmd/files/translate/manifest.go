package translate

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"al.essio.dev/pkg/shellescape"

	"github.com/rayctl/rayctl/launcher/spec"
)

// object is a JSON object from which fields are taken; what is left at the end was not translated.
type object map[string]any

func (o object) take(key string) any {
	v := o[key]
	delete(o, key)
	return v
}

func (o object) text(key string) string {
	s, _ := o[key].(string)
	if s != "" {
		delete(o, key)
	}
	return s
}

// object is the object of a key, from which fields can be taken; it stays until it is empty.
func (o object) object(key string) object {
	m, _ := o[key].(map[string]any)
	return m
}

func (o object) objects(key string) (all []object) {
	list, _ := o[key].([]any)
	for _, item := range list {
		if m, ok := item.(map[string]any); ok {
			all = append(all, m)
		}
	}
	return all
}

// whole are fields that are named alone, not with all that is below them.
var whole = strings.Fields(`initContainers affinity securityContext lifecycle livenessProbe readinessProbe startupProbe metadata topologySpreadConstraints envFrom volumeMounts
	headService gcsFaultToleranceOptions dnsConfig hostAliases scaleStrategy authOptions managedBy networkPolicy tlsOptions historyServerOptions`)

// rest are the paths of what was not taken.
func rest(path string, v any) (paths []string) {
	last := path[strings.LastIndex(path, ".")+1:]
	other, index, _ := strings.Cut(last, "[")
	if below := leaves(v); below && (slices.Contains(whole, last) || other == "containers" && index != "0]" && index != "") {
		return []string{path}
	}
	switch v := v.(type) {
	case nil:
	case object:
		return rest(path, map[string]any(v))
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			paths = append(paths, rest(spec.Join(path, key), v[key])...)
		}
	case []any:
		for i, item := range v {
			paths = append(paths, rest(fmt.Sprintf("%s[%d]", path, i), item)...)
		}
	default:
		return []string{path}
	}
	return paths
}

// leaves reports whether there is any value below v.
func leaves(v any) bool {
	switch v := v.(type) {
	case object:
		return leaves(map[string]any(v))
	case map[string]any:
		for _, item := range v {
			if leaves(item) {
				return true
			}
		}
		return false
	case []any:
		return slices.ContainsFunc(v, leaves)
	}
	return v != nil
}

// cluster is a RayCluster that becomes keys of a cluster file.
type cluster struct {
	*draft
	image  string
	mounts map[string]string // by path, what is mounted there as JSON
}

// ofManifest makes a cluster file of keys of its own, where the manifest is taken as it is by -f.
func ofManifest(from Source, m *spec.Manifest) (*draft, error) {
	source := from.Name
	d := newDraft("a "+m.Kind, from)
	d.launcher = m.Launcher
	c := &cluster{draft: d, mounts: map[string]string{}}
	for _, note := range m.Notes {
		d.left = append(d.left, cleaned(strings.TrimPrefix(note, m.File+": "))) // whole: it is rayctl's own sentence
	}
	for _, k := range m.Keys {
		if k.Path == "kuberay.rayCluster" {
			var rc object
			if err := json.Unmarshal([]byte(k.Value), &rc); err != nil {
				return nil, &spec.Error{File: source, Msg: "cannot be read: " + err.Error(), Hint: other}
			}
			c.read(rc)
			continue
		}
		c.setKey(k)
	}
	c.top.below("kuberay")
	if len(d.left) > 0 {
		verb := map[bool]string{true: "run", false: "up"}[d.top.has("job")]
		d.ask("`rayctl %s -f %s` takes the file as it is, with all fields of its RayCluster", verb, shellescape.Quote(source))
	}
	if len(c.top.below("kuberay").node.Content) == 0 {
		c.top.remove("kuberay")
		c.top.set("launcher", m.Launcher, "")
	}
	return d, nil
}

// maps and lists among the keys of a manifest.
var (
	free     = []string{"labels.", "kuberay.annotations.", "job.env.", "job.metadata."}
	asJSON   = strings.Fields("job.pyModules job.excludes job.pip job.uv job.runtimeEnv job.entrypointResources kuberay.configMaps")
	asNumber = strings.Fields("job.entrypointCpus job.entrypointGpus job.restarts.driver job.restarts.nodeFailure")
)

func (c *cluster) setKey(k spec.ManifestKey) {
	steps := strings.Split(k.Path, ".")
	for _, prefix := range free {
		if name, is := strings.CutPrefix(k.Path, prefix); is {
			steps = append(strings.Split(strings.TrimSuffix(prefix, "."), "."), name)
		}
	}
	last := steps[len(steps)-1]
	if strings.HasPrefix(k.Path, "job.env.") && isSecret(last, k.Value) {
		c.secret(last, "")
		return
	}
	at := c.top
	for _, step := range steps[:len(steps)-1] {
		at = at.below(step)
	}
	var value any
	switch {
	case slices.Contains(asJSON, k.Path) && json.Unmarshal([]byte(k.Value), &value) == nil:
		at.set(last, value, "")
	case slices.Contains(asNumber, k.Path):
		at.put(last, plainScalar(k.Value), "")
	default:
		at.set(last, k.Value, "")
	}
}

// read takes the RayCluster's spec apart.
func (c *cluster) read(rc object) {
	version := rc.text("rayVersion")
	elastic, _ := rc.take("enableInTreeAutoscaling").(bool)
	if options := rc.object("autoscalerOptions"); options != nil && elastic {
		if n, ok := options["idleTimeoutSeconds"].(float64); ok {
			delete(options, "idleTimeoutSeconds")
			c.top.below("scaling").set("idle", strconv.Itoa(int(n))+"s", "")
		}
	}
	head := rc.object("headGroupSpec")
	workers := rc.objects("workerGroupSpecs")
	h := c.top.below("head")
	params := head.object("rayStartParams")
	if len(workers) > 0 && fmt.Sprint(params["num-cpus"]) != "0" {
		c.ask("the head takes no tasks where there are workers, as with num-cpus: \"0\" of rayStartParams")
	}
	delete(params, "num-cpus")
	c.group("headGroupSpec", head, h)
	if len(h.node.Content) == 0 {
		c.top.remove("head")
	}
	for i, w := range workers {
		g := newKeys()
		name := w.text("groupName")
		valid := spec.NameFrom(name)
		g.set("name", valid, "")
		if valid != name {
			c.ask("the group %s became %s", name, valid)
		}
		c.replicas(w, g, elastic)
		c.group(fmt.Sprintf("workerGroupSpecs[%d]", i), w, g)
		c.top.add("workers", g)
	}
	if c.image != "" {
		c.top.set("image", c.image, "")
	}
	c.rayVersion(version)
	for _, path := range rest("", rc) {
		c.leave("%s", spec.Printable(path))
	}
}

// rayVersion sets ray.version only where the image does not show it: manifests often have another one than the image.
func (c *cluster) rayVersion(version string) {
	switch ofImage := spec.RayOfImage(c.image); {
	case ofImage != "" && version != "" && ofImage != version:
		c.leave("rayVersion %s: the image has Ray %s, which is used", version, ofImage)
	case ofImage != "":
	case version != "":
		c.top.below("ray").set("version", version, "the image must have this Ray: its tag shows none")
	}
}

func (c *cluster) replicas(w object, g keys, elastic bool) {
	for _, key := range []string{"replicas", "minReplicas", "maxReplicas"} {
		n, ok := w.take(key).(float64)
		if ok && (key == "replicas" || elastic) {
			g.set(key, int(n), "")
		}
	}
	if n, ok := w["numOfHosts"].(float64); ok && n == 1 {
		delete(w, "numOfHosts")
	}
}

// ownParams are rayStartParams that rayctl sets itself.
var ownParams = append([]string{"num-cpus", "num-gpus"}, ownRayOptions...)

// group takes a group's pods.
func (c *cluster) group(path string, o object, g keys) {
	params := o.object("rayStartParams")
	for _, name := range ownParams {
		delete(params, name)
	}
	var amounts map[string]float64
	if text, _ := params["resources"].(string); text != "" {
		quoted := text
		if json.Unmarshal([]byte(text), &quoted) != nil || quoted == "" { // KubeRay's documents show it with quotes in quotes
			quoted = text
		}
		if json.Unmarshal([]byte(strings.ReplaceAll(strings.Trim(quoted, `"'`), `\"`, `"`)), &amounts) == nil {
			delete(params, "resources")
			g.set("resources", amounts, "")
		}
	}
	if n := params.text("object-store-memory"); n != "" {
		g.set("objectStoreMemory", n, "")
	}
	template := o.object("template")
	pod := template.object("spec")
	if pod == nil {
		return
	}
	containers := pod.objects("containers")
	if len(containers) > 0 {
		c.container(path, containers[0], pod, g)
	}
	delete(pod, "restartPolicy")
	kuberay := newKeys()
	for _, key := range []string{"nodeSelector", "tolerations", "priorityClassName", "serviceAccountName"} {
		if v := pod.take(key); v != nil {
			kuberay.set(key, v, "")
		}
	}
	if secrets := pod.take("imagePullSecrets"); secrets != nil {
		c.top.below("kuberay").set("imagePullSecrets", secrets, "")
	}
	c.limits(path, containers, g, kuberay)
	if len(kuberay.node.Content) > 0 {
		g.put("kuberay", kuberay.node, "")
	}
}

// container takes the first container, in which Ray runs.
func (c *cluster) container(path string, o, pod object, g keys) {
	for _, key := range []string{"name", "ports"} {
		delete(o, key)
	}
	if strings.Contains(fmt.Sprint(o["lifecycle"]), "ray stop") {
		delete(o, "lifecycle")
	}
	switch image := o.text("image"); {
	case c.image == "":
		c.image = image
	case image != c.image && image != "":
		g.set("image", image, "")
	}
	if policy := o.text("imagePullPolicy"); policy != "" {
		c.top.below("kuberay").set("imagePullPolicy", policy, "")
	}
	c.env(path, o, g)
	c.volumes(path, o, pod, g)
}

func (c *cluster) env(path string, o object, g keys) {
	var left []any
	for _, e := range o.objects("env") {
		name, _ := e["name"].(string)
		value, plain := e["value"].(string)
		ref := e.object("valueFrom").object("secretKeyRef")
		switch {
		case plain && isSecret(name, value):
			c.secret(name, "")
		case plain && strings.Contains(value, "$("):
			left = append(left, map[string]any{name: value})
		case plain || e["valueFrom"] == nil:
			g.below("env").set(name, value, "")
		case ref != nil && ref["optional"] == nil:
			c.secretRef(name, ref)
		default:
			left = append(left, map[string]any{name: "x"})
		}
	}
	delete(o, "env")
	for _, e := range left {
		c.leave("%s", strings.Join(rest(path+".template.spec.containers[0].env", e), ", "))
	}
}

func (c *cluster) secretRef(name string, ref object) {
	if list := c.top.get("secrets"); list != nil {
		for _, there := range list.Content {
			if len(there.Content) > 1 && there.Content[1].Value == name {
				return
			}
		}
	}
	s := newKeys()
	s.set("name", name, "")
	s.set("secretKeyRef", map[string]any{"name": ref["name"], "key": ref["key"]}, "")
	c.top.add("secrets", s)
}

// volumes takes mounts; those of /dev/shm and of Ray's logs rayctl makes itself.
func (c *cluster) volumes(path string, o, pod object, g keys) {
	sources := map[string]object{}
	for _, v := range pod.objects("volumes") {
		name, _ := v.take("name").(string)
		sources[name] = v
	}
	var left []any
	for _, m := range o.objects("volumeMounts") {
		name, _ := m["name"].(string)
		target, _ := m["mountPath"].(string)
		source := sources[name]
		empty := source.object("emptyDir")
		switch {
		case source == nil || slices.ContainsFunc(slices.Collect(maps.Keys(m)), func(key string) bool { return !slices.Contains([]string{"name", "mountPath", "readOnly"}, key) }):
			left = append(left, m)
		case target == "/dev/shm" && empty != nil:
			if size, _ := empty["sizeLimit"].(string); size != "" {
				g.set("shm", size, "")
			}
		case empty != nil && strings.HasPrefix(target, "/tmp/ray"):
		default:
			c.mount(target, m, source, path)
		}
	}
	delete(o, "volumeMounts")
	if left != nil {
		o["volumeMounts"] = left
	}
	delete(pod, "volumes")
}

func (c *cluster) mount(target string, m, source object, path string) {
	text, _ := json.Marshal(source) // of JSON
	switch there, is := c.mounts[target]; {
	case is && there == string(text):
		return
	case is:
		c.leave("%s mounts something else at %s than another group: mounts are the same on all nodes", path, target)
		return
	}
	c.mounts[target] = string(text)
	k := newKeys()
	k.set("mountPath", target, "")
	if m["readOnly"] == true {
		k.set("readOnly", true, "")
	}
	k.below("source").set("kuberay", map[string]any(source), "")
	c.top.add("mounts", k)
}

// limits takes the amounts of the first container. Requests are the same as limits in rayctl's pods.
func (c *cluster) limits(path string, containers []object, g, kuberay keys) {
	if len(containers) == 0 {
		return
	}
	resources := containers[0].object("resources")
	limits, requests := resources.object("limits"), resources.object("requests")
	if limits != nil && requests != nil && !reflect.DeepEqual(limits, requests) {
		c.ask("%s: requests and limits are the same in rayctl's pods: those of the limits, where there are both", path)
	}
	amounts := object{}
	maps.Copy(amounts, requests)
	maps.Copy(amounts, limits)
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		value := fmt.Sprint(amounts[name])
		switch name {
		case "cpu":
			g.put("cpus", plainScalar(value), "")
		case "memory":
			g.set("memory", value, "")
		case "nvidia.com/gpu":
			g.put("gpus", plainScalar(value), "")
		case "ephemeral-storage":
			c.leave("%s: %s of %s: use patch", path, name, value)
		case "amd.com/gpu", "gpu.intel.com/i915", "google.com/tpu", "aws.amazon.com/neuroncore", "huawei.com/Ascend910":
			c.leave("%s: %s: %s: set gpus and gpuType, and gpuTypes with this resource", path, name, value)
		default:
			kuberay.below("limits").set(name, value, "")
		}
	}
	delete(containers[0], "resources")
}
