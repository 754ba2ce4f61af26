// Command tcmp compares a tensor with a golden one. The exit status is 0 if they agree, 1 if they differ, and 2 if they
// cannot be compared.
//
//	go run ./bench/tcmp -tol 1e-4 got.npy golden.safetensors:image_embeddings
//
// The tolerance applies to the largest absolute difference divided by the largest absolute golden value. The command
// prints both that ratio and the relative L2 error. It ignores leading dimensions of 1. A NaN is always a difference.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/rlx-go/rlx/internal/tensortest"
)

func main() {
	tol := flag.Float64("tol", 1e-4, "largest allowed difference relative to the golden's largest value")
	flag.Parse()
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: tcmp [-tol T] GOT GOLDEN")
		os.Exit(2)
	}
	d, err := compare(flag.Arg(0), flag.Arg(1))
	if err != nil {
		fmt.Fprintln(os.Stderr, "tcmp:", err)
		os.Exit(2)
	}
	fmt.Println(d)
	if !d.Within(*tol) {
		os.Exit(1)
	}
}

func compare(got, want string) (tensortest.Diff, error) {
	g, err := tensortest.Load(got)
	if err != nil {
		return tensortest.Diff{}, err
	}
	w, err := tensortest.Load(want)
	if err != nil {
		return tensortest.Diff{}, err
	}
	return tensortest.Compare(g, w)
}
