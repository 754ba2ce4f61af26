package host

import "net"

// checkPeer does nothing: only this user can access the socket's directory, and TLS authenticates the process.
func checkPeer(net.Conn) error { return nil }
