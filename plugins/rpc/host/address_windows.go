package host

import (
	"fmt"
	"net/netip"

	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"
)

// network is the kind of address at which backends listen, and addressForm describes it in messages. Not all file
// systems and versions of this system have unix sockets.
const network, addressForm = "tcp", "tcp and an address of this machine such as 127.0.0.1:10000"

// checkAddress checks that addr, of a handshake, is a port of this machine.
func checkAddress(addr, _ string) error {
	a, err := netip.ParseAddrPort(addr)
	if err != nil || !a.Addr().IsLoopback() || a.Port() == 0 || a.String() != addr {
		return fmt.Errorf("handshake: address %q; want %s", wire.Abridge(wire.Clean(addr), 80), addressForm)
	}
	return nil
}
