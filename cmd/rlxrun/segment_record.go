package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/coco"
	"github.com/rlx-go/rlx/internal/ctxio"
	"github.com/rlx-go/rlx/internal/imaging"
	"github.com/rlx-go/rlx/internal/regular"
	"github.com/rlx-go/rlx/segment"
)

// record is the content of masks.json: what was found in an image. It is written last, so an image with this file is
// done.
type record struct {
	Image  string `json:"image"`
	Key    string `json:"key"` // identifies the model, the image's bytes and the request
	Width  int    `json:"width"`
	Height int    `json:"height"`
	// files of the label image and of the overlay, with --everything
	Labels  string         `json:"labels,omitempty"`
	Overlay string         `json:"overlay,omitempty"`
	Masks   []recordMask   `json:"masks,omitempty"`
	All     []recordRegion `json:"regions,omitzero"` // with --everything, also if there are none

	Dropped *segment.Dropped `json:"dropped,omitempty"` // with --everything: masks that are not regions
}

// recordMask describes one mask.
type recordMask struct {
	Prompt int `json:"prompt"`
	maskSummary
	File         string      `json:"file"`
	Segmentation segment.RLE `json:"segmentation"`
}

// recordRegion describes an object of an image.
type recordRegion struct {
	segment.Region
	File         string      `json:"file,omitempty"` // its mask, with --object-masks
	Segmentation segment.RLE `json:"segmentation"`
}

// masks returns the masks of the image for COCO's format.
func (r *record) masks() (out []coco.Mask) {
	for _, m := range r.Masks {
		out = append(out, coco.Mask{RLE: m.Segmentation, Score: m.IoU})
	}
	for _, m := range r.All {
		out = append(out, coco.Mask{RLE: m.Segmentation, Score: m.IoU, Stability: &m.Stability})
	}
	return out
}

// files lists the files of the record.
func (r *record) files() (out []string) {
	for _, m := range r.Masks {
		out = append(out, m.File)
	}
	for _, m := range r.All {
		out = append(out, m.File)
	}
	return slices.DeleteFunc(append(out, r.Labels, r.Overlay), func(name string) bool { return name == "" })
}

const recordName = "masks.json"

const (
	recordVersion = 2         // of what a folder holds; one of another version is made again
	maxRecord     = 256 << 20 // bytes of a masks.json
)

// key identifies what the masks of an image depend on: the model, the image's bytes and the request. Images of a folder
// must be regular files. A single image may also be a pipe, which cannot be read twice and has no key.
func (j *manyJob) key(ctx context.Context, s *session, path string) (string, error) {
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() && j.flags.folder == "" {
		return "", nil
	}
	f, st, err := regular.Open(path)
	if err != nil {
		return "", diag.New(code.Image, path, "%w", err)
	}
	defer f.Close()
	if st.Size() > imaging.MaxFile {
		return "", diag.New(code.Image, path, "has %d bytes; at most %d are allowed", st.Size(), imaging.MaxFile)
	}
	h := sha256.New()
	asked, err := json.Marshal([]any{s.model.Facts().Identity, s.host.Precision(), recordVersion, j.prompts,
		j.flags.mask, j.all,
		j.flags.objectMasks})
	if err != nil {
		return "", err
	}
	h.Write(asked)
	switch _, err := io.Copy(h, io.LimitReader(ctxio.NewReader(ctx, f), imaging.MaxFile)); {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil:
		return "", diag.New(code.Image, path, "cannot be read: %w", unpath(err))
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// done returns the record of a folder that has all masks of a key.
func done(dir, key string) (r record, ok bool) {
	raw, err := regular.ReadFile(filepath.Join(dir, recordName), maxRecord)
	if err != nil || json.Unmarshal(raw, &r) != nil || r.Key != key {
		return r, false
	}
	for _, m := range r.masks() {
		if _, _, err := m.RLE.Measure(); err != nil || m.RLE.Size != [2]int{r.Height, r.Width} {
			return r, false
		}
	}
	for _, name := range r.files() {
		if st, err := os.Stat(filepath.Join(dir, filepath.Base(name))); err != nil || !st.Mode().IsRegular() {
			return r, false
		}
	}
	return r, true
}
