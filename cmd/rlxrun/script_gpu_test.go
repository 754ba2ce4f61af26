package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/rlx-go/rlx/internal/testbin"
)

// wgpu builds the backend that scripts call $GPU. It reports whether that works and the backend finds a device, such as
// Mesa's software adapter. rlxrun does not find the backend by itself, so other scripts run without it.
var wgpu = sync.OnceValue(func() bool {
	bin, err := built()
	if err != nil {
		return false
	}
	plugin := filepath.Join(bin, "gpu", "rlx-backend-wgpu")
	if err := testbin.Build(plugin, "plugins/wgpu"); err != nil {
		return false // there is no C compiler
	}
	sandbox, err := os.ReadFile("../../plugins/wgpu/rlx-backend-wgpu.sandbox")
	if err == nil {
		err = os.WriteFile(plugin+".sandbox", sandbox, 0o666)
	}
	if err != nil {
		return false
	}
	out, _ := exec.Command(filepath.Join(bin, "rlxrun"), "devices", "--plugin", "wgpu="+plugin).Output()
	return strings.Contains(string(out), "wgpu:0")
})
