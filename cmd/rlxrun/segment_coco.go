package main

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/segment"
)

// cocoOffer is the output for programs that read annotations in the format of the COCO data set.
var cocoOffer = offer{name: "coco", about: "the masks as annotations of COCO (JSON)", ext: ".json"}

// Values of --coco.
const (
	cocoRLE      = "rle"
	cocoCounts   = "counts"
	cocoPolygons = "polygons"
)

func checkCOCO(kind string) error {
	if kind != cocoRLE && kind != cocoCounts && kind != cocoPolygons {
		return cli.Usagef("--coco "+kind, "allowed are %s, %s and %s", cocoRLE, cocoCounts, cocoPolygons)
	}
	return nil
}

// cocoImage is an image of a file of annotations.
type cocoImage struct {
	ID       int    `json:"id"`
	Width    int    `json:"width"`
	Height   int    `json:"height"`
	FileName string `json:"file_name"`
}

// cocoMask is a mask for an annotation.
type cocoMask struct {
	rle       segment.RLE
	score     any // a number, or "NaN"
	stability *float32
}

// cocoAnnotation is an annotation, with a score as in COCO's format of results.
type cocoAnnotation struct {
	ID           int      `json:"id"`
	ImageID      int      `json:"image_id"`
	CategoryID   int      `json:"category_id"`
	Segmentation any      `json:"segmentation"`
	Area         int      `json:"area"`
	BBox         [4]int   `json:"bbox"` // x, y, width and height in pixels
	IsCrowd      int      `json:"iscrowd"`
	Score        any      `json:"score,omitempty"` // predicted quality, unless it is NaN
	Stability    *float32 `json:"stability,omitempty"`
}

func (m cocoMask) annotation(id, imageID int, kind string) (*cocoAnnotation, error) {
	area, box, err := m.rle.Measure()
	if err != nil {
		return nil, err
	}
	a := &cocoAnnotation{ID: id, ImageID: imageID, CategoryID: 1, Segmentation: m.rle, Area: area,
		BBox: [4]int{box[0], box[1], box[2] - box[0], box[3] - box[1]}, Stability: m.stability}
	if _, text := m.score.(string); !text {
		a.Score = m.score
	}
	switch kind {
	case cocoCounts:
		runs, err := m.rle.Runs()
		if err != nil {
			return nil, err
		}
		a.Segmentation = map[string]any{"size": m.rle.Size, "counts": runs}
	case cocoPolygons:
		mask, err := m.rle.Mask()
		if err != nil {
			return nil, err
		}
		a.Segmentation = append([][]int{}, segment.Polygons(mask)...)
	}
	return a, nil
}

// writeCOCO writes a file of annotations, a line for each image and annotation. masks returns those of image i. Only
// the masks of one image are in memory.
func writeCOCO(w io.Writer, kind string, images []cocoImage, masks func(i int) ([]cocoMask, error)) error {
	line := func(first bool, v any) error {
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		start := ",\n"
		if first {
			start = "\n"
		}
		_, err = fmt.Fprintf(w, "%s%s", start, text)
		return err
	}
	fmt.Fprintf(w, "{\n\"info\": {\"description\": \"masks by RLX\"},\n\"licenses\": [],\n"+
		"\"categories\": [{\"id\": 1, \"name\": \"object\", \"supercategory\": \"\"}],\n\"images\": [")
	for i, image := range images {
		if err := line(i == 0, image); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "],\n\"annotations\": [")
	id := 0
	for i, image := range images {
		all, err := masks(i)
		if err != nil {
			return err
		}
		for _, m := range all {
			id++
			a, err := m.annotation(id, image.ID, kind)
			if err == nil {
				err = line(id == 1, a)
			}
			if err != nil {
				return err
			}
		}
	}
	_, err := fmt.Fprintf(w, "]\n}\n")
	return err
}

// writeCOCO writes the masks of all images. Those of a folder are read again from their records, also the ones that
// were done before. The id of an image is its place in the list of --images, from 1, whatever became of the others.
func (j *manyJob) writeCOCO(w io.Writer) error {
	var images []cocoImage
	var records []func() (*record, error)
	for i, e := range j.ends {
		if e.State == "failed" {
			continue
		}
		read := func() (*record, error) {
			r, ok := done(e.dir, e.key)
			if !ok {
				return nil, diag.New(code.Image, filepath.Join(e.dir, recordName),
					"has changed since the masks were found")
			}
			return &r, nil
		}
		if len(j.ends) == 1 {
			read = func() (*record, error) { return j.last, nil }
		}
		r, err := read()
		if err != nil {
			return err
		}
		images, records = append(images, cocoImage{i + 1, r.Width, r.Height, r.Image}), append(records, read)
	}
	return writeCOCO(w, j.flags.coco, images, func(i int) ([]cocoMask, error) {
		r, err := records[i]()
		if err != nil {
			return nil, err
		}
		return r.masks(), nil
	})
}

// writeCOCO writes the masks of one prompt.
func (j *segmentJob) writeCOCO(w io.Writer) error {
	size := j.size()
	return writeCOCO(w, j.flags.coco, []cocoImage{{1, size.X, size.Y, filepath.Base(j.flags.image)}},
		func(int) (out []cocoMask, err error) {
			for _, m := range j.masks {
				out = append(out, cocoMask{rle: segment.EncodeRLE(m.Image), score: maskSummaryOf(m).IoU})
			}
			return out, nil
		})
}
