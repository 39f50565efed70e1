// Command rayctl gets a Ray cluster from whatever you have, runs a job on it, and leaves nothing behind.
package main

import (
	"os"

	"github.com/rayctl/rayctl/cmd"
)

func main() { os.Exit(cmd.Main(os.Args[1:])) }
