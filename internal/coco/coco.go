// Package coco writes masks as annotations in the format of the COCO data set (https://cocodataset.org/#format-data).
package coco

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/rlx-go/rlx/segment"
)

// Forms of masks.
const (
	RLE      = "rle"      // run lengths as pycocotools compresses them
	Counts   = "counts"   // run lengths as numbers
	Polygons = "polygons" // outlines without holes
)

// Image is an image of a file of annotations.
type Image struct {
	ID       int    `json:"id"`
	Width    int    `json:"width"`
	Height   int    `json:"height"`
	FileName string `json:"file_name"`
}

// Mask is a mask for an annotation.
type Mask struct {
	RLE       segment.RLE
	Name      string   // of the object, if it has one
	Score     any      // predicted quality: a number; anything else is left out
	Stability *float32 // nil if unknown
}

// annotation is an annotation, with a score as in COCO's format of results.
type annotation struct {
	ID           int      `json:"id"`
	ImageID      int      `json:"image_id"`
	CategoryID   int      `json:"category_id"`
	Segmentation any      `json:"segmentation"`
	Area         int      `json:"area"`
	BBox         [4]int   `json:"bbox"` // x, y, width and height in pixels
	IsCrowd      int      `json:"iscrowd"`
	Name         string   `json:"name,omitempty"`
	Score        any      `json:"score,omitempty"`
	Stability    *float32 `json:"stability,omitempty"`
}

func (m Mask) annotation(id, imageID int, form string) (*annotation, error) {
	area, box, err := m.RLE.Measure()
	if err != nil {
		return nil, err
	}
	a := &annotation{ID: id, ImageID: imageID, CategoryID: 1, Segmentation: m.RLE, Area: area,
		BBox: [4]int{box[0], box[1], box[2] - box[0], box[3] - box[1]}, Name: m.Name, Stability: m.Stability}
	switch m.Score.(type) {
	case float32, float64:
		a.Score = m.Score
	}
	switch form {
	case Counts:
		runs, err := m.RLE.Runs()
		if err != nil {
			return nil, err
		}
		a.Segmentation = map[string]any{"size": m.RLE.Size, "counts": runs}
	case Polygons:
		mask, err := m.RLE.Mask()
		if err != nil {
			return nil, err
		}
		a.Segmentation = append([][]int{}, segment.Polygons(mask)...)
	}
	return a, nil
}

// Object is the category of masks of which nothing else is known.
const Object = "object"

// Write writes a file of annotations, a line for each image and annotation. All are of one category. masks returns
// those of image i; only the masks of one image are in memory. Scores must be finite.
func Write(w io.Writer, form, category string, images []Image, masks func(i int) ([]Mask, error)) error {
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
	name, err := json.Marshal(category)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "{\n\"info\": {\"description\": \"masks by RLX\"},\n\"licenses\": [],\n"+
		"\"categories\": [{\"id\": 1, \"name\": %s, \"supercategory\": \"\"}],\n\"images\": [", name)
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
			a, err := m.annotation(id, image.ID, form)
			if err == nil {
				err = line(id == 1, a)
			}
			if err != nil {
				return err
			}
		}
	}
	_, err = fmt.Fprintf(w, "]\n}\n")
	return err
}
