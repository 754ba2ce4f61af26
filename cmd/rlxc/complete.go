package main

import (
	"context"
	"slices"
	"strings"

	driver "github.com/rlx-go/rlx/core/compile"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/pass"
	"github.com/rlx-go/rlx/internal/cli"
)

// flagValues suggest values of flags to the shell.
func flagValues() map[string]cli.Completer {
	return map[string]cli.Completer{
		"method":     ofPrograms(func(p listed) string { return p.Method }),
		"target":     completeTarget,
		"fallback":   afterComma(driver.TargetNames()),
		"precision":  afterComma(device.Precisions()),
		"stop-after": func(context.Context, cli.Line) []string { return pass.Names() },
	}
}

// completeTarget suggests the targets of an artifact, or those to compile for.
func completeTarget(ctx context.Context, line cli.Line) []string {
	if of := ofPrograms(func(p listed) string { return p.of.Target })(ctx, line); len(of) > 0 {
		return of
	}
	return afterComma(driver.TargetNames())(ctx, line)
}

// afterComma suggests values of a list that commas separate.
func afterComma(names []string) cli.Completer {
	return func(_ context.Context, line cli.Line) []string {
		before := line.Word[:strings.LastIndexByte(line.Word, ',')+1]
		var out []string
		for _, n := range names {
			out = append(out, before+n)
		}
		return out
	}
}

// ofPrograms suggests values of the programs of the artifact on the line, each once.
func ofPrograms(value func(listed) string) cli.Completer {
	return func(ctx context.Context, line cli.Line) (out []string) {
		if len(line.Args) == 0 {
			return nil
		}
		r := reading{readingMemory}
		v, err := r.openOne(ctx, line.Args[:1])
		if err != nil {
			return nil
		}
		defer v.Close()
		for _, p := range listAll(v) {
			if s := value(p); !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
		return out
	}
}

// completeOps suggests the ops.
func completeOps(_ context.Context, line cli.Line) (out []string) {
	if len(line.Args) > 0 {
		return nil
	}
	for _, d := range ir.Defs() {
		out = append(out, d.Name)
	}
	return out
}

// completeView suggests the parts of an artifact after its name.
func completeView(_ context.Context, line cli.Line) (out []string) {
	if len(line.Args) != 1 {
		return nil
	}
	for _, v := range views {
		out = append(out, v.name+"\t"+v.about)
	}
	return out
}
