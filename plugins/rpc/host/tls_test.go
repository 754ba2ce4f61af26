//go:build linux || darwin

package host

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rlx-go/rlx/plugins/rpc/internal/rpctest"
)

func init() {
	for _, mode := range []string{"tls-silent", "tls-plain", "tls-other", "tls-refuses", "tls-old"} {
		rpctest.Modes[mode] = func() { playTLS(mode) }
	}
}

// playTLS plays a backend that prints a valid handshake and then fails in TLS.
func playTLS(mode string) {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(os.Getenv("PLUGIN_CLIENT_CERT")))
	shown, err := newHostIdentity()
	if err != nil {
		panic(err)
	}
	used := shown
	if mode == "tls-other" {
		if used, err = newHostIdentity(); err != nil {
			panic(err)
		}
	}
	c := &tls.Config{Certificates: []tls.Certificate{used.cert}, ClientAuth: tls.RequireAndVerifyClientCert,
		ClientCAs: pool, NextProtos: []string{"h2"}}
	switch mode {
	case "tls-refuses": // like BoringSSL for a curve that it does not support
		c.ClientCAs = x509.NewCertPool()
	case "tls-old":
		c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	}
	path := filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		panic(err)
	}
	fmt.Printf("1|2|unix|%s|grpc|%s\n", path, base64.RawStdEncoding.EncodeToString(shown.cert.Certificate[0]))
	conn, err := l.Accept()
	if err != nil {
		panic(err)
	}
	if mode == "tls-plain" {
		conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	} else if err := tls.Server(conn, c).Handshake(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	io.Copy(io.Discard, conn)
	time.Sleep(time.Hour)
}

// TestHostIdentity checks the properties of the host's certificate that TLS libraries require: P-256, no CA, the name
// localhost, for client and server.
func TestHostIdentity(t *testing.T) {
	id, err := newHostIdentity()
	if err != nil {
		t.Fatal(err)
	}
	block, rest := pem.Decode([]byte(id.pem))
	if block == nil || len(rest) > 0 || block.Type != "CERTIFICATE" {
		t.Fatalf("PEM %q", id.pem)
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if key, ok := c.PublicKey.(*ecdsa.PublicKey); !ok || key.Curve != elliptic.P256() || c.IsCA ||
		c.VerifyHostname(serverName) != nil {
		t.Errorf("key %T, CA %v, names %v", c.PublicKey, c.IsCA, c.DNSNames)
	}
	pool := x509.NewCertPool()
	pool.AddCert(c)
	for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		if _, err := c.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{use}}); err != nil {
			t.Error(err)
		}
	}
}
