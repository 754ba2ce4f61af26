package main

import (
	"context"
	"crypto/tls"
	"net"
	"path/filepath"
	"strings"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/localpage"
	"github.com/rlx-go/rlx/internal/openai"
	"github.com/rlx-go/rlx/internal/regular"
	"github.com/rlx-go/rlx/task"
)

// apiFlags are the flags of `rlxrun serve` for language models.
type apiFlags struct {
	fs                *cli.FlagSet
	listen, name      string
	keyFile           string
	cert, certKey     string
	parallel, waiting int
}

// apiFlagNames lists them.
var apiFlagNames = []string{"listen", "name", "key-file", "tls-cert", "tls-key", "parallel", "queue"}

func (f *apiFlags) declare(fs *cli.FlagSet) {
	f.fs = fs
	fs.Group("The API (artifacts that declare the task " + task.KindText + ")")
	fs.StringVar(&f.listen, "listen", "",
		"`HOST:PORT` where to listen, in place of 127.0.0.1 and --port; other machines need a --key-file")
	fs.StringVar(&f.keyFile, "key-file", "", "`FILE` with a key that requests must have: Authorization: Bearer KEY")
	fs.StringVar(&f.cert, "tls-cert", "", "`FILE` a certificate in PEM, for https")
	fs.StringVar(&f.certKey, "tls-key", "", "`FILE` the certificate's private key in PEM")
	fs.StringVar(&f.name, "name", "", "`NAME` of the model in answers (default the file's)")
	fs.IntVar(&f.parallel, "parallel", 4, "`N` texts in progress at a time; each has a cache of its own")
	fs.IntVar(&f.waiting, "queue", 64, "`N` requests that may wait; others are refused with status 429")
}

// given lists the flags that were used.
func (f *apiFlags) given() (out []string) {
	for _, name := range apiFlagNames {
		if f.fs != nil && f.fs.Changed(name) {
			out = append(out, "--"+name)
		}
	}
	return out
}

func (f *apiFlags) settle(all *serveFlags) error {
	switch {
	case f.parallel < 1 || f.parallel > 1024:
		return cli.Usagef("--parallel", "is %d; allowed are 1 to 1024", f.parallel)
	case f.waiting < 0 || f.waiting > 1<<20:
		return cli.Usagef("--queue", "is %d; allowed are 0 to %d", f.waiting, 1<<20)
	case (f.cert == "") != (f.certKey == ""):
		return cli.Usagef("--tls-cert", "and --tls-key go together")
	case f.listen == "":
		return nil
	case all.port != 0:
		return cli.Usagef("--port", "cannot be combined with --listen, which has a port")
	}
	if _, _, err := net.SplitHostPort(f.listen); err != nil {
		return cli.Usagef("--listen", "%q is not HOST:PORT", f.listen)
	}
	if f.keyFile == "" && !localpage.IsLocal(f.listen) {
		return cli.Usagef("--listen", "%s lets other machines in, which needs a key", f.listen).WithHint(
			"put a long random word in a file and name it with --key-file")
	}
	return nil
}

// Bounds of the files of --key-file, --tls-cert and --tls-key in bytes.
const (
	maxKey = 4096
	maxPEM = 1 << 20
)

func (f *apiFlags) key() (string, error) {
	if f.keyFile == "" {
		return "", nil
	}
	b, err := regular.ReadFile(f.keyFile, maxKey)
	if err != nil {
		return "", diag.New(diag.Usage, f.keyFile, "cannot be read: %w", unpath(err))
	}
	key := strings.TrimSpace(string(b))
	if key == "" || strings.ContainsAny(key, " \t\r\n") {
		return "", cli.Usagef("--key-file", "%s does not hold one word", f.keyFile)
	}
	return key, nil
}

// secure wraps a listener for https.
func (f *apiFlags) secure(l net.Listener) (net.Listener, string, error) {
	if f.cert == "" {
		return l, "http", nil
	}
	var pem [2][]byte
	for i, path := range []string{f.cert, f.certKey} {
		var err error
		if pem[i], err = regular.ReadFile(path, maxPEM); err != nil {
			return nil, "", diag.New(diag.Usage, path, "cannot be read: %w", unpath(err))
		}
	}
	pair, err := tls.X509KeyPair(pem[0], pem[1])
	if err != nil {
		return nil, "", cli.Usagef("--tls-cert", "cannot be used: %w", err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	return tls.NewListener(l, config), "https", nil
}

// serveText serves a language model until ctx ends.
func (s *session) serveText(ctx context.Context, f *serveFlags, t *task.Text, listener net.Listener) error {
	key, err := f.api.key()
	if err != nil {
		return err
	}
	listener, scheme, err := f.api.secure(listener)
	if err != nil {
		return err
	}
	method, err := s.model.Method(t.Method)
	if err != nil {
		return err
	}
	if err := s.readyToServe(ctx, []*rlx.Method{method}); err != nil {
		return err
	}
	o := openai.Options{Model: f.api.name, Key: key, Local: key == "", Log: s.env.Stderr}
	if o.Model == "" {
		o.Model = strings.TrimSuffix(filepath.Base(s.model.Path()), ".rlx")
	}
	server := openai.New(s.model, openai.NewEngine(s.reopen, f.api.parallel, f.api.waiting), o)
	url := scheme + "://" + listener.Addr().String() + "/v1"
	if err := s.announce(url, "the base URL for clients of OpenAI's API; Ctrl-C ends the server"); err != nil {
		return err
	}
	err = server.Serve(ctx, listener)
	if cli.AskedToStop(ctx) {
		return nil
	}
	return err
}

// reopen returns the session, or another one if its backend is lost.
func (s *session) reopen(ctx context.Context) (*rlx.Session, error) {
	why := s.host.Err()
	if why == nil {
		return s.host, nil
	}
	return s.host, s.renew(ctx, why)
}
