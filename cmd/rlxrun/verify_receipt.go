package main

import (
	"context"
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/imaging"
	"github.com/rlx-go/rlx/internal/npy"
	"github.com/rlx-go/rlx/internal/receipt"
	"github.com/rlx-go/rlx/internal/regular"
	"github.com/rlx-go/rlx/internal/values"
)

// verifyReceiptFlags are the flags of `rlxrun verify-receipt`.
type verifyReceiptFlags struct {
	key, backend, device string
	plugins              cli.List
	tolerance            float64
}

// defaultReceiptTolerance is how far a tensor from another device may be from that of the receipt, relative to its
// largest element.
const defaultReceiptTolerance = 1e-3

// sameMask is the least IoU of two pictures of the same mask, or the least share of equal pixels of other pictures.
const sameMask = 0.99

func verifyReceiptCommand() *cli.Command {
	return &cli.Command{
		Name: "verify-receipt", Args: "FILE [PATH...] [flags]", Short: "repeat a run and compare it with its receipt",
		Long: `Checks the signature of a receipt, which --receipt wrote, and the digests of the artifact and of the inputs, repeats the run, and compares the
results. PATHs are files that lie elsewhere now: they are recognised by their digests. On the same device the results must be the same, byte by byte. On another
one they may differ a little: those whose files still lie where the receipt says are compared with these files.`,
		Examples: []cli.Example{
			{About: "a receipt of a run, and the run again",
				Line: "rlxrun sam.rlx --image photo.jpg --point 120,80 -o mask.png --receipt run.json"},
			{About: "on the same machine", Line: "rlxrun verify-receipt run.json"},
			{About: "elsewhere, and signed by a key that you know",
				Line: "rlxrun verify-receipt run.json models/sam.rlx pictures/photo.jpg --key their.pem"},
		},
		Setup: func(fs *cli.FlagSet) cli.Run {
			var f verifyReceiptFlags
			fs.StringVar(&f.key, "key", "",
				"`FILE.pem` the receipt must be signed with this Ed25519 key, of which this is the public half")
			fs.StringVarP(&f.backend, "backend", "b", "",
				"`NAME` repeat the run on this backend (default that of the receipt)")
			fs.StringVar(&f.device, "device", "", "`[BACKEND:]ID` the device (default that of the receipt's flags)")
			fs.ListVarP(&f.plugins, "plugin", "", "`NAME=PATH` use this executable as backend NAME (repeatable)")
			fs.Float64Var(&f.tolerance, "tolerance", defaultReceiptTolerance,
				"`REL` on another device: allow this times the largest element of a tensor")
			return func(ctx context.Context, env *cli.Env, args []string) error {
				if len(args) == 0 {
					return cli.Usagef("FILE", "is missing: name a receipt")
				}
				return f.verify(ctx, env, args[0], args[1:])
			}
		},
	}
}

// readReceipt reads a receipt and checks its signature. key is the file of --key, or empty.
func readReceipt(path, key string) (r *receipt.Receipt, signed string, err error) {
	bad := func(err error) error { return diag.New(code.Receipt, path, "%w", err) }
	data, err := regular.ReadFile(path, receipt.Max)
	if err != nil {
		return nil, "", bad(err)
	}
	if r, err = receipt.Parse(data); err != nil {
		return nil, "", bad(err)
	}
	if key == "" && r.Signature == nil {
		return r, "not signed", nil
	}
	by, err := r.Verify()
	if err != nil {
		return nil, "", bad(err)
	}
	if key == "" {
		return r, "signed by " + receipt.Fingerprint(by) + "; --key checks whose key this is", nil
	}
	data, err = regular.ReadFile(key, receipt.MaxKey)
	if err != nil {
		return nil, "", diag.New(code.Receipt, key, "%w", err)
	}
	want, err := receipt.PublicKey(data)
	if err != nil {
		return nil, "", diag.New(code.Receipt, key, "%w", err).WithHint("openssl pkey -in key.pem -pubout makes one")
	}
	if !want.Equal(by) {
		return nil, "", bad(fmt.Errorf("is signed by %s; the key of %s is %s", receipt.Fingerprint(by), key,
			receipt.Fingerprint(want)))
	}
	return r, "signed with the key of " + key, nil
}

// receiptVerdict is the verdict on a result.
type receiptVerdict struct {
	Name  string `json:"name"`
	Path  string `json:"path,omitempty"`
	Equal bool   `json:"equal"` // the digests are the same
	About string `json:"about,omitempty"`
}

func (f *verifyReceiptFlags) verify(ctx context.Context, env *cli.Env, path string, given []string) error {
	old, signed, err := readReceipt(path, f.key)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "rlx-receipt")
	if err != nil {
		return diag.New(code.OfWrite(err), "the results of the run", "cannot be written: %w", unpath(err))
	}
	defer os.RemoveAll(dir)
	found, err := locateFiles(ctx, old, given, dir)
	if err != nil {
		return err
	}
	made, err := f.repeat(ctx, env, old, found, dir)
	if err != nil {
		return err
	}
	same := made.Device == old.Device
	if !env.JSON {
		env.Notef("%s: %s", path, signed)
		if made.Program.Version != old.Program.Version {
			env.Notef("the run was made by version %s; this is %s", old.Program.Version, made.Program.Version)
		}
		if !same {
			env.Notef("another device: the run was made by %s, and repeated by %s", old.Device, made.Device)
		}
	}
	list, err := f.compare(ctx, old, made, same)
	if err == nil && env.JSON {
		return env.WriteJSON(map[string]any{"signature": signed, "same_device": same, "results": list})
	}
	if err == nil {
		equal := len(slices.DeleteFunc(slices.Clone(list), func(c receiptVerdict) bool { return !c.Equal }))
		for _, c := range list {
			if !c.Equal {
				env.Notef("%s", c.About)
			}
		}
		fmt.Fprintf(env.Stdout, "%s of %s: the same bytes; %d within tolerances\n", strconv.Itoa(equal),
			cli.Count(len(list), "result", "results"), len(list)-equal)
	}
	return err
}

// locateFiles returns where the files of a receipt are: the artifact first, then the inputs. If a file now has another
// name, dir gets a link to it with the old name, because results may contain that name.
func locateFiles(ctx context.Context, r *receipt.Receipt, given []string, dir string) (found []string, err error) {
	have := map[string]string{} // by digest
	used := map[string]bool{}
	for _, path := range given {
		x, err := digestFile(ctx, path)
		if err != nil {
			return nil, err
		}
		have[x.SHA256] = path
	}
	for i, want := range append([]receipt.File{r.Artifact}, r.Inputs...) {
		path, ok := have[want.SHA256]
		used[want.SHA256] = true
		if !ok {
			path = want.Path
			x, err := digestFile(ctx, path)
			if err != nil {
				if e, ok := errors.AsType[*diag.Error](err); ok {
					err = e.WithHint("name the file after the receipt")
				}
				return nil, err
			}
			if x.SHA256 != want.SHA256 {
				return nil, diag.New(code.Receipt, path,
					"is not the file of the run: its SHA-256 is %s; that of the receipt is %s", x.SHA256, want.SHA256).
					WithHint("name the right file after the receipt")
			}
		}
		if name := filepath.Base(want.Path); filepath.Base(path) != name {
			if path, err = linked(path, filepath.Join(dir, "in"+strconv.Itoa(i)), name); err != nil {
				return nil, err
			}
		}
		found = append(found, path)
	}
	for digest, path := range have {
		if !used[digest] {
			return nil, cli.Usagef(path, "is not a file of the run: no digest in the receipt is %s", digest)
		}
	}
	return found, nil
}

func linked(path, dir, name string) (string, error) {
	target, err := filepath.Abs(path)
	if err == nil {
		err = errors.Join(os.Mkdir(dir, 0o777), os.Symlink(target, filepath.Join(dir, name)))
	}
	if err != nil {
		return "", diag.New(code.OfWrite(err), path, "cannot get the name that it had, %s: %w", name, unpath(err))
	}
	return filepath.Join(dir, name), nil
}

// repeat runs the command of a receipt again, with its results in dir, and returns the receipt of that run.
func (f *verifyReceiptFlags) repeat(ctx context.Context, env *cli.Env, old *receipt.Receipt, found []string,
	dir string) (*receipt.Receipt, error) {
	again := filepath.Join(dir, "receipt.json")
	flags, err := f.flags(old, found, dir)
	if err != nil {
		return nil, err
	}
	fs := &cli.FlagSet{FlagSet: pflag.NewFlagSet("run", pflag.ContinueOnError)}
	run := runCommand().Setup(fs)
	for _, x := range append(flags, receipt.Flag{Name: "receipt", Value: again}) {
		if fs.Lookup(x.Name) == nil {
			return nil, diag.New(code.Receipt, "flag --"+x.Name, "is not known to this version")
		}
		if err := fs.Set(x.Name, x.Value); err != nil {
			return nil, diag.New(code.Receipt, "flag --"+x.Name, "has the value %q, which is not allowed: %w", x.Value,
				err)
		}
	}
	quiet := *env
	quiet.Quiet, quiet.JSON, quiet.Verbose = true, false, false
	if err := run(ctx, quiet.Into(ctx, io.Discard), found[:1]); err != nil {
		return nil, err
	}
	made, _, err := readReceipt(again, "")
	return made, err
}

// flags returns the flags that repeat a run: files where they are now, results in dir, and the backend and precision
// of the run unless others are asked for.
func (f *verifyReceiptFlags) flags(old *receipt.Receipt, found []string, dir string) (out []receipt.Flag, err error) {
	given := map[string]bool{}
	for i, x := range old.Flags {
		if (x.Name == "backend" || x.Name == "device") && f.backend+f.device != "" ||
			x.Name == "backend" && x.Value == autoBackend {
			continue
		}
		if slices.Contains(unrecorded, x.Name) {
			return nil, diag.New(code.Receipt, "flag --"+x.Name, "does not belong in a receipt")
		}
		given[x.Name] = true
		if slices.Contains(outputFlags, x.Name) {
			if x.Value, err = redirect(x.Value, filepath.Join(dir, "out"+strconv.Itoa(i))); err != nil {
				return nil, err
			}
		} else if slices.Contains(stdinFlags, x.Name) && x.Value == "-" {
			return nil, diag.New(code.Receipt, "flag --"+x.Name, "is standard input, which a receipt cannot repeat")
		} else {
			for k, file := range append([]receipt.File{old.Artifact}, old.Inputs...) {
				x.Value = moved(x.Value, file.Path, found[k])
			}
		}
		out = append(out, x)
	}
	for _, x := range []receipt.Flag{{Name: "backend", Value: f.backend}, {Name: "device", Value: f.device}} {
		if x.Value != "" {
			out = append(out, x)
		}
	}
	if f.backend+f.device == "" && !given["backend"] && !given["device"] {
		out = append(out, receipt.Flag{Name: "backend", Value: old.Device.Backend})
	}
	if !given["precision"] {
		out = append(out, receipt.Flag{Name: "precision", Value: old.Device.Precision})
	}
	for _, p := range f.plugins.Values {
		out = append(out, receipt.Flag{Name: "plugin", Value: p})
	}
	return out, nil
}

// redirect returns the value of -o with the file in a new folder.
func redirect(value, folder string) (string, error) {
	name, dest, ok := strings.Cut(value, "=")
	if !ok {
		name, dest = "", value
	} else {
		name += "="
	}
	if dest == "-" {
		return value, nil
	}
	if err := os.Mkdir(folder, 0o777); err != nil {
		return "", diag.New(code.OfWrite(err), folder, "cannot be made: %w", unpath(err))
	}
	return name + filepath.Join(folder, filepath.Base(dest)), nil
}

// moved returns the value of a flag that names a file, with the path where it is now. The value may be more than the
// path: x=@FILE, x=@FILE:NAME.
func moved(value, was, is string) string {
	before, rest, ok := strings.Cut(value, "@"+was)
	switch {
	case value == was:
		return is
	case ok && strings.HasSuffix(before, "=") && (rest == "" || rest[0] == ':'):
		return before + "@" + is + rest
	}
	return value
}

// compare compares the results of two runs.
func (f *verifyReceiptFlags) compare(ctx context.Context, old, made *receipt.Receipt, same bool) (list []receiptVerdict,
	err error) {
	name := func(r receipt.Result) string { return r.Name + "\x00" + filepath.Base(r.Path) }
	for i := range max(len(old.Results), len(made.Results)) {
		if i >= len(old.Results) || i >= len(made.Results) || name(old.Results[i]) != name(made.Results[i]) {
			return nil, diag.New(code.ReceiptDiffers, "the run", "makes %s; the receipt has %s", resultNames(made),
				resultNames(old))
		}
		was, is := old.Results[i], made.Results[i]
		c := receiptVerdict{Name: was.Name, Path: was.Path, Equal: was.SHA256 == is.SHA256}
		if !c.Equal {
			subject := strings.TrimSpace(was.Name + " " + was.Path)
			if same {
				return nil, diag.New(code.ReceiptDiffers, subject,
					"differs: the SHA-256 is %s; that of the receipt is %s", is.SHA256, was.SHA256)
			}
			c.About, err = f.near(ctx, was, is)
			if err != nil {
				return nil, diag.New(code.ReceiptDiffers, subject, "differs on another device: %w", err)
			}
			c.About = subject + ": " + c.About
		}
		list = append(list, c)
	}
	return list, nil
}

func resultNames(r *receipt.Receipt) string {
	var names []string
	for _, x := range r.Results {
		names = append(names, strings.TrimSpace(x.Name+" "+filepath.Base(x.Path)))
	}
	if len(names) == 0 {
		return "nothing"
	}
	if len(names) > 8 {
		names = append(names[:8:8], fmt.Sprintf("and %d more", len(names)-8))
	}
	return strings.Join(names, ", ")
}

// near compares a result with the file of the first run, if that is still there.
func (f *verifyReceiptFlags) near(ctx context.Context, was, is receipt.Result) (about string, err error) {
	ext := strings.ToLower(filepath.Ext(was.Path))
	if ext != ".npy" && ext != ".png" {
		return "", errors.New("only tensors in .npy and pictures in .png can be compared within tolerances")
	}
	kept, err := digestFile(ctx, was.Path)
	if err != nil {
		return "", fmt.Errorf("the result of the first run is needed to compare them: %w", err)
	}
	if kept.SHA256 != was.SHA256 {
		return "", errors.New("the file is no longer the result of the first run")
	}
	if ext == ".png" {
		return nearPictures(ctx, was.Path, is.Path)
	}
	accept := func(d dtype.DType, shape []int) error {
		if n := int64(d.Size()) * int64(tensor.Numel(shape)); n > max(was.Bytes, is.Bytes) {
			return fmt.Errorf("claims %d bytes", n)
		}
		return nil
	}
	a, err := npy.ReadFile(ctx, was.Path, accept)
	if err != nil {
		return "", err
	}
	b, err := npy.ReadFile(ctx, is.Path, accept)
	if err != nil {
		return "", err
	}
	d, err := values.Compare(b.Array(), a.Array(), ir.Tolerance{}, f.tolerance)
	if err != nil {
		return "", err
	}
	if d.Bad > 0 {
		return "", errors.New(d.String())
	}
	return fmt.Sprintf("differs by at most %.3g", float64(d.Max)), nil
}

// nearPictures compares two pictures: masks by their IoU, others by the share of equal pixels.
func nearPictures(ctx context.Context, was, is string) (string, error) {
	a, err := readImage(ctx, was, nil, imaging.Limits{})
	if err != nil {
		return "", err
	}
	b, err := readImage(ctx, is, nil, imaging.Limits{})
	if err != nil {
		return "", err
	}
	if a.Bounds() != b.Bounds() {
		return "", fmt.Errorf("the sizes are %v and %v; want the same", a.Bounds().Size(), b.Bounds().Size())
	}
	equal, both, either, mask := 0, 0, 0, true
	r := a.Bounds()
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			p, q := color.NRGBA64Model.Convert(a.At(x, y)).(color.NRGBA64), color.NRGBA64Model.Convert(
				b.At(x, y)).(color.NRGBA64)
			black, white := color.NRGBA64{A: math.MaxUint16}, color.NRGBA64{65535, 65535, 65535, 65535}
			mask = mask && (p == black || p == white) && (q == black || q == white)
			if p == q {
				equal++
			}
			if p == white && q == white {
				both++
			}
			if p == white || q == white {
				either++
			}
		}
	}
	what, share := "share of equal pixels", float64(equal)/float64(r.Dx()*r.Dy())
	if mask {
		what, share = "IoU", float64(max(both, 1))/float64(max(either, 1))
		if both == 0 && either > 0 {
			share = 0
		}
	}
	if share < sameMask {
		return "", fmt.Errorf("the %s is %.4f; the least is %v", what, share, sameMask)
	}
	return fmt.Sprintf("differs; the %s is %.4f", what, share), nil
}
