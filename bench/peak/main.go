// Peak measures what this machine can do at most, so that other figures can be given as shares of it: fused multiply-adds in
// f32, products of bfloat16 (AMX tiles, or vectors where there are none) and copying of memory, on one thread and on all. It
// prints JSON.
//
//	go run ./bench/peak [-threads N] [-for 1s]
//
// Each figure is the best of several short runs, because what disturbs them only ever slows them down.
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
