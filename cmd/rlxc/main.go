// Command rlxc compiles models: a checkpoint in, one artifact (.rlx) out, and examines artifacts. It executes nothing.
package main

import (
	"fmt"

	_ "github.com/rlx-go/rlx/core/task/text" // a kind of task that inspect shows
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/cli"
	_ "github.com/rlx-go/rlx/models/llm" // the model families that are recognised
	_ "github.com/rlx-go/rlx/models/qwen3vl"
	_ "github.com/rlx-go/rlx/models/sam"
	_ "github.com/rlx-go/rlx/models/sam3"
	_ "github.com/rlx-go/rlx/plugins/rpc" // its error codes, for `rlxc explain`
)

func main() {
	cli.Main(cli.Program{
		Name:     "rlxc",
		Short:    "rlxc compiles checkpoints to artifacts (.rlx) and inspects artifacts.",
		Default:  "compile",
		Commands: []*cli.Command{compileCommand(), inspectCommand(), planCommand(), checkCommand()},
		Versions: []cli.Version{{Name: "artifact format", Version: fmt.Sprintf("%d.%d", format.Major, format.Minor)}},
	})
}
