package rlx

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/internal/regular"
	"github.com/rlx-go/rlx/internal/safetensors"
)

// Keys in the metadata of a state file: the digest of the artifact whose state it is, and the display name of its model.
const (
	artifactKey = "rlx.artifact"
	modelKey    = "rlx.model"
)

// stateChunk is the number of bytes of a state that are copied at a time.
const stateChunk = 4 << 20

// Export writes the state to w in the safetensors format, one tensor for each tensor of the state. The metadata has the digest of the
// artifact. Errors match ErrState, ErrLost, the context's cause, or are those of w.
func (st *State) Export(ctx context.Context, w io.Writer) error { return st.export(ctx, w, nil) }

// export is like Export, with more metadata.
func (st *State) export(ctx context.Context, w io.Writer, meta map[string]string) error {
	ctx, cancel := orderly(ctx)
	defer cancel()
	if err := st.dev.CheckValid(ctx); err != nil {
		return err
	}
	type entry struct {
		DType   string   `json:"dtype"`
		Shape   []int    `json:"shape"`
		Offsets [2]int64 `json:"data_offsets"`
	}
	m := st.s.model
	all := map[string]string{artifactKey: m.v.Identity(), modelKey: m.v.Meta().Model}
	maps.Copy(all, meta)
	header, at := map[string]any{"__metadata__": all}, int64(0)
	for _, t := range st.tensors {
		shape := append([]int{}, t.Type.Shape.Eval(nil)...) // a scalar has [], not null
		header[t.Name] = entry{strings.ToUpper(t.Type.DType.String()), shape, [2]int64{at, at + t.Bytes()}}
		at += t.Bytes()
	}
	text, err := json.Marshal(header) // keys are sorted
	if err != nil {
		return err
	}
	text = append(text, bytes.Repeat([]byte(" "), -len(text)&7)...) // data begin at a multiple of 8
	if _, err := w.Write(append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)); err != nil {
		return err
	}
	buf := make([]byte, stateChunk)
	for _, t := range st.tensors {
		for at := int64(0); at < t.Bytes(); {
			b := buf[:min(int64(len(buf)), t.Bytes()-at)]
			if err := st.dev.Read(ctx, t.Offset+at, b); err != nil {
				return err
			}
			if _, err := w.Write(b); err != nil {
				return err
			}
			at += int64(len(b))
		}
	}
	return nil
}

// ImportState returns a state with the contents of the file at path, which Export has written for a state of the same artifact. Another
// artifact has other weights or settings, so its state would give wrong results even if the shapes are the same. The backend and the
// precision may differ. ImportState checks the file before it allocates memory.
//
// Errors match ErrOtherModel if the file belongs to another artifact, ErrInput if it does not fit, fs.ErrNotExist or another error of the
// file system, or are those of NewState.
func (s *Session) ImportState(ctx context.Context, path string) (*State, error) {
	st, _, err := s.importState(ctx, path)
	return st, err
}

// importState is like ImportState, and also returns the metadata of the file.
func (s *Session) importState(ctx context.Context, path string) (*State, map[string]string, error) {
	f, stat, err := regular.Open(path)
	if err != nil {
		return nil, nil, diag.New(device.ErrInput, path, "%w", err)
	}
	defer f.Close()
	entries, meta, err := s.checkStateFile(path, f, stat.Size())
	if err != nil {
		return nil, nil, err
	}
	st, err := s.makeState(ctx)
	if err != nil {
		return nil, nil, err
	}
	run, cancel := orderly(ctx)
	defer cancel()
	buf := make([]byte, stateChunk)
	for _, t := range st.tensors {
		e := entries[t.Name]
		for at := int64(0); at < t.Bytes() && err == nil; at += int64(len(buf)) {
			b := buf[:min(int64(len(buf)), t.Bytes()-at)]
			if err = safetensors.ReadAt(path, f, b, e.Offset+at, device.ErrInput); err == nil {
				err = st.dev.Write(run, t.Offset+at, b)
			}
		}
	}
	if err != nil {
		st.Close()
		return nil, nil, err
	}
	return st, meta, nil
}

// checkStateFile checks the metadata and the tensors of a file.
func (s *Session) checkStateFile(path string, f *os.File, size int64) (map[string]safetensors.Tensor, map[string]string, error) {
	all, meta, err := safetensors.Parse(path, f, size, safetensors.Codes{Read: device.ErrInput, Header: device.ErrInput, Tensor: device.ErrInput})
	if err != nil {
		return nil, nil, err
	}
	mine, saved := s.model.v.Identity(), meta[artifactKey]
	if saved != "" && saved != mine {
		const digits = len("sha256:") + 12 // the full digest does not help to tell artifacts apart
		return nil, nil, diag.New(code.OtherModel, path, "has a state of the artifact %.*q (model %.80q); %s is %.*q (model %q)", digits, saved, meta[modelKey],
			s.model.path, digits, mine, s.model.v.Meta().Model).WithHint("use it with the artifact that saved it, or compute and save the state again")
	}
	out := map[string]safetensors.Tensor{}
	for _, t := range all {
		i := slices.IndexFunc(s.model.states, func(x program.StateTensor) bool { return x.Name == t.Name })
		if i < 0 {
			return nil, nil, diag.New(device.ErrInput, path, "has a tensor %.80q; the model keeps %s", t.Name, names(s.model.states))
		}
		want := s.model.states[i]
		if shape := want.Type.Shape.Eval(nil); t.DType != want.Type.DType || !slices.EqualFunc(t.Shape, shape, func(a int64, b int) bool { return a == int64(b) }) {
			return nil, nil, diag.New(device.ErrInput, path, "tensor %s is %s%v; the model keeps %v", t.Name, strings.ToLower(t.Stored), t.Shape, want.Type)
		}
		out[t.Name] = t
	}
	for _, t := range s.model.states {
		if _, ok := out[t.Name]; !ok {
			return nil, nil, diag.New(device.ErrInput, path, "has no tensor %s; the model keeps %s", t.Name, names(s.model.states))
		}
	}
	if saved == "" {
		return nil, nil, diag.New(code.OtherModel, path, "does not say which artifact it belongs to: it has no metadata %q", artifactKey).
			WithHint("an older version may have written it; compute and save the state again")
	}
	return out, meta, nil
}
