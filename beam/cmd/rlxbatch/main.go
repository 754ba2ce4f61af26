// Command rlxbatch runs a compiled model on many images or texts, on one machine or on a cluster, as a pipeline of
// Apache Beam. docs/scale.md describes it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	beamlog "github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx"
)

const usage = `rlxbatch runs a compiled model on many images or texts.

    rlxbatch sam.rlx --input 'images/**' --output masks                        # all objects of all images
    rlxbatch sam.rlx --input 'images/**' --output masks --points-file p.json   # the objects of prompts
    rlxbatch llama.rlx --text prompts.jsonl --output texts                     # continues texts
    rlxbatch llama.rlx --text prompts.jsonl --output vectors --embed           # a vector for each text

Flags:
`

const help = `
Flags of Apache Beam select where the pipeline runs. The default, --runner prism, is in this process. The others are
--runner flink, spark and dataflow with --endpoint, --environment_type, --environment_config and so on: docs/scale.md.

Exit status: 0, 1 for an error, 2 for a wrong flag, 3 if inputs failed, which failures.jsonl in the output lists.
`

// errInputs reports that some inputs failed.
var errInputs = errors.New("inputs failed")

func main() {
	if asWorker(os.Args[1:]) {
		return
	}
	j := newJob(flag.CommandLine)
	verbose := flag.Bool("verbose", false, "print the log of Beam")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		j.flags.VisitAll(func(f *flag.Flag) {
			if j.own[f.Name] {
				name, about := flag.UnquoteUsage(f)
				fmt.Fprintf(flag.CommandLine.Output(), "    --%-24s %s\n", strings.TrimSpace(f.Name+" "+name), about)
			}
		})
		fmt.Fprint(flag.CommandLine.Output(), help)
	}
	args := os.Args[1:]
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		j.model.Path, args = args[0], args[1:]
	}
	flag.CommandLine.Parse(args) // ends the program if a flag is wrong
	if j.model.Path == "" && flag.NArg() == 1 {
		j.model.Path = flag.Arg(0)
	} else if flag.NArg() > 0 {
		fail(2, fmt.Errorf("%s: is one argument too many; put patterns in quotes", flag.Arg(0)))
	}
	if j.dryRun() { // Beam logs the job that it does not start
		beamlog.SetLogger(plain{beamlog.SevInfo})
	} else if !*verbose {
		beamlog.LogLevel = "error"
		beamlog.SetLogger(plain{beamlog.SevError})
	}
	// Beam would compile the program for the workers anew.
	if self, err := os.Executable(); err == nil && *jobopts.WorkerBinary == "" && runtime.GOOS == "linux" {
		*jobopts.WorkerBinary = self
	}
	beam.Init() // does not return in a worker
	p := beam.NewPipeline()
	if err := j.build(p); err != nil {
		fail(2, err)
	}
	result, err := beamx.RunWithMetrics(context.Background(), p)
	if err != nil {
		fail(1, err)
	}
	if result == nil { // the job was only printed, or made into a template
		return
	}
	note, err := j.summary(result)
	fmt.Println(note)
	if err != nil {
		os.Exit(3)
	}
}

func fail(status int, err error) {
	fmt.Fprintln(os.Stderr, "rlxbatch:", err)
	os.Exit(status)
}

// plain prints the messages of Beam from a severity on, without times and names.
type plain struct{ least beamlog.Severity }

// Log prints a message.
func (p plain) Log(_ context.Context, sev beamlog.Severity, _ int, msg string) {
	if sev >= p.least {
		fmt.Fprintln(os.Stderr, msg)
	}
}

// absolute makes a path of the local file system absolute, so that workers with other folders find it.
func absolute(p string) string {
	if strings.Contains(p, "://") {
		return p
	}
	if abs, err := filepath.Abs(p); err == nil {
		return abs
	}
	return p
}
