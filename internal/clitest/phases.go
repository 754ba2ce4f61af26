//go:build unix

package clitest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/ctxio"
)

// CheckPhases runs command lines in dir and checks that they have the given phases (see ctxio.Do). It then runs each
// once for each of its phases, holds it there forever, and ends the context. The command must then end, as after a
// signal.
func CheckPhases(t *testing.T, p cli.Program, dir string, lines map[string]string) {
	t.Helper()
	t.Chdir(dir)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	for line, want := range lines {
		var mu sync.Mutex
		var phases []string
		ctx := ctxio.Phases(t.Context(), func(phase string) {
			mu.Lock()
			defer mu.Unlock()
			if !slices.Contains(phases, phase) {
				phases = append(phases, phase)
			}
		})
		if status, text := run(t, ctx, p, strings.Fields(line)); status != 0 || strings.Join(phases, " ") != want {
			t.Errorf("%s: status %d, phases %v; want 0 and %s\n%s", line, status, phases, want, text)
			continue
		}
		for _, phase := range phases {
			ctx, cancel := context.WithCancelCause(t.Context())
			held := ctxio.Phases(ctx, func(at string) {
				if at == phase {
					cancel(told)
					<-release
				}
			})
			if status, text := run(t, held, p, strings.Fields(line)); status != diag.Interrupted.Exit() ||
				!strings.Contains(text, string(diag.Interrupted)) {
				t.Errorf("%s, held in phase %s: status %d\n%s", line, phase, status, text)
			}
			cancel(nil)
		}
	}
}
