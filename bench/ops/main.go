// Command ops runs single ops on a backend for run.py, which compares their times with PyTorch's. It reads requests
// from stdin, one line of JSON each, and answers each with one line:
//
//	{"do": "load", "line": "softmax x {axis=1}", "inputs": [{"name": "x", "type": "f32[4,8]", "bytes": 128}],
//	 "results": ["f32[4,8]"]}
//
// "load" compiles the op for the backend and loads it; the bytes of the inputs follow the line. "graphs" may have the
// text of graphs that the line names. "run" runs the loaded op for "ms" milliseconds and answers with the time of each
// run in nanoseconds. "get" answers with the results of the last run, whose bytes follow the answer. "peaks" measures
// the peaks of the machine, for "ms" milliseconds each. "ops" answers with the names of all ops.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/rlx-go/rlx/bench/measure"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/plugins/cpu/backend"
)

// backends holds the backends that this program can run.
var backends = map[string]func() device.Backend{"cpu": func() device.Backend { return backend.Backend{} }}

// repeats holds, for backends on GPUs, a function that runs a program several times and returns the time of one run by
// the device's clock.
var repeats = map[string]func(exe device.Executable, times int) (time.Duration, error){}

// request is a line of stdin.
type request struct {
	Do      string
	Line    string
	Graphs  string
	Inputs  []operand
	Results []string
	MS      int
}

// operand is an input or a weight of the op. A weight is the same in every run.
type operand struct {
	Name, Type string
	Bytes      int
	Weight     bool
}

// answer is a line of stdout. Results holds the sizes in bytes of the results, which follow the line.
type answer struct {
	Error string  `json:"error,omitempty"`
	NS    []int64 `json:"ns,omitempty"`
	Bytes int64   `json:"bytes,omitempty"` // of all operands and results
	FLOPs int64   `json:"flops,omitempty"`
	// the ops of the program, with "reference " before those without a kernel
	Steps   []string       `json:"steps,omitempty"`
	Results []int64        `json:"results,omitempty"`
	Peaks   *measure.Peaks `json:"peaks,omitempty"`
	Ops     []string       `json:"ops,omitempty"`
}

func main() {
	threads := pflag.Int("threads", 2, "worker threads")
	name := pflag.String("backend", "cpu", "cpu, or wgpu if this program was built with cgo")
	pflag.Parse()
	open := backends[*name]
	if open == nil {
		fmt.Fprintf(os.Stderr, "bench/ops: --backend: %q is not built in; wgpu needs CGO_ENABLED=1\n", *name)
		os.Exit(2)
	}
	if err := serve(open(), os.Stdin, os.Stdout, *threads); err != nil {
		fmt.Fprintln(os.Stderr, "bench/ops:", err)
		os.Exit(2)
	}
}

// serve answers the requests on stdin until its end.
func serve(b device.Backend, stdin io.Reader, stdout io.Writer, threads int) error {
	in, out := bufio.NewReaderSize(stdin, 1<<20), bufio.NewWriterSize(stdout, 1<<20)
	var x *loaded
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		var q request
		if err == nil {
			err = json.Unmarshal(line, &q)
		}
		if err != nil {
			return fmt.Errorf("request %.200q: %w", line, err)
		}
		var a answer
		var data []byte
		switch q.Do {
		case "load":
			x.close()
			values := make([][]byte, len(q.Inputs))
			for i, o := range q.Inputs {
				values[i] = make([]byte, o.Bytes)
				if _, err := io.ReadFull(in, values[i]); err != nil {
					return err
				}
			}
			if x, err = load(b, q, values, threads); err == nil {
				a.Bytes, a.FLOPs, a.Steps = x.bytes, x.flops, x.steps()
			}
		case "run":
			a.NS, err = x.times(time.Duration(q.MS) * time.Millisecond)
		case "get":
			data, a.Results = x.results()
		case "peaks":
			p, e := measure.Machine(threads, time.Duration(q.MS)*time.Millisecond)
			a.Peaks, err = &p, e
		case "ops":
			for _, def := range ir.Defs() {
				a.Ops = append(a.Ops, def.Name)
			}
		default:
			return fmt.Errorf("unknown request %q; want load, run, get, peaks or ops", q.Do)
		}
		if err != nil {
			a = answer{Error: err.Error()}
		}
		text, err := json.Marshal(a)
		if err != nil {
			return err
		}
		out.Write(append(text, '\n'))
		out.Write(data)
		if err := out.Flush(); err != nil {
			return err
		}
	}
}
