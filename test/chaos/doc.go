// Package chaos breaks launches at random and checks what must hold whatever happens: a random launcher, a random launch as the command
// makes it (working directory, runtime environment, secret), a random fault at a random moment, on the real Ray, Slurm and Kubernetes.
//
// After each case nothing is allocated, no two drivers ran at once, every line of output is there once and in order in the client's
// output and in the record, exit code and record agree with what happened, and the secret is nowhere.
//
// `make chaos CHAOS='-chaos.n 150 -chaos.seed 7'` runs a campaign. A case is made from the seed and its number alone, so that a failure is
// repeated by `-chaos.seed 7 -chaos.first 42 -chaos.n 1`. A case that fails becomes
// a test of its own, in the package that it concerns.
package chaos
