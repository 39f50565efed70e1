package spec

import "strings"

// otherNames are keys of other tools' files, without - and _ and in lower case, and the keys with their meaning here.
var otherNames = map[string]string{
	"mem": "memory", "ram": "memory", "memorygb": "memory", "cmd": "entrypoint", "command": "entrypoint", "script": "entrypoint", "program": "entrypoint", "count": "replicas",
	"size": "replicas", "nodes": "replicas", "numworkers": "replicas", "numreplicas": "replicas", "requirements": "pip", "dependencies": "pip", "pypi": "pip", "packages": "pip", "environment": "env", "envvars": "env",
	"retries": "restarts", "maxretries": "restarts", "attempts": "restarts", "timeout": "lifetime", "timelimit": "lifetime", "walltime": "lifetime", "volumes": "mounts", "container": "image",
	"docker": "image", "ttl": "lifetime", "cwd": "workingDir", "dir": "workingDir", "autoscaling": "scaling", "minworkers": "minReplicas", "maxworkers": "maxReplicas", "autostop": "lifetime",
}

// meaningOf is the key of the cluster file that means what key means in files of other tools; "" if none is known.
func meaningOf(key string) string {
	return otherNames[strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(key))]
}
