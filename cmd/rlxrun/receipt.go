package main

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/ctxio"
	"github.com/rlx-go/rlx/internal/maskfiles"
	"github.com/rlx-go/rlx/internal/receipt"
	"github.com/rlx-go/rlx/internal/regular"
	"github.com/rlx-go/rlx/internal/release"
)

// receiptFlags ask for a receipt of a run.
type receiptFlags struct {
	path, key string
	fs        *cli.FlagSet

	private ed25519.PrivateKey
	made    receipt.Receipt // without the results
}

func (f *receiptFlags) declare(fs *cli.FlagSet) {
	f.fs = fs
	fs.StringVar(&f.path, "receipt", "",
		"`FILE.json` write what the run read, what ran it and the digests of its results, prompts included; rlxrun verify-receipt repeats the run")
	fs.StringVar(&f.key, "receipt-key", "", "`FILE.pem` with --receipt: sign it with this Ed25519 key (PKCS #8)")
}

// unrecorded are the flags that do not change results, or that name files of no later use. Anybody may write a receipt,
// so it must neither name an executable nor weaken the sandbox: the user must give --plugin again.
var unrecorded = strings.Fields(`receipt receipt-key plugin trace dump-tensors log-protocol capsule profile stats check
	check-nan check-inf expect tolerance timeout step-timeout memory verify log sandbox strict format json quiet verbose
	help`)

// outputFlags are the flags that name files to write.
var outputFlags = []string{"output", "logits", "save-state"}

// stdinFlags are the flags whose value may be -, standard input.
var stdinFlags = []string{"image", "prompt", "prompt-file", "prompts-file", "json-schema", "grammar"}

// begin checks the flags, and takes the digests of all files that the run reads.
func (f *receiptFlags) begin(ctx context.Context, s *session, j job, sinks []sink) error {
	switch {
	case f.path == "" && f.key != "":
		return cli.Usagef("--receipt-key", "requires --receipt FILE")
	case f.path == "":
		return nil
	case f.path == "-":
		return cli.Usagef("--receipt -", "a receipt cannot go to stdout").WithHint("for example --receipt run.json")
	case s.files.from != "" && realPath(s.files.from) == realPath(s.files.to):
		return cli.Usagef("--receipt", "the run could not be repeated: --save-state overwrites the state that it reads")
	}
	s.fresh, s.outputs = true, append(s.outputs, f.path)
	var err error
	if f.private, err = readPrivateKey(f.key); err != nil {
		return err
	}
	build := release.Own()
	f.made = receipt.Receipt{Format: receipt.Format, Began: cli.Started().UTC(),
		Program: receipt.Program{Version: build.Version, Commit: build.Commit, OS: runtime.GOOS, Arch: runtime.GOARCH},
		Inputs:  []receipt.File{}, Flags: []receipt.Flag{}, Methods: []receipt.Method{}, Results: []receipt.Result{}}
	var stdin error
	f.fs.VisitAll(func(x *pflag.Flag) {
		if !x.Changed || slices.Contains(unrecorded, x.Name) {
			return
		}
		values := []string{x.Value.String()}
		if l, ok := x.Value.(*cli.List); ok {
			values = l.Values
		}
		for _, v := range values {
			if v == "-" && slices.Contains(stdinFlags, x.Name) {
				stdin = cli.Usagef("--receipt", "the run could not be repeated: --%s is standard input", x.Name).
					WithHint("name a file")
			}
			if x.Name == "output" && s.planPath != "" && v == planPrefix+s.planPath {
				continue // it contains times, and --profile is not recorded
			}
			f.made.Flags = append(f.made.Flags, receipt.Flag{Name: x.Name, Value: v})
		}
	})
	if stdin != nil {
		return stdin
	}
	if f.made.Artifact, err = digestFile(ctx, s.model.Path()); err != nil {
		return err
	}
	inputs := slices.Concat(j.inputs(), s.weights)
	if s.flags.lora != "" {
		adapter := []string{s.flags.lora}
		if isFolder(s.flags.lora) {
			adapter = []string{filepath.Join(s.flags.lora, "adapter_config.json"),
				filepath.Join(s.flags.lora, "adapter_model.safetensors")}
		}
		inputs = append(inputs, adapter...)
	}
	if s.files.from != "" {
		inputs = append(inputs, s.files.from)
	}
	for _, path := range inputs {
		file, err := digestFile(ctx, path)
		if err != nil {
			return err
		}
		f.made.Inputs = append(f.made.Inputs, file)
	}
	return nil
}

func isFolder(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// readPrivateKey reads the key of --receipt-key. It returns nil if the flag is not set.
func readPrivateKey(path string) (ed25519.PrivateKey, error) {
	if path == "" {
		return nil, nil
	}
	data, err := regular.ReadFile(path, receipt.MaxKey)
	if err != nil {
		return nil, diag.New(code.Receipt, path, "%w", err)
	}
	key, err := receipt.PrivateKey(data)
	if err != nil {
		return nil, diag.New(code.Receipt, path, "%w", err).
			WithHint("openssl genpkey -algorithm ed25519 -out key.pem makes one")
	}
	return key, nil
}

// digestFile returns the digest of a regular file.
func digestFile(ctx context.Context, path string) (receipt.File, error) {
	f, _, err := regular.Open(path)
	if err != nil {
		return receipt.File{}, diag.New(code.Receipt, path, "%w", err)
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, ctxio.NewReader(ctx, f))
	if ctx.Err() != nil {
		return receipt.File{}, context.Cause(ctx)
	}
	if err != nil {
		return receipt.File{}, diag.New(code.Receipt, path, "cannot be read: %w", unpath(err))
	}
	return receipt.File{Path: path, Bytes: n, SHA256: hex.EncodeToString(h.Sum(nil))}, nil
}

// counted is a digest that counts its bytes.
type counted struct {
	w io.Writer
	n int64
}

func (c *counted) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return c.w.Write(p)
}

func digestOf(name, path string, write func(io.Writer) error) (receipt.Result, error) {
	h := sha256.New()
	c := &counted{w: h}
	err := write(c)
	return receipt.Result{Name: name, Path: path, Bytes: c.n, SHA256: hex.EncodeToString(h.Sum(nil))}, err
}

// end writes the receipt, after the results were written.
func (f *receiptFlags) end(ctx context.Context, s *session, j job, sinks []sink, products map[string]product) error {
	if f.path == "" {
		return nil
	}
	r := &f.made
	r.MS = ms(time.Since(cli.Started()))
	r.Device = receipt.Device{Backend: s.backend.Name, Version: s.host.Backend().Version,
		Device: deviceName(s.backend.Name, s.host.Device()), Precision: s.host.Precision()}
	for _, x := range s.runs {
		i := slices.IndexFunc(r.Methods, func(m receipt.Method) bool { return m.Name == x.method })
		if i < 0 {
			i = len(r.Methods)
			r.Methods = append(r.Methods, receipt.Method{Name: x.method})
		}
		r.Methods[i].Runs++
		r.Methods[i].MS += ms(x.Duration)
	}
	if err := f.results(ctx, s, j, sinks, products); err != nil {
		return err
	}
	if f.private != nil {
		if err := r.Sign(f.private); err != nil {
			return err
		}
	}
	var w files
	defer w.abort()
	if err := w.add(ctx, f.path, r.Write); err != nil {
		return err
	}
	return w.commit()
}

// results takes the digests of all results.
func (f *receiptFlags) results(ctx context.Context, s *session, j job, sinks []sink,
	products map[string]product) error {
	r := &f.made
	if t, ok := j.(interface{ generated() []string }); ok {
		for _, text := range t.generated() {
			x, err := digestOf("text", "", func(w io.Writer) error { _, err := io.WriteString(w, text); return err })
			if err != nil {
				return err
			}
			r.Results = append(r.Results, x)
		}
	}
	file := func(name, path string) error {
		x, err := digestFile(ctx, path)
		r.Results = append(r.Results, receipt.Result{Name: name, Path: path, Bytes: x.Bytes, SHA256: x.SHA256})
		return err
	}
	for _, k := range sinks {
		if k.offer.folder {
			for _, path := range j.(interface{ wrote() []string }).wrote() {
				if err := file(k.offer.name, path); err != nil {
					return err
				}
			}
			continue
		}
		paths := k.paths()
		if k.dest == "-" {
			paths = []string{""}
		}
		for i, path := range paths {
			p := products[k.offer.name]
			x, err := digestOf(k.offer.name, path,
				p.writer(k.offer.name, i, strings.ToLower(filepath.Ext(path))))
			if err != nil {
				return err
			}
			r.Results = append(r.Results, x)
		}
	}
	if s.files.to != "" {
		return file("state", s.files.to)
	}
	return nil
}

// generated returns the generated text.
func (j *textJob) generated() []string {
	if j.text == nil || j.only {
		return nil
	}
	return []string{j.text.Text}
}

// generated returns the generated texts.
func (j *textBatchJob) generated() (out []string) {
	for _, t := range j.texts {
		out = append(out, t.Text)
	}
	return out
}

// wrote lists the files of the folder.
func (j *manyJob) wrote() (out []string) {
	for _, e := range j.ends {
		if r, ok := maskfiles.Done(e.dir, e.key); ok && e.State != "failed" {
			for _, name := range append(r.Files(), maskfiles.Name) {
				out = append(out, filepath.Join(e.dir, name))
			}
		}
	}
	return out
}

// wrote lists the files of the folder.
func (j *splatsJob) wrote() (out []string) {
	for k := range j.views {
		out = append(out, filepath.Join(j.dir, frameName(k)))
	}
	return append(out, filepath.Join(j.dir, "transforms.json"))
}
