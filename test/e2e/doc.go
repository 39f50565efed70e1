// Package e2e runs the rayctl binary against real Ray on this machine, as users do: commands in, output and exit codes out.
package e2e
