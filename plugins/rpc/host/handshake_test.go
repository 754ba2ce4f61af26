//go:build linux || darwin

package host

import (
	"bytes"
	"encoding/base64"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/internal/campaign"
	"github.com/rlx-go/rlx/plugins/rpc/internal/rpctest"
	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"
)

func TestHandshake(t *testing.T) {
	cert := rpctest.Certificate()
	good := "1|2|unix|/run/d/plugin-dir1/s|grpc|" + cert
	h, err := parseHandshake(good+"\n", "/run/d", []int{wire.Version})
	if err != nil || h.socket != "/run/d/plugin-dir1/s" || h.version != wire.Version ||
		h.line() != "1|2|unix|/run/d/plugin-dir1/s|grpc\n" {
		t.Fatalf("%+v %v", h, err)
	}
	for _, bad := range []string{
		"", "|", "1|2|unix|/run/d/s|grpc", good + "|true", strings.Replace(good, "1|2", "2|2", 1),
		strings.Replace(good, "1|2", "1|x", 1),
		strings.Replace(good, "1|2", "1|3", 1), strings.Replace(good, "unix", "tcp", 1),
		strings.Replace(good, "unix|/", "unix|", 1),
		"1|2|unix|/run/d|grpc|" + cert, "1|2|unix|/run/d/../e/s|grpc|" + cert, "1|2|unix|/run/d/./s|grpc|" + cert,
		"1|2|unix|/run/dd/s|grpc|" + cert, "1|2|unix|/run/d/s|netrpc|" + cert, "1|2|unix|/run/d/s|grpc|",
		"1|2|unix|/run/d/s|grpc|" + cert[:60], "1|2|unix|/run/d/s|grpc|" + strings.Repeat("A", 60),
		good + strings.Repeat(" ", wire.MaxLine),
	} {
		if _, err := parseHandshake(bad, "/run/d", []int{wire.Version}); err == nil {
			t.Errorf("accepted %q", bad)
		}
	}
}

// FuzzHandshake checks that the socket of an accepted handshake is in the directory, and that formatting and parsing
// the handshake again does not change it.
func FuzzHandshake(t *testing.F) {
	f := campaign.New(t)
	cert := rpctest.Certificate()
	f.Add("1|2|unix|/run/d/plugin-dir1/s|grpc|" + cert)
	f.Add("1|2|tcp|127.0.0.1:80|grpc|" + cert)
	f.Add("hello")
	f.Fuzz(func(t testing.TB, line string) {
		h, err := parseHandshake(line, "/run/d", []int{wire.Version})
		if err != nil {
			if strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' }) {
				t.Fatalf("%q has control characters", err)
			}
			return
		}
		if !strings.HasPrefix(h.socket, "/run/d/") || strings.Contains(h.socket, "..") &&
			filepath.Clean(h.socket) != h.socket {
			t.Fatalf("socket %q", h.socket)
		}
		again, err := parseHandshake(strings.TrimSpace(h.line())+"|"+base64.RawStdEncoding.EncodeToString(h.cert),
			"/run/d", []int{wire.Version})
		if err != nil || again.socket != h.socket || again.version != h.version || !bytes.Equal(again.cert, h.cert) {
			t.Fatalf("%+v became %+v, %v", h, again, err)
		}
	})
}
