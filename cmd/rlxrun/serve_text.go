package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/api"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/localpage"
	"github.com/rlx-go/rlx/internal/openai"
	"github.com/rlx-go/rlx/internal/regular"
	"github.com/rlx-go/rlx/internal/units"
	"github.com/rlx-go/rlx/task"
)

// apiFlags are the flags of `rlxrun serve` for programs.
type apiFlags struct {
	fs                *cli.FlagSet
	api               bool
	listen, grpc      string
	name              string
	keyFile           string
	cert, certKey     string
	parallel, waiting int
	client, budget    int
	clientTokens      int
	tokens            *openai.Tokens // by clientTokens, for all models
	alike             bool
	encodings         string
	kept              int64 // bytes, by encodings
	log               string
	drain             time.Duration
}

// apiFlagNames lists them.
var apiFlagNames = []string{"api", "listen", "grpc", "name", "key-file", "tls-cert", "tls-key", "parallel", "queue",
	"client-requests", "client-tokens", "prompt-tokens", "reproducible", "keep-encodings", "access-log",
	"drain"}

func (f *apiFlags) declare(fs *cli.FlagSet) {
	f.fs = fs
	fs.Group("The APIs (language models, several files, and others with --api)")
	fs.BoolVar(&f.api, "api", false, "serve programs, and not a page in your browser")
	fs.StringVar(&f.listen, "listen", "",
		"`HOST:PORT` where to listen, in place of 127.0.0.1 and --port. Other machines can then use a page by its address, which has a token; the APIs need a --key-file")
	fs.StringVar(&f.grpc, "grpc", "",
		"`HOST:PORT` where to serve the Open Inference Protocol over gRPC, too (default nowhere)")
	fs.StringVar(&f.keyFile, "key-file", "",
		"`FILE` with keys, of which requests must have one (Authorization: Bearer KEY): KEY [CLIENT] in each line")
	fs.StringVar(&f.cert, "tls-cert", "", "`FILE` a certificate in PEM, for https")
	fs.StringVar(&f.certKey, "tls-key", "", "`FILE` the certificate's private key in PEM")
	fs.StringVar(&f.name, "name", "", "`NAME` of the model in answers (default the file's)")
	fs.IntVar(&f.parallel, "parallel", 0,
		"`N` texts in progress at a time (default as many as rlxc --batch; 4 for an artifact without it)")
	fs.IntVar(&f.waiting, "queue", 64, "`N` requests that may wait; others are refused with status 429")
	fs.IntVar(&f.client, "client-requests", 0,
		"`N` texts of a client in progress or waiting; others are refused with status 429 (default any number)")
	fs.IntVar(&f.clientTokens, "client-tokens", 0,
		"`N` tokens of a client in a minute, computed or generated; more requests are refused with status 429 (default any number)")
	fs.IntVar(&f.budget, "prompt-tokens", 0,
		"`N` tokens of prompts between two tokens of the texts in progress (default 128)")
	fs.BoolVar(&f.alike, "reproducible", false,
		"the same seed gives the same text, bit for bit, whatever other texts are in progress, and prompts for masks share no runs; slower for few clients")
	fs.StringVar(&f.encodings, "keep-encodings", "256Mi",
		"`SIZE` of memory for encodings of images, which are kept for requests with the same image; 0 keeps none")
	fs.StringVar(&f.log, "access-log", "off", "`FORMAT` of a line for each request on standard error: off, text or json")
	fs.DurationVar(&f.drain, "drain", api.DrainTime,
		"`TIME` that answers in progress may take after SIGTERM or Ctrl-C; others are refused with status 503")
}

// pageFlagNames lists those that pages have, too.
var pageFlagNames = []string{"listen", "tls-cert", "tls-key"}

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
	case f.parallel < 0 || f.parallel > 1024 || f.parallel == 0 && f.fs.Changed("parallel"):
		return cli.Usagef("--parallel", "is %d; allowed are 1 to 1024", f.parallel)
	case f.client < 0 || f.client > 1<<20:
		return cli.Usagef("--client-requests", "is %d; allowed are 0 (any number) to %d", f.client, 1<<20)
	case f.clientTokens < 0 || f.clientTokens > 1<<30:
		return cli.Usagef("--client-tokens", "is %d; allowed are 0 (any number) to %d", f.clientTokens, 1<<30)
	case f.budget < 0 || f.budget > 1<<20:
		return cli.Usagef("--prompt-tokens", "is %d; allowed are 0 (the default) to %d", f.budget, 1<<20)
	case !slices.Contains([]string{"off", "text", "json"}, f.log):
		return cli.Usagef("--access-log", "is %q; allowed are off, text and json", f.log)
	case f.drain <= 0:
		return cli.Usagef("--drain", "is %v; want a time such as 10s", f.drain)
	case f.waiting < 0 || f.waiting > 1<<20:
		return cli.Usagef("--queue", "is %d; allowed are 0 to %d", f.waiting, 1<<20)
	case (f.cert == "") != (f.certKey == ""):
		return cli.Usagef("--tls-cert", "needs --tls-key, and --tls-key needs --tls-cert; one of them is missing")
	case f.listen != "" && all.port != 0:
		return cli.Usagef("--port", "cannot be combined with --listen, which has a port")
	}
	var ok bool
	if f.kept, ok = units.ParseBytes(f.encodings); !ok && f.encodings != "0" {
		return cli.Usagef("--keep-encodings", "%s is not a size such as 300M, 1.5G or 2Gi", f.encodings)
	}
	if f.clientTokens > 0 {
		f.tokens = openai.NewTokens(f.clientTokens)
	}
	for _, flag := range []struct{ name, address string }{{"--listen", f.listen}, {"--grpc", f.grpc}} {
		if _, _, err := net.SplitHostPort(flag.address); flag.address != "" && err != nil {
			return cli.Usagef(flag.name, "%q is not HOST:PORT", flag.address)
		}
	}
	return f.checkKey("--grpc", f.grpc)
}

// checkKey refuses to let other machines in without a key.
func (f *apiFlags) checkKey(flag, address string) error {
	if address != "" && f.keyFile == "" && !localpage.IsLocal(address) {
		return cli.Usagef(flag, "%s lets other machines in, which needs a key", address).WithHint(
			"put a long random word in a file and name it with --key-file")
	}
	return nil
}

// Bounds of the files of --key-file, --tls-cert and --tls-key in bytes.
const (
	maxKey = 1 << 20
	maxPEM = 1 << 20
)

// keys returns the keys of --key-file, and for each the name of its client.
func (f *apiFlags) keys() (map[string]string, error) {
	if f.keyFile == "" {
		return nil, nil
	}
	b, err := regular.ReadFile(f.keyFile, maxKey)
	if err != nil {
		return nil, diag.New(diag.Usage, f.keyFile, "cannot be read: %w", unpath(err))
	}
	out, i := map[string]string{}, 0
	for line := range strings.Lines(string(b)) {
		i++
		switch words := strings.Fields(line); len(words) {
		case 0:
		case 1:
			out[words[0]] = fmt.Sprint("key ", i) // a key must not get into a log
		case 2:
			out[words[0]] = words[1]
		default:
			return nil, cli.Usagef("--key-file", "line %d of %s has %d words; want a key, or a key and the name of its client",
				i, f.keyFile, len(words))
		}
	}
	if len(out) == 0 {
		return nil, cli.Usagef("--key-file", "%s holds no key", f.keyFile)
	}
	return out, nil
}

// logger returns the log of requests.
func (f *apiFlags) logger(w io.Writer) *slog.Logger {
	switch f.log {
	case "json":
		return slog.New(slog.NewJSONHandler(w, nil))
	case "text":
		return slog.New(slog.NewTextHandler(w, nil))
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// tls returns the configuration for https, or nil.
func (f *apiFlags) tls() (*tls.Config, error) {
	if f.cert == "" {
		return nil, nil
	}
	var pem [2][]byte
	for i, path := range []string{f.cert, f.certKey} {
		var err error
		if pem[i], err = regular.ReadFile(path, maxPEM); err != nil {
			return nil, diag.New(diag.Usage, path, "cannot be read: %w", unpath(err))
		}
	}
	pair, err := tls.X509KeyPair(pem[0], pem[1])
	if err != nil {
		return nil, cli.Usagef("--tls-cert", "cannot be used: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

// secure wraps a listener if --tls-cert is given, and returns the scheme of its addresses.
func (f *apiFlags) secure(l net.Listener) (net.Listener, string, error) {
	config, err := f.tls()
	if err != nil || config == nil {
		return l, "http", err
	}
	return tls.NewListener(l, config), "https", nil
}

// engineOf returns the engine of a language model, and the method that it runs.
func (f *apiFlags) engineOf(s *session, t *task.Text, label string) (*openai.Engine, *rlx.Method, error) {
	name := t.Method
	if t.Batch.Sequence != "" || t.Batch.Pages != "" {
		name = t.Batch.Method
	} else if f.alike {
		return nil, nil, cli.Usagef("--reproducible",
			"is for artifacts that were compiled with rlxc --batch N; texts of others do not share runs")
	}
	method, err := s.model.Method(name)
	if err != nil {
		return nil, nil, err
	}
	engine, err := openai.NewEngine(s.model, s.reopen, openai.Limits{Parallel: f.parallel, Waiting: f.waiting,
		PerClient: f.client, Budget: f.budget, Alike: f.alike, Label: label,
		Tokens: f.tokens})
	return engine, method, err
}
