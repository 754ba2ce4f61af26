package serve

import (
	"log/slog"
	"os"

	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"
)

// NewLogger returns a logger for backends. It writes JSON lines to stderr with the keys that hosts read. Call it before
// Backend, which redirects os.Stderr.
func NewLogger(level slog.Leveler) *slog.Logger {
	return slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{
		Level:       level,
		ReplaceAttr: wire.LogKeys,
	}))
}
