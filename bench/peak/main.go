// Command peak measures the peaks of this machine, so that other figures can be given as shares of them: the rate of
// f32 multiply-adds, the rate of bfloat16 products (in AMX tiles if the processor has them, otherwise in vectors) and
// the bandwidth of copying memory. It measures each on one thread and on all, and prints JSON.
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
	threads := flag.Int("threads", 0, "threads; 0 for one per processor")
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
