//go:build linux || darwin

package main

import (
	"errors"
	"os"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/plugins/rpc/host"
	"github.com/rlx-go/rlx/sdk/backend"
)

// The test binary is also the backend if the host starts it as one.
func TestMain(m *testing.M) {
	if os.Getenv("RLX_FDS") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestConformance(t *testing.T) {
	devicetest.Run(t, func(t *testing.T) device.Backend {
		b, err := backend.New(config)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}, devicetest.Options{MustHave: true})
}

// tinyProgram computes f of four numbers.
func tinyProgram(t *testing.T, f func(x *ir.Node) *ir.Node) *program.Program {
	t.Helper()
	g := ir.NewGraph("encode")
	g.Return("y", f(op.Input(g, "x", ir.MustType("f32[4]"))))
	p, _, err := sched.Build(g, sched.Options{Method: "encode", Target: "portable"})
	if err != nil {
		t.Fatal(err)
	}
	return p
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
	if err != nil || info.Name != "null" || len(info.Devices) != 1 {
		t.Errorf("%+v, %v", info, err)
	}
	_, err = s.Load(t.Context(), device.Load{Program: tinyProgram(t, op.Abs)})
	if !errors.Is(err, device.ErrUnsupported) || errors.Is(err, device.ErrLost) {
		t.Errorf("a program with abs: %v; want an unsupported op", err)
	}
	x, err := s.Load(t.Context(), device.Load{Program: tinyProgram(t, op.Neg)})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
}
