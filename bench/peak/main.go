// Command peak measures the peaks of this machine, so that other figures can be given as shares of them: f32 multiply-adds, bfloat16 products (in
// AMX tiles if the processor has them, else in vectors) and the bandwidth of copying memory, on one thread and on all. It prints JSON.
//
//	go run ./bench/peak [-threads N] [-for 1s]
//
// Each figure is the best of several short runs, because disturbances only slow runs down.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/rlx-go/rlx/bench/measure"
)

func main() {
	threads := flag.Int("threads", 0, "threads; 0 is one for each processor")
	span := flag.Duration("for", time.Second, "time to spend on each figure")
	flag.Parse()
	p, err := measure.Machine(*threads, *span)
	if err == nil {
		out := json.NewEncoder(os.Stdout)
		out.SetIndent("", "  ")
		err = out.Encode(p)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peak:", err)
		os.Exit(1)
	}
}
