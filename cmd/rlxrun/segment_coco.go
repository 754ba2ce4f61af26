package main

import (
	"io"
	"path/filepath"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/coco"
	"github.com/rlx-go/rlx/internal/maskfiles"
	"github.com/rlx-go/rlx/segment"
)

// cocoOffer is the output for programs that read annotations in the format of the COCO data set.
var cocoOffer = offer{name: "coco", about: "the masks as annotations of COCO (JSON)", ext: ".json"}

func checkCOCO(form string) error {
	if form != coco.RLE && form != coco.Counts && form != coco.Polygons {
		return cli.Usagef("--coco "+form, "is unknown; allowed are %s, %s and %s", coco.RLE, coco.Counts, coco.Polygons)
	}
	return nil
}

// writeCOCO writes the masks of all images. Those of a folder are read again from their records, also the ones that
// were done before. The id of an image is its place in the list of --images, from 1, whatever became of the others.
func (j *manyJob) writeCOCO(w io.Writer) error {
	var images []coco.Image
	var records []func() (*maskfiles.Record, error)
	for i, e := range j.ends {
		if e.State == "failed" {
			continue
		}
		read := func() (*maskfiles.Record, error) {
			r, ok := maskfiles.Done(e.dir, e.key)
			if !ok {
				return nil, diag.New(code.Image, filepath.Join(e.dir, maskfiles.Name),
					"has changed since the masks were found")
			}
			return &r, nil
		}
		if len(j.ends) == 1 {
			read = func() (*maskfiles.Record, error) { return j.last, nil }
		}
		r, err := read()
		if err != nil {
			return err
		}
		images, records = append(images, coco.Image{ID: i + 1, Width: r.Width, Height: r.Height,
			FileName: r.Image}), append(records, read)
	}
	return coco.Write(w, j.flags.coco, j.work.category(), images, func(i int) ([]coco.Mask, error) {
		r, err := records[i]()
		if err != nil {
			return nil, err
		}
		return r.COCO(), nil
	})
}

// writeCOCO writes the masks of one prompt.
func (j *segmentJob) writeCOCO(w io.Writer) error {
	size := j.size()
	img := coco.Image{ID: 1, Width: size.X, Height: size.Y, FileName: filepath.Base(j.flags.image)}
	return coco.Write(w, j.flags.coco, coco.Object, []coco.Image{img},
		func(int) (out []coco.Mask, err error) {
			for _, m := range j.masks {
				out = append(out, coco.Mask{RLE: segment.EncodeRLE(m.Image), Score: maskfiles.Summarise(m).IoU})
			}
			return out, nil
		})
}
