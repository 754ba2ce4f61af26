package main

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/models/onnx"
)

// serve runs an artifact as often as each line of the standard input says, with the inputs of a folder, and answers
// with the seconds of each run. speed.py calls it, in turns with ONNX Runtime.
func serve(ctx context.Context, artifact, dir, backend string, threads int) error {
	in, err := tensors(dir, "input")
	if err != nil {
		return err
	}
	model, err := rlx.Open(ctx, artifact, rlx.OpenOptions{})
	if err != nil {
		return err
	}
	defer model.Close()
	b, err := rlx.FindBackend(backend)
	if err != nil {
		return err
	}
	session, err := model.NewSession(ctx, rlx.Options{Backend: b, Threads: threads})
	if err != nil {
		return err
	}
	defer session.Close()
	method := model.Methods()[0]
	request := rlx.Request{Method: method.Name, Inputs: map[string]rlx.Tensor{}}
	for _, v := range method.Inputs {
		for _, x := range in {
			if onnx.Name(x.name) == v.Name {
				request.Inputs[v.Name] = rlx.Tensor{DType: elementType(x.t.DType), Shape: x.t.Shape, Data: x.t.Data}
			}
		}
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var times int
		if _, err := fmt.Sscan(lines.Text(), &times); err != nil {
			return err
		}
		// print nothing before the last run: that would wake the reader, which needs a processor, during the next one
		seconds := make([]any, times)
		for i := range times {
			start := time.Now()
			if _, err := session.Run(ctx, request); err != nil {
				return err
			}
			seconds[i] = time.Since(start).Seconds()
		}
		fmt.Println(seconds...)
	}
	return lines.Err()
}

// printRanges prints NAME=LOW..HIGH for each open size of the model in dir, so that its inputs fit.
func printRanges(dir string) error {
	in, err := tensors(dir, "input")
	if err != nil {
		return err
	}
	t := test{dir: dir}
	ranges, err := t.ranges(filepath.Join(dir, "model.onnx"), []dataset{{in: in}}, false)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(ranges)) {
		fmt.Printf("%s=%d..%d\n", name, ranges[name][0], ranges[name][1])
	}
	return nil
}
