// Command rlxrun runs compiled models: an artifact in, masks or tensors out. A backend in a process of its
// own computes; rlxrun verifies the artifact, starts the backend and writes results. It knows images and tasks, but no model.
//
// Of the conformance suite it has the part that needs no compiler. It must not import core/compile, core/pass, core/hir or models: the runtime must stay small. It needs no cgo.
package main

import (
	"fmt"

	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/plugins/rpc"
)

func main() {
	cli.Main(cli.Program{
		Name:     "rlxrun",
		Short:    "rlxrun runs compiled models (.rlx) on a backend.",
		Default:  "run",
		Commands: []*cli.Command{runCommand(), serveCommand(), benchCommand(), devicesCommand(), pluginsCommand(), installCommand(), verifyCommand(), removeCommand(), describeCommand(), testCommand(), vectorsCommand(), tokenizeCommand(), detokenizeCommand()},
		Versions: []cli.Version{{Name: "artifact format", Version: fmt.Sprintf("%d.%d", format.Major, format.Minor)}, {Name: "backend protocol", Version: fmt.Sprint(rpc.Version)}},
	})
}
