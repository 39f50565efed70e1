package main

import (
	"github.com/rayctl/rayctl/test/bench/kubebench"
	"github.com/rayctl/rayctl/test/bench/slurmbench"
)

func init() { ofSlurm, ofKubernetes = slurmbench.Measures, kubebench.Measures }
