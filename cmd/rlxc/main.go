// Command rlxc compiles models from checkpoints to artifacts (.rlx) and inspects artifacts. It executes nothing.
package main

import (
	"fmt"

	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/cli"
)

func main() { cli.Main(commandLine()) }

// commandLine returns the program and its commands.
func commandLine() cli.Program {
	return cli.Program{
		Name:    "rlxc",
		Short:   "rlxc compiles checkpoints to artifacts (.rlx) and inspects artifacts.",
		Default: "compile",
		Commands: []*cli.Command{compileCommand(), inspectCommand(), planCommand(), checkCommand(), opsCommand(),
			pushCommand(), pullCommand()},
		Values:   flagValues(),
		Versions: []cli.Version{{Name: "artifact format", Version: fmt.Sprintf("%d.%d", format.Major, format.Minor)}},
	}
}
