package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/rlx-go/rlx/internal/atomicfile"
	"github.com/rlx-go/rlx/internal/cli"
)

// output is a file that a flag names.
type output struct{ flag, path string }

// artifactFlag is the flag of the only output that is not written sequentially.
const artifactFlag = "--output"

// outputsOf lists the files that compile will write, without standard output (-).
func outputsOf(f *compileFlags, d *dumpSet) []output {
	var out []output
	if f.stopAfter == "" && !f.gaps {
		out = append(out, output{artifactFlag, f.output})
	}
	if f.report != "" && f.report != "-" {
		out = append(out, output{"--report", f.report})
	}
	for _, p := range d.order {
		if p != "-" {
			out = append(out, output{"--dump", p})
		}
	}
	return out
}

// checkOutputs detects, before the work begins, errors that would otherwise lose data or appear only at the end: an
// output that is also an input, two outputs with one file, a folder that is missing or not writable.
func checkOutputs(ctx context.Context, outs []output, inputs []string) error {
	for i, o := range outs {
		if o.path == "-" {
			return cli.Usagef(o.flag+" -", "an artifact cannot go to stdout").WithHint("name one that ends in .rlx")
		}
		for _, in := range inputs {
			if sameFile(o.path, in) {
				return cli.Usagef(o.flag+" "+o.path, "is the input %s, which would be lost", in).WithHint(
					"name another file")
			}
		}
		for _, before := range outs[:i] {
			if place(o.path) == place(before.path) || sameFile(o.path, before.path) {
				return cli.Usagef(o.flag+" "+o.path, "is named for %s too", before.flag).WithHint("name another file")
			}
		}
		if st, err := os.Stat(o.path); err == nil && !st.Mode().IsRegular() && !st.IsDir() && o.flag != artifactFlag {
			continue // opening a pipe or device would disturb its reader
		}
		f, err := atomicfile.CreateRegular(ctx, o.path)
		if err != nil {
			return err
		}
		f.Abort()
	}
	return nil
}

// place returns the canonical path of the file that writing to path creates or replaces. It follows links, including
// those whose target does not exist yet.
func place(path string) string {
	path = atomicfile.Target(path)
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return path
}

func sameFile(a, b string) bool {
	x, xerr := os.Stat(a)
	y, yerr := os.Stat(b)
	return xerr == nil && yerr == nil && os.SameFile(x, y)
}
