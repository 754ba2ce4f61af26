package main

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/installed"
)

// completionTime is how long a shell waits for suggestions that need backends.
const completionTime = 3 * time.Second

// flagValues suggest values of flags to the shell.
func flagValues() map[string]cli.Completer {
	return map[string]cli.Completer{
		"method": ofArtifact(func(m *rlx.Model, _ cli.Line) (out []string) {
			for _, x := range m.Methods() {
				out = append(out, x.Name)
			}
			return out
		}),
		"input": ofMethods(func(m *rlx.Method) (out []string) {
			for _, v := range m.Inputs {
				out = append(out, v.Name+"=")
			}
			return out
		}),
		"size": ofMethods(func(m *rlx.Method) (out []string) {
			for _, s := range m.Symbols {
				out = append(out, s.Name+"=")
			}
			return out
		}),
		"precision":         ofArtifact(func(m *rlx.Model, _ cli.Line) []string { return m.Facts().Precisions }),
		"backend":           func(context.Context, cli.Line) []string { return append(backendNames(), autoBackend) },
		"against":           func(context.Context, cli.Line) []string { return backendNames() },
		"against-precision": func(context.Context, cli.Line) []string { return device.Precisions() },
		"device":            completeDevices,
		"devices":           completeDevices,
	}
}

// ofArtifact suggests values of the artifact on the line.
func ofArtifact(values func(*rlx.Model, cli.Line) []string) cli.Completer {
	return func(ctx context.Context, line cli.Line) []string {
		if len(line.Args) == 0 {
			return nil
		}
		m, err := rlx.Open(ctx, line.Args[0], rlx.OpenOptions{Lazy: true, Unverified: true})
		if err != nil {
			return nil
		}
		defer m.Close()
		return values(m, line)
	}
}

// ofMethods suggests values of the method in --method, or of all methods, each once.
func ofMethods(values func(*rlx.Method) []string) cli.Completer {
	return ofArtifact(func(m *rlx.Model, line cli.Line) (out []string) {
		for _, x := range m.Methods() {
			if name := line.Flag("method"); name != "" && name != x.Name {
				continue
			}
			for _, v := range values(x) {
				if !slices.Contains(out, v) {
					out = append(out, v)
				}
			}
		}
		return out
	})
}

func backendNames() (out []string) {
	reg, err := findBackends(nil)
	if err != nil {
		return nil
	}
	for _, b := range reg.first() {
		out = append(out, b.Name)
	}
	return out
}

// completeDevices starts the backends to ask for their devices.
func completeDevices(ctx context.Context, _ cli.Line) (out []string) {
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	quiet := &cli.Env{Stdout: io.Discard, Stderr: io.Discard, Quiet: true}
	all, _, err := probeAll(ctx, quiet, new(hostFlags))
	if err != nil {
		return nil
	}
	for _, p := range all {
		for _, d := range p.info.Devices {
			out = append(out, p.Name+":"+d.ID+"\t"+d.Name)
		}
	}
	return out
}

// completeInstalled suggests installed plugins.
func completeInstalled(context.Context, cli.Line) (out []string) {
	store, err := installed.User()
	if err != nil {
		return nil
	}
	list, err := store.List()
	if err != nil {
		return nil
	}
	for _, p := range list {
		out = append(out, p.Name)
	}
	return out
}
