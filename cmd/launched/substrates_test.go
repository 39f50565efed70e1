package launched_test

import (
	_ "github.com/rayctl/rayctl/kuberay/kuberayspec"
	_ "github.com/rayctl/rayctl/local/localspec"
	_ "github.com/rayctl/rayctl/slurm/slurmspec"
)
