//go:build linux || darwin || windows

package host

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"
)

// serverName is the name of all backends in TLS and HTTP/2.
const serverName = "localhost"

// hostIdentity is the host's certificate for one session. go-plugin's own certificate uses P-521, which BoringSSL (gRPC
// for Python and C++) and rustls do not support.
type hostIdentity struct {
	cert tls.Certificate
	pem  string // the certificate without the key
}

// newHostIdentity creates a self-signed certificate. It is not a CA certificate, because rustls rejects these for a
// peer.
func newHostIdentity() (hostIdentity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return hostIdentity{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return hostIdentity{}, err
	}
	t := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: serverName}, DNSNames: []string{serverName},
		// sessions may be long, and clocks may be wrong
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(30, 0, 0),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return hostIdentity{}, err
	}
	return hostIdentity{tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))}, nil
}

// config returns a TLS configuration that accepts only the certificate from the backend's handshake. Names, dates and
// issuers are not checked, because they add nothing.
func (id hostIdentity) config(backend func() []byte) *tls.Config {
	return &tls.Config{
		Certificates:       []tls.Certificate{id.cert},
		MinVersion:         tls.VersionTLS12,
		ServerName:         serverName,
		InsecureSkipVerify: true, // replaced by VerifyConnection
		VerifyConnection: func(c tls.ConnectionState) error {
			if len(c.PeerCertificates) == 0 || !bytes.Equal(c.PeerCertificates[0].Raw, backend()) {
				return errors.New("its certificate is not the one in its handshake")
			}
			return nil
		},
	}
}

// watchedTLS records why a TLS handshake failed, because gRPC reports only that there is no connection.
type watchedTLS struct {
	credentials.TransportCredentials
	failed func(error)
	done   func()
}

func (w *watchedTLS) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (
	net.Conn, credentials.AuthInfo, error) {
	conn, info, err := w.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		w.failed(err)
		return nil, nil, err
	}
	w.done()
	return &alertConn{Conn: conn, failed: w.failed}, info, nil
}

func (w *watchedTLS) Clone() credentials.TransportCredentials {
	return &watchedTLS{w.TransportCredentials.Clone(), w.failed, w.done}
}

// alertConn records TLS alerts of the other side. In TLS 1.3 a server may reject the client's certificate after the
// client has completed the handshake.
type alertConn struct {
	net.Conn
	failed func(error)
}

func (c *alertConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "remote error" {
		c.failed(err)
	}
	return n, err
}

// tlsFailure returns the error that tlsFailed recorded, or nil.
func (r *backendRunner) tlsFailure() *diag.Error { return r.tlsFault.Load() }

// tlsFailed records why a TLS handshake failed.
func (r *backendRunner) tlsFailed(err error) {
	hint := "see the table about TLS in section 3 of spec/protocol.md"
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "remote error" {
		hint = "the backend rejected the host's certificate (ECDSA on P-256, in PLUGIN_CLIENT_CERT)"
	}
	e := lost(code.Handshake, r.name, "its TLS handshake failed: %w", fmt.Errorf("%s", wire.Clean(err.Error())))
	r.tlsFault.CompareAndSwap(nil, e.WithHint("%s", hint))
}
