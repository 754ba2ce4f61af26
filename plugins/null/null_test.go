//go:build linux || darwin

package main

import (
	"errors"
	"os"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/plugins/rpc/host"
)

// The test binary is also the backend if the host starts it as one.
func TestMain(m *testing.M) {
	if os.Getenv("RLX_FDS") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func tinyProgram(t *testing.T) *program.Program {
	t.Helper()
	g := ir.NewGraph("encode")
	g.Return("y", op.Neg(op.Input(g, "x", ir.MustType("f32[4]"))))
	p, _, err := sched.Build(g, sched.Options{Method: "encode", Target: "portable"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestRefusals(t *testing.T) {
	p := tinyProgram(t)
	_, err := Backend{}.Load(t.Context(), device.Load{Program: p})
	if !errors.Is(err, device.ErrUnsupported) || err.Error() != "null: %1: op neg is not one it runs (it runs none); choose another backend with --backend" {
		t.Error(err)
	}
	if _, err := (Backend{}).Load(t.Context(), device.Load{Program: p, Device: "0"}); !errors.Is(err, device.ErrUnavailable) {
		t.Error(err)
	}
	if _, err := (Backend{}).Load(t.Context(), device.Load{Program: &program.Program{}}); !errors.Is(err, device.ErrUnavailable) {
		t.Error(err)
	}
}

func TestAsProcess(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s, err := host.Start(t.Context(), host.Options{Path: exe, Name: "null", Encode: format.EncodeProgram})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	info, err := s.Info(t.Context())
	if err != nil || info.Name != "null" || len(info.Devices) != 0 {
		t.Errorf("%+v, %v", info, err)
	}
	_, err = s.Load(t.Context(), device.Load{Program: tinyProgram(t)})
	if want := "backend null: %1: op neg is not one it runs (it runs none); choose another backend with --backend"; !errors.Is(err, device.ErrUnsupported) ||
		errors.Is(err, device.ErrLost) || err.Error() != want {
		t.Errorf("load: %v; want %s", err, want)
	}
}
