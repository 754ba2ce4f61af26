// Command rlxc compiles models from checkpoints to artifacts (.rlx) and inspects artifacts. It executes nothing.
package main

import (
	"fmt"
	"runtime"

	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/cli"
)

func main() {
	room := make([]byte, heapRoom)
	cli.Main(commandLine())
	runtime.KeepAlive(room)
}

// heapRoom is the size of a block that is never touched, so it takes no memory. It counts as part of the heap, and the
// garbage collector waits until the heap has grown by its own size. Without it, collections take a fifth of the time of
// compiling a small model.
const heapRoom = 8 << 20

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
