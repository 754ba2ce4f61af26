package host

import (
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"
)

// handshake holds the fields of the line that a backend prints to stdout: core|version|network|socket|grpc|certificate
type handshake struct {
	version int
	socket  string // absolute and clean; on Windows an address and a port
	cert    []byte // DER of the backend's certificate
}

// exampleLine shows the form of the line in messages.
var exampleLine = fmt.Sprintf("1|%d|%s|SOCKET|grpc|CERTIFICATE", wire.Version, network)

// coreVersion is go-plugin's own protocol number, the first field of the line.
const coreVersion = 1

// versionMismatch is the error of parseHandshake for a well-formed line with a protocol version that the host does not
// support.
type versionMismatch struct{ got int }

func (e versionMismatch) Error() string { return fmt.Sprintf("speaks protocol version %d", e.got) }

// parseHandshake parses and checks the line before go-plugin reads it. go-plugin would dial any address, accept
// net/rpc, and connect without a certificate. parseHandshake accepts only gRPC with a TLS certificate on a unix socket
// inside dir, or on Windows on a port of this machine.
func parseHandshake(line, dir string, versions []int) (handshake, error) {
	var h handshake
	if len(line) > wire.MaxLine {
		return h, fmt.Errorf("its first line has %d bytes; a handshake may have at most %d", len(line), wire.MaxLine)
	}
	f := strings.Split(strings.TrimSpace(line), "|")
	if len(f) != 6 {
		return h, fmt.Errorf("its first line is %q; want the 6 fields of a handshake such as %s; found: %d",
			wire.Abridge(wire.Clean(line), 80), exampleLine, len(f))
	}
	core, err := strconv.Atoi(f[0])
	if err != nil || core != coreVersion {
		return h, fmt.Errorf("handshake: core protocol %q; want %d", wire.Abridge(wire.Clean(f[0]), 20), coreVersion)
	}
	if h.version, err = strconv.Atoi(f[1]); err != nil {
		return h, fmt.Errorf("handshake: protocol version %q is not a number", wire.Abridge(wire.Clean(f[1]), 20))
	}
	if !slices.Contains(versions, h.version) {
		return h, versionMismatch{h.version}
	}
	if f[2] != network {
		return h, fmt.Errorf("handshake: address %q %q; want %s", wire.Abridge(wire.Clean(f[2]), 20),
			wire.Abridge(wire.Clean(f[3]), 80), addressForm)
	}
	h.socket = f[3]
	if err := checkAddress(h.socket, dir); err != nil {
		return h, err
	}
	if f[4] != "grpc" {
		return h, fmt.Errorf("handshake: transport %q; want grpc", wire.Abridge(wire.Clean(f[4]), 20))
	}
	if h.cert, err = base64.RawStdEncoding.DecodeString(f[5]); err == nil {
		_, err = x509.ParseCertificate(h.cert)
	}
	if err != nil || len(h.cert) == 0 {
		return h, fmt.Errorf("handshake: the certificate is missing or malformed; want DER in base64 without padding")
	}
	return h, nil
}

// line returns the handshake to pass on to go-plugin. It has no certificate, because this package sets up TLS itself.
func (h handshake) line() string {
	return fmt.Sprintf("%d|%d|%s|%s|grpc\n", coreVersion, h.version, network, h.socket)
}
