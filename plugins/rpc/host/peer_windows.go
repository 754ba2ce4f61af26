package host

import "net"

// checkPeer does nothing: TLS authenticates the process behind the address.
func checkPeer(net.Conn) error { return nil }
