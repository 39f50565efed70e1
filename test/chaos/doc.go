// Package chaos breaks launches at random and checks what must always hold: a random launcher, a random launch like the command's
// (working directory, runtime environment, secret), a random fault at a random moment, on the real Ray, Slurm and Kubernetes.
//
// While a run lives and after its end `status` and `ls` show the same. After each case nothing is allocated, no two drivers ran at once, every line of output is there once and in order in the client's
// output and in the record, exit code and record agree with the events, and the secret is nowhere.
//
// With -chaos.elastic the clusters have nodes that come and go under the driver's tasks, with -chaos.early a head that comes before
// the workers' gang, with -chaos.daemons the daemons around a run hang or have no descriptors left, its log is truncated, its ports are
// taken; the faults of these count three times there. A gang waits because the test closes its queue.
//
// `make chaos CHAOS='-chaos.n 300 -chaos.seed 7 -chaos.daemons'` runs a campaign. The seed and the number determine a case, so that
// `-chaos.seed 7 -chaos.first 42 -chaos.n 1`, with the campaign's other flags, repeats a failure: each case prints its own.
// A campaign of ten cases or more fails, too, if less than 80 % of its faults found their target. A case that fails becomes
// a test of its own, in the package that it concerns.
package chaos
