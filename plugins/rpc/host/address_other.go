//go:build !windows

package host

import (
	"fmt"
	"path/filepath"

	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"
)

// network is the kind of address at which backends listen, and addressForm describes it in messages.
const network, addressForm = "unix", "unix and a socket in the private directory"

// checkAddress checks that addr, of a handshake, is the path of a socket inside dir.
func checkAddress(addr, dir string) error {
	rel, err := filepath.Rel(dir, addr)
	if err != nil || !filepath.IsAbs(addr) || filepath.Clean(addr) != addr || !filepath.IsLocal(rel) || rel == "." {
		return fmt.Errorf("handshake: socket %q is outside the private directory that the host created",
			wire.Abridge(wire.Clean(addr), 120))
	}
	return nil
}
