//go:build linux || darwin || windows

package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"

	"github.com/rlx-go/rlx/internal/release"
	"github.com/rlx-go/rlx/plugins/rpc/internal/server"
	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"
)

// Backend serves a backend to the host that started this process, and returns when the host ends the session. The main
// function of a backend needs to call nothing else. If a user started the process, Backend prints what the program is
// for and exits with status 1, or with 0 for --help and --version.
func Backend(cfg Config) {
	if os.Getenv(wire.CookieKey) != wire.CookieValue {
		explainUse(cfg.Name, os.Args[1:])
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	fds, err := wire.InheritedFiles(os.Getenv(wire.FilesEnv))
	if err == nil && fds.Lifeline == nil {
		err = errors.New(wire.FilesEnv + " names no lifeline")
	}
	if err != nil {
		fail(cfg.Name, err)
	}
	server.EndWith(fds.Lifeline)
	srv, err := server.New(server.Config{Backend: cfg.Backend, Decode: cfg.Decode, Log: cfg.Log}, fds)
	if err != nil {
		fail(cfg.Name, err)
	}
	server.Serve(srv, server.Options(cfg.Log)...)
}

func fail(name string, err error) {
	fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	os.Exit(1)
}

// explainUse tells a user who ran the backend how to use it, and exits.
func explainUse(name string, args []string) {
	if len(args) > 0 && (args[0] == "--version" || args[0] == "-V" || args[0] == "version") {
		fmt.Printf("rlx-backend-%s %s %s/%s %s\nbackend protocol %d\n", name, release.Own(), runtime.GOOS,
			runtime.GOARCH, runtime.Version(), wire.Version)
		os.Exit(0)
	}
	out, status := os.Stderr, 1
	if len(args) > 0 && (args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
		out, status = os.Stdout, 0
	}
	fmt.Fprintf(
		out, "rlx-backend-%[1]s is the %[1]s backend of rlxrun, which starts it: rlxrun MODEL.rlx --backend %[1]s ...\n"+
			"rlxrun finds it beside itself, in the folders of RLX_PLUGIN_PATH, and where \"rlxrun plugins install\" puts it; \"rlxrun plugins list\" shows whether it works.\n",
		name)
	os.Exit(status)
}
