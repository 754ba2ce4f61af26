// Command rlx-backend-metal runs programs on the GPUs of Macs with Apple silicon. rlxrun starts it; see
// spec/protocol.md and docs/metal.md.
package main

import (
	"log/slog"

	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/plugins/metal/driver"
	"github.com/rlx-go/rlx/plugins/rpc/serve"
)

func main() {
	b := driver.New()
	go b.Prepare() // opens the device while the host is still reading the artifact
	serve.Backend(serve.Config{
		Name: "metal", Backend: b, Log: serve.NewLogger(slog.LevelInfo),
		Decode: format.DecodeProgram,
	})
}
