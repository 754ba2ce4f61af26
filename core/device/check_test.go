package device_test

import (
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
)

func TestInfoCheck(t *testing.T) {
	good := func() device.Info {
		return device.Info{Name: "npu", Version: "1.2",
			Target: parse(t, "target npu 1.2\nlevels v3 v2\ntypes f32\nrun neg(f32)"), Levels: []string{"v2"},
			Precisions: []string{"bf16", "f32"},
			Devices: []device.Device{{ID: "0", Name: "An NPU", Type: "npu"},
				{ID: "pci:0000:3b:00.0", Name: "x", Type: "gpu", Memory: 1 << 40}}}
	}
	if err := good().Check(); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(i *device.Info){
		"no target description":                  func(i *device.Info) { i.Target = nil },
		`target "npu"; want "cpu", its own name`: func(i *device.Info) { i.Name = "cpu" },
		`version "2", and "1.2"`:                 func(i *device.Info) { i.Version = "2" },
		"largest arena of -1 bytes":              func(i *device.Info) { i.MaxAlloc = -1 },
		`level "v9"`:                             func(i *device.Info) { i.Levels = []string{"v9"} },
		`level "v2" is not in its target description, or appears twice`: func(i *device.Info) {
			i.Levels = []string{"v2", "v2"}
		},
		`precision "fp8" is unknown`: func(i *device.Info) {
			i.Precisions[0] = "fp8"
		},
		"f32 must be among them": func(i *device.Info) {
			i.Precisions = i.Precisions[:1]
		},
		`two devices have the ID "0"`: func(i *device.Info) { i.Devices[1].ID = "0" },
		`device 1: ID ""`:             func(i *device.Info) { i.Devices[1].ID = "" },
		`device 0: ID "a b"`: func(i *device.Info) {
			i.Devices[0].ID = "a b"
		},
		`device 0: name " "`: func(i *device.Info) {
			i.Devices[0].Name = " "
		},
		`device 0: name "a\nb"`: func(i *device.Info) {
			i.Devices[0].Name = "a\nb"
		},
		`device 0: type "CPU"; want one of ["cpu" "gpu" "npu" "software"]`: func(i *device.Info) {
			i.Devices[0].Type = "CPU"
		},
		"device 1: memory of -1 bytes": func(i *device.Info) {
			i.Devices[1].Memory = -1
		},
	} {
		i := good()
		spoil(&i)
		if err := i.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}
