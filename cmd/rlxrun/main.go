// Command rlxrun runs compiled models. It verifies an artifact, starts a backend in a separate process, which does the
// computation, and writes masks, text or tensors. It knows images and tasks, but no model.
//
// The runtime must stay small: rlxrun must not import core/compile, core/pass, core/hir or models, so it has only the
// part of the conformance suite that needs no compiler. It needs no cgo.
package main

import (
	"fmt"

	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/plugins/rpc/host"
)

func main() { cli.Main(commandLine()) }

// commandLine returns the program and its commands.
func commandLine() cli.Program {
	p := cli.Program{
		Name:    "rlxrun",
		Short:   "rlxrun runs compiled models (.rlx) on a backend.",
		Default: "run",
		Commands: []*cli.Command{runCommand(), chatCommand(), embedCommand(), serveCommand(), benchCommand(),
			diffCommand(),
			replayCommand(), devicesCommand(), pluginsCommand(), installCommand(), verifyCommand(), removeCommand(),
			describeCommand(), testCommand(), vectorsCommand(), tokenizeCommand(), detokenizeCommand(),
			perplexityCommand(), trainCommand(), doctorCommand(), verifyReceiptCommand()},
		Values: flagValues(),
		Versions: []cli.Version{{Name: "artifact format", Version: fmt.Sprintf("%d.%d", format.Major, format.Minor)},
			{Name: "backend protocol", Version: fmt.Sprint(host.Version)}},
	}
	p.Commands = append(p.Commands, systemCommands()...)
	return p
}
