// Package maskfiles describes the folder of masks that a program writes for an image: pictures, and a record that is
// written last. It serves rlxrun and the transforms of module beam, so that both write the same files, and each takes
// what the other has finished as done.
package maskfiles

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"image"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/rlx-go/rlx/internal/coco"
	"github.com/rlx-go/rlx/internal/ctxio"
	"github.com/rlx-go/rlx/internal/imaging"
	"github.com/rlx-go/rlx/internal/regular"
	"github.com/rlx-go/rlx/segment"
)

// Record is the content of masks.json: what was found in an image. It is written last, so an image with this file is
// done.
type Record struct {
	Image  string `json:"image"`
	Key    string `json:"key"` // identifies the model, the image's bytes and the request
	Width  int    `json:"width"`
	Height int    `json:"height"`
	// files of the label image and of the overlay, if all objects were looked for
	Labels  string   `json:"labels,omitempty"`
	Overlay string   `json:"overlay,omitempty"`
	Masks   []Mask   `json:"masks,omitempty"`
	All     []Region `json:"regions,omitzero"` // with --everything, also if there are none

	Dropped *segment.Dropped `json:"dropped,omitempty"` // with --everything: masks that are not regions

	Text    string   `json:"text,omitempty"`    // of the concept
	Found   []Object `json:"objects,omitzero"`  // of the concept, also if there are none
	Closest float32  `json:"closest,omitempty"` // the highest score of what is no object of the concept
}

// Summary describes one mask.
type Summary struct {
	Mask   int `json:"mask"`
	IoU    any `json:"iou"`    // a number, or "NaN"
	Pixels int `json:"pixels"` // pixels inside the mask
}

// Summarise describes a mask.
func Summarise(m segment.Mask) Summary {
	n := 0
	for _, v := range m.Image.Pix {
		if v != 0 {
			n++
		}
	}
	s, q := Summary{Mask: m.Token, Pixels: n}, float64(m.IoU)
	digits := strconv.FormatFloat(q, 'g', -1, 32)
	s.IoU = json.Number(digits)
	if math.IsNaN(q) || math.IsInf(q, 0) {
		s.IoU = digits
	}
	return s
}

// Mask describes one mask of a prompt.
type Mask struct {
	Prompt int `json:"prompt"`
	Summary
	File         string      `json:"file"`
	Segmentation segment.RLE `json:"segmentation"`
}

// Region describes an object of an image.
type Region struct {
	segment.Region
	File         string      `json:"file,omitempty"` // its mask, with --object-masks
	Segmentation segment.RLE `json:"segmentation"`
}

// Object describes an object of a concept.
type Object struct {
	segment.Object
	File string `json:"file,omitempty"` // its mask, with --object-masks
}

// COCO returns the masks of the image for COCO's format.
func (r *Record) COCO() (out []coco.Mask) {
	for _, m := range r.Masks {
		out = append(out, coco.Mask{RLE: m.Segmentation, Score: m.IoU})
	}
	for _, m := range r.All {
		out = append(out, coco.Mask{RLE: m.Segmentation, Score: m.IoU, Stability: &m.Stability})
	}
	for _, o := range r.Found {
		out = append(out, coco.Mask{RLE: o.Mask, Score: o.Score})
	}
	return out
}

// Files lists the files of the record.
func (r *Record) Files() (out []string) {
	for _, m := range r.Masks {
		out = append(out, m.File)
	}
	for _, m := range r.All {
		out = append(out, m.File)
	}
	for _, o := range r.Found {
		out = append(out, o.File)
	}
	return slices.DeleteFunc(append(out, r.Labels, r.Overlay), func(name string) bool { return name == "" })
}

// Write writes the record as in masks.json.
func (r *Record) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
}

// Name is the name of a record's file.
const Name = "masks.json"

const (
	version   = 2         // of what a folder holds; one of another version is made again
	maxRecord = 256 << 20 // bytes of a masks.json
)

// Done returns the record of a folder that has all masks of a key.
func Done(dir, key string) (r Record, ok bool) {
	raw, err := regular.ReadFile(filepath.Join(dir, Name), maxRecord)
	if err != nil || json.Unmarshal(raw, &r) != nil || r.Key != key {
		return r, false
	}
	for _, m := range r.COCO() {
		if _, _, err := m.RLE.Measure(); err != nil || m.RLE.Size != [2]int{r.Height, r.Width} {
			return r, false
		}
	}
	for _, name := range r.Files() {
		if st, err := os.Stat(filepath.Join(dir, filepath.Base(name))); err != nil || !st.Mode().IsRegular() {
			return r, false
		}
	}
	return r, true
}

// A Request says what to find in images.
type Request struct {
	Prompts []segment.Prompts // nil to find all objects
	Choice  segment.Choice    // among the masks of a prompt
	// parameters for finding all objects; here 0 means 0, as in a flag
	All         segment.EverythingOptions
	ObjectMasks bool // whether each object has a picture of its own
}

// Key identifies what the masks of an image depend on: the model and the precision, the image's bytes and the request.
func (q Request) Key(ctx context.Context, identity, precision string, img io.Reader) (string, error) {
	return keyOf(ctx, img, identity, precision, version, q.Prompts, string(q.Choice), q.All, q.ObjectMasks)
}

// keyOf identifies a request, and the bytes of an image.
func keyOf(ctx context.Context, img io.Reader, request ...any) (string, error) {
	h := sha256.New()
	asked, err := json.Marshal(request)
	if err != nil {
		return "", err
	}
	h.Write(asked)
	if _, err := io.Copy(h, io.LimitReader(ctxio.NewReader(ctx, img), imaging.MaxFile)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Options returns options that mean the values of All: in package segment, 0 stands for a default, and a negative bound
// for 0.
func (q Request) Options() segment.EverythingOptions { return Explicit(q.All) }

// Explicit returns options in which each value that is 0 means 0.
func Explicit(o segment.EverythingOptions) segment.EverythingOptions {
	for _, v := range []*float64{&o.MinIoU, &o.MinStability, &o.MaxOverlap} {
		if *v == 0 {
			*v = -1
		}
	}
	return o
}

// Hooks are what a program does while masks are found.
type Hooks struct {
	// Picture writes a picture and returns the name that the record has for it, or "" if it is not kept.
	Picture  func(name string, img image.Image) (string, error)
	Fits     func(bytes int64) error // whether run lengths of so many bytes fit; may be nil
	Progress func(done float64)      // is called with the share of the work that is done; may be nil
}

// Prompted finds the masks of prompts in an image, and adds them to the record.
func (q Request) Prompted(ctx context.Context, encoded *segment.Image, rec *Record, h Hooks) error {
	done := 0
	err := encoded.MasksOf(ctx, q.Prompts, q.Choice, func(i int, masks []segment.Mask) error {
		for _, m := range masks {
			name := fmt.Sprintf("%d.png", i)
			if q.Choice == segment.All {
				name = fmt.Sprintf("%d.%d.png", i, m.Token)
			}
			file, err := h.Picture(name, m.Image)
			if err != nil {
				return err
			}
			rec.Masks = append(rec.Masks, Mask{i, Summarise(m), file, segment.EncodeRLE(m.Image)})
		}
		done++
		if h.Progress != nil {
			h.Progress(float64(done) / float64(len(q.Prompts)))
		}
		return nil
	})
	slices.SortStableFunc(rec.Masks, func(a, b Mask) int { return a.Prompt - b.Prompt })
	return err
}

// Everything finds all objects of an image, and adds them to the record.
func (q Request) Everything(ctx context.Context, encoded *segment.Image, img image.Image, rec *Record,
	h Hooks) (*segment.Segmentation, error) {
	var masks []segment.RLE // the last region's first
	held := int64(0)
	found, err := encoded.EverythingMasks(ctx, q.Options(), func(mask *image.Gray) error {
		r := segment.EncodeRLE(mask)
		masks, held = append(masks, r), held+int64(len(r.Counts))
		if h.Fits == nil {
			return nil
		}
		return h.Fits(held)
	}, h.Progress)
	if err != nil {
		return nil, err
	}
	slices.Reverse(masks)
	rec.Dropped, rec.All = &found.Dropped, []Region{}
	if rec.Labels, err = h.Picture("labels.png", found.Picture()); err != nil {
		return nil, err
	}
	if rec.Overlay, err = h.Picture("overlay.png", found.Overlay(img)); err != nil {
		return nil, err
	}
	for i, r := range found.Regions {
		out := Region{Region: r, Segmentation: masks[i]}
		if q.ObjectMasks {
			mask, err := masks[i].Mask()
			if err != nil {
				return nil, err
			}
			if out.File, err = h.Picture(fmt.Sprintf("%d.png", r.Label), mask); err != nil {
				return nil, err
			}
		}
		rec.All = append(rec.All, out)
	}
	return found, nil
}
