package capsule

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/safetensors"
)

// Limits of a capsule.
const (
	maxManifest = 4 << 20 // bytes
	maxSegments = 64
)

// A File is a capsule that has been verified. Its reader must stay open.
type File struct {
	Manifest
	Split *program.Split

	name  string
	r     io.ReaderAt
	parts map[string]safetensors.Tensor
}

var codes = safetensors.Codes{Read: code.Capsule, Header: code.Capsule, Tensor: code.Capsule}

// Read verifies the size bytes of a capsule in r: its digest, its programs, and that the other parts belong to the
// programs. It reads no input, state or weight into memory. name is for messages.
func Read(ctx context.Context, name string, r io.ReaderAt, size int64) (*File, error) {
	all, meta, err := safetensors.Parse(name, r, size, codes)
	if err != nil {
		return nil, err
	}
	f := &File{name: name, r: r, parts: map[string]safetensors.Tensor{}}
	text, ok := meta[manifestKey]
	all, digest, signed := safetensors.Signed(all)
	if !ok || !signed || len(text) > maxManifest {
		return nil, f.bad("is not a capsule: it has no metadata %s, or its last tensor is not %s", manifestKey,
			safetensors.DigestName)
	}
	if err := f.checkDigest(ctx, digest); err != nil {
		return nil, err
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&f.Manifest); err != nil {
		return nil, f.bad("its metadata %s cannot be read: %w", manifestKey, err)
	}
	if f.Version != Version {
		return nil, f.bad("has version %d; this program reads %d", f.Version, Version)
	}
	for _, t := range all {
		f.parts[t.Name] = t
	}
	if err := f.readPrograms(); err != nil {
		return nil, err
	}
	return f, f.checkParts()
}

func (f *File) bad(format string, args ...any) error {
	return diag.New(code.Capsule, f.name, format, args...)
}

// checkDigest compares the digest of the bytes before end with the one at end.
func (f *File) checkDigest(ctx context.Context, end int64) error {
	sum, buf := sha256.New(), make([]byte, min(end, 4<<20))
	for at := int64(0); at < end; at += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), end-at)]
		if err := safetensors.ReadAt(f.name, f.r, buf, at, code.Capsule); err != nil {
			return err
		}
		sum.Write(buf)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	want := make([]byte, sha256.Size)
	if err := safetensors.ReadAt(f.name, f.r, want, end, code.Capsule); err != nil {
		return err
	}
	if !bytes.Equal(sum.Sum(nil), want) {
		return f.bad("is damaged: its digest differs")
	}
	return nil
}

// readPrograms decodes and verifies the programs.
func (f *File) readPrograms() error {
	if n := len(f.Segments); n == 0 || n > maxSegments {
		return f.bad("has %d programs; allowed are 1 to %d", n, maxSegments)
	}
	f.Split = &program.Split{Method: f.Method, Target: f.Target}
	for k, x := range f.Segments {
		name := fmt.Sprint("program.", k)
		t, ok := f.parts[name]
		if !ok || t.Size > format.MaxSectionSize {
			return f.bad("has no part %s, or it is too large", name)
		}
		b := make([]byte, t.Size)
		if err := safetensors.ReadAt(f.name, f.r, b, t.Offset, code.Capsule); err != nil {
			return err
		}
		p, err := format.DecodeProgram(b)
		if err != nil {
			return f.bad("%s: %w", name, err)
		}
		seg := program.Segment{Program: p}
		for _, from := range x.Inputs {
			seg.Inputs = append(seg.Inputs, program.Source{Segment: from[0], Index: from[1]})
		}
		f.Split.Segments = append(f.Split.Segments, seg)
	}
	for _, from := range f.Outputs {
		f.Split.Outputs = append(f.Split.Outputs, program.Source{Segment: from[0], Index: from[1]})
	}
	return nil
}

// signature returns the types of the method's inputs, as the manifest has them, and those of its outputs, which follow
// from the programs.
func (f *File) signature() (s program.Signature, err error) {
	s.Syms = f.Split.Segments[0].Graph.Syms
	for _, in := range f.Inputs {
		t, err := ir.ParseType(in.Type)
		if err == nil {
			err = s.Syms.CheckType(t)
		}
		if err != nil {
			return s, fmt.Errorf("input %.80q: %w", in.Name, err)
		}
		s.Inputs = append(s.Inputs, t)
	}
	for _, from := range f.Split.Outputs {
		if from.Segment < 0 || from.Segment >= len(f.Split.Segments) || from.Index < 0 ||
			from.Index >= len(f.Split.Segments[from.Segment].Graph.Outputs) {
			return s, fmt.Errorf("an output comes from value %d of program %d", from.Index, from.Segment)
		}
		s.Outputs = append(s.Outputs, f.Split.Segments[from.Segment].Graph.Outputs[from.Index].Node.Type)
	}
	return s, nil
}

// checkParts checks that the parts are those of the programs, with the sizes of their types.
func (f *File) checkParts() error {
	sig, err := f.signature()
	if err == nil {
		err = f.Split.Check(sig)
	}
	if err != nil {
		return f.bad("its programs do not make a method: %w", err)
	}
	for _, x := range f.Split.Segments {
		if _, err := x.Bind(f.Sizes); err != nil {
			return f.bad("has sizes that its programs do not allow: %w", err)
		}
	}
	known := map[string]int64{} // bytes
	for k := range f.Split.Segments {
		name := fmt.Sprint("program.", k)
		known[name] = f.parts[name].Size
	}
	for i, in := range f.Inputs {
		known["input."+in.Name] = sig.Inputs[i].Bytes(f.Sizes)
	}
	for _, x := range f.Split.Segments {
		for _, n := range x.Graph.States() {
			known["state."+n.Name] = n.Type.Bytes(nil)
		}
		if f.Weights {
			for _, n := range x.Graph.Params() {
				known["weight."+n.Name] = n.Type.Bytes(nil)
			}
		}
	}
	for name, bytes := range known {
		if t, ok := f.parts[name]; !ok || t.Size != bytes {
			return f.bad("part %.80q has %d bytes; want %d", name, t.Size, bytes)
		}
	}
	if len(known) != len(f.parts) {
		for name := range f.parts {
			if _, ok := known[name]; !ok {
				return f.bad("has a part %.80q that its programs do not need", name)
			}
		}
	}
	return nil
}

// read reads a part.
func (f *File) read(name string, t ir.Type, sizes map[string]int64) (tensor.Tensor, error) {
	part := f.parts[name]
	out := tensor.Tensor{DType: t.DType, Shape: t.Shape.Eval(sizes), Data: tensor.AlignedBytes(int(part.Size))}
	return out, safetensors.ReadAt(f.name, f.r, out.Data, part.Offset, code.Capsule)
}

// Bytes returns the size of the inputs and states in bytes.
func (f *File) Bytes() (n int64) {
	for name, t := range f.parts {
		if strings.HasPrefix(name, "input.") || strings.HasPrefix(name, "state.") {
			n += t.Size
		}
	}
	return n
}

// Weighted reports whether the programs have weights.
func (f *File) Weighted() bool { return len(f.params()) > 0 }

// WeightBytes returns the size of the weights that the programs use, in bytes.
func (f *File) WeightBytes() (n int64) {
	for _, x := range f.params() {
		n += x.Type.Bytes(nil)
	}
	return n
}

// ReadInputs reads the inputs of the run, by name.
func (f *File) ReadInputs() (map[string]tensor.Tensor, error) {
	sig, err := f.signature()
	out := map[string]tensor.Tensor{}
	for i, in := range f.Inputs {
		if err == nil {
			out[in.Name], err = f.read("input."+in.Name, sig.Inputs[i], f.Sizes)
		}
	}
	return out, err
}

// ReadStates reads the state before the run, by name.
func (f *File) ReadStates() (map[string]tensor.Tensor, error) {
	out := map[string]tensor.Tensor{}
	var err error
	for _, x := range f.Split.Segments {
		for _, n := range x.Graph.States() {
			if err == nil {
				out[n.Name], err = f.read("state."+n.Name, n.Type, nil)
			}
		}
	}
	return out, err
}

// params returns the weights of all programs, without repetitions, in the order of their names.
func (f *File) params() (list []*ir.Node) {
	seen := map[string]bool{}
	for _, x := range f.Split.Segments {
		for _, n := range x.Graph.Params() {
			if !seen[n.Name] {
				seen[n.Name], list = true, append(list, n)
			}
		}
	}
	slices.SortFunc(list, func(a, b *ir.Node) int { return strings.Compare(a.Name, b.Name) })
	return list
}
