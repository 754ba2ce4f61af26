package main_test

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/testbin"
	_ "github.com/rlx-go/rlx/plugins/cpu/backend"
	"github.com/rlx-go/rlx/plugins/rpc/host"
)

// plugin is the backend's executable.
var plugin string

// TestMain builds the backend. The suite runs in its short form, since package backend runs it, too; -short=false
// undoes that.
func TestMain(m *testing.M) {
	flag.Set("test.short", "true") // before the command line is parsed
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "rlxcpu")
		if err == nil {
			defer os.RemoveAll(dir)
			plugin = filepath.Join(dir, "rlx-backend-cpu")
			err = testbin.Build(plugin, "plugins/cpu")
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "building the backend:", err)
			return 1
		}
		return m.Run()
	}())
}

// TestConformance runs the conformance suite on the backend in its own process, with each transport for tensors. A
// sample has a third of the ops, since the kernels are the same in package backend.
func TestConformance(t *testing.T) {
	for name, chunks := range map[string]bool{"shared": false, "chunks": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			devicetest.Run(t, func(t *testing.T) device.Backend {
				s, err := host.Start(
					t.Context(), host.Options{Path: plugin, IOSize: devicetest.MaxIO, NoSharedMemory: chunks,
						Encode: format.EncodeProgram, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { s.Close() })
				return s
			}, devicetest.Options{MustHave: true, Ops: 0.3})
		})
	}
}
