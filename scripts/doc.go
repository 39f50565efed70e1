// Package scripts has the tests of the shell scripts beside it.
package scripts
