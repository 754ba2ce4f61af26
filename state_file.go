package rlx

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"hash"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/regular"
	"github.com/rlx-go/rlx/internal/safetensors"
)

// Keys in the metadata of a state file: the digest of the artifact whose state it is, and the display name of its
// model.
const (
	artifactKey = "rlx.artifact"
	modelKey    = "rlx.model"
)

// stateChunk is the number of bytes of a state that are copied at a time.
const stateChunk = 4 << 20

// Export writes the state to w in the safetensors format: a tensor for each tensor of the state, and at the end the
// tensor rlx.sha256, u8[32], the SHA-256 of all bytes before it. The metadata has the digest of the artifact, and
// Meta. Errors match ErrState, ErrLost, the context's cause, or are those of w.
func (st *State) Export(ctx context.Context, w io.Writer) error {
	ctx, cancel := orderly(ctx)
	defer cancel()
	if err := st.checkValid(ctx); err != nil {
		return err
	}
	m := st.s.model
	all := map[string]string{}
	maps.Copy(all, st.Meta)
	all[artifactKey], all[modelKey] = m.verified.Identity(), m.verified.Meta().Model
	buf := make([]byte, stateChunk)
	var items []safetensors.Item
	for _, t := range st.tensors {
		items = append(items, safetensors.Item{Name: t.Name, DType: strings.ToUpper(t.Type.DType.String()),
			Shape: t.Type.Shape.Eval(nil), Size: t.Bytes(), Write: func(to io.Writer) error {
				for at := int64(0); at < t.Bytes(); {
					b := buf[:min(int64(len(buf)), t.Bytes()-at)]
					if err := t.dev.Read(ctx, t.Offset+at, b); err != nil {
						return err
					}
					if _, err := to.Write(b); err != nil {
						return err
					}
					at += int64(len(b))
				}
				return nil
			}})
	}
	return safetensors.WriteSigned(w, all, items)
}

// ImportState returns a state with the contents of the file at path, which Export has written for a state of the same
// artifact. Another artifact has other weights or settings, so its state would give wrong results even if the shapes
// are the same. The backend and the precision may differ. ImportState checks the header before it allocates memory, and
// the digest of the file while it copies the tensors. The digest reveals damage; it does not prove who wrote the file.
//
// Errors match ErrOtherModel if the file belongs to another artifact, ErrDamaged if its bytes are not those that Export
// wrote, ErrInput if it does not fit, fs.ErrNotExist or another error of the file system, or are those of NewState.
func (s *Session) ImportState(ctx context.Context, path string) (*State, error) {
	f, stat, err := regular.Open(path)
	if err != nil {
		return nil, diag.New(device.ErrInput, path, "%w", err)
	}
	defer f.Close()
	all, meta, err := safetensors.Parse(
		path, f, stat.Size(),
		safetensors.Codes{Read: device.ErrInput, Header: device.ErrInput, Tensor: device.ErrInput})
	if err != nil {
		return nil, err
	}
	file := stateFile{path: path, f: f, sum: sha256.New()}
	all, file.end, _ = safetensors.Signed(all)
	if err := s.checkStateFile(path, all, meta); err != nil {
		if file.end > 0 {
			err = cmp.Or(file.verify(ctx), err) // damage explains err
		}
		return nil, err
	}
	if file.end == 0 {
		return nil, file.verify(ctx)
	}
	st, err := s.makeState(ctx)
	if err != nil {
		return nil, err
	}
	run, cancel := orderly(ctx)
	defer cancel()
	err = file.read(run, all[0].Offset, func(int64, []byte) error { return nil }) // the header
	for _, t := range all {
		if err != nil {
			break
		}
		x, _ := st.find(t.Name) // checkStateFile has found it
		to := x.Offset - t.Offset
		err = file.read(run, t.Offset+t.Size, func(at int64, b []byte) error {
			return x.dev.Write(run, to+at, b)
		})
	}
	if err == nil {
		err = file.verify(run)
	}
	if err != nil {
		st.Close()
		return nil, err
	}
	delete(meta, artifactKey)
	delete(meta, modelKey)
	st.Meta = meta
	return st, nil
}

// checkStateFile checks that the tensors and the metadata of a file are those of a state of the model.
func (s *Session) checkStateFile(path string, all []safetensors.Tensor, meta map[string]string) error {
	mine, saved := s.model.verified.Identity(), meta[artifactKey]
	if saved != "" && saved != mine {
		const digits = len("sha256:") + 12 // the full digest does not help to tell artifacts apart
		return diag.New(code.OtherModel, path, "has a state of the artifact %.*q (model %.80q); %s is %.*q (model %q)",
			digits, saved, meta[modelKey],
			s.model.path, digits, mine,
			s.model.verified.Meta().Model).WithHint(
			"use it with the artifact that saved it, or compute and save the state again")
	}
	for _, t := range all {
		i := indexOf(s.model.states, t.Name)
		if i < 0 {
			return diag.New(device.ErrInput, path, "has a tensor %.80q; the model keeps %s", t.Name,
				names(s.model.states))
		}
		want := s.model.states[i]
		if shape := want.Type.Shape.Eval(nil); t.DType != want.Type.DType ||
			!slices.EqualFunc(t.Shape, shape, func(a int64, b int) bool { return a == int64(b) }) {
			return diag.New(device.ErrInput, path, "tensor %s is %s%v; the model keeps %v", t.Name,
				strings.ToLower(t.Stored), t.Shape, want.Type)
		}
	}
	for _, t := range s.model.states {
		if !slices.ContainsFunc(all, func(x safetensors.Tensor) bool { return x.Name == t.Name }) {
			return diag.New(device.ErrInput, path, "has no tensor %s; the model keeps %s", t.Name,
				names(s.model.states))
		}
	}
	if saved == "" {
		return diag.New(code.OtherModel, path, "does not say which artifact it belongs to: it has no metadata %q",
			artifactKey).
			WithHint("an older version may have written it; compute and save the state again")
	}
	return nil
}

// A stateFile reads a file once, from its beginning, and computes the digest of the bytes that it has read.
type stateFile struct {
	path string
	f    *os.File
	sum  hash.Hash
	at   int64 // offset of the next byte to read
	end  int64 // offset of the digest, which is 32 bytes long; 0 if the file has none
	buf  []byte
}

// read reads on up to the offset end, and passes the bytes to do with their offsets.
func (x *stateFile) read(ctx context.Context, end int64, do func(at int64, b []byte) error) error {
	if x.buf == nil {
		x.buf = make([]byte, stateChunk)
	}
	for x.at < end {
		b := x.buf[:min(int64(len(x.buf)), end-x.at)]
		if err := safetensors.ReadAt(x.path, x.f, b, x.at, device.ErrInput); err != nil {
			return err
		}
		x.sum.Write(b)
		if err := do(x.at, b); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		x.at += int64(len(b))
	}
	return nil
}

// verify reads the rest of the file and compares its digest.
func (x *stateFile) verify(ctx context.Context) error {
	if x.end == 0 {
		return diag.New(code.StateDamaged, x.path, "has no digest of its contents: its last tensor is not %s",
			safetensors.DigestName).
			WithHint("an older version may have written it; compute and save the state again")
	}
	if err := x.read(ctx, x.end, func(int64, []byte) error { return nil }); err != nil {
		return err
	}
	want := make([]byte, sha256.Size)
	if err := safetensors.ReadAt(x.path, x.f, want, x.end, device.ErrInput); err != nil {
		return err
	}
	if got := x.sum.Sum(nil); !bytes.Equal(got, want) {
		return diag.New(code.StateDamaged, x.path, "is damaged: its contents have SHA-256 %x; want %x, as it was saved",
			got, want).
			WithHint("restore the file from a copy, or compute and save the state again")
	}
	return nil
}
