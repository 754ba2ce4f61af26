package segmentpage

import (
	"archive/zip"
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/coco"
	"github.com/rlx-go/rlx/internal/localpage"
	"github.com/rlx-go/rlx/segment"
)

// region is an object that everything found. The point and the number of the mask give the same mask again.
type region struct {
	answer
	Point [2]float64 `json:"point"`
}

// everything answers with all objects, the largest first.
func (p *Page) everything(w http.ResponseWriter, r *http.Request) {
	s := p.image(w, r)
	if s == nil {
		return
	}
	err := p.Enter(r.Context(), "")
	if err != nil {
		p.Fail(w, r, err)
		return
	}
	defer p.Leave()
	if err := s.ready(r); err != nil {
		p.Fail(w, r, err)
		return
	}
	var masks []answer
	found, err := s.Everything(r.Context(), gridSide, func(mask *image.Gray) error {
		var a answer
		a.draw(mask)
		masks = append(masks, a)
		return nil
	})
	if err != nil {
		p.Fail(w, r, err)
		return
	}
	slices.Reverse(masks)
	out := []region{}
	for i, x := range found.Regions[:min(len(found.Regions), maxObjects)] {
		a := masks[i]
		a.Mask, a.Quality = x.Token, make([]*float32, x.Token+1)
		a.Quality[x.Token] = finite(x.IoU)
		out = append(out, region{a, [2]float64{x.Point.X, x.Point.Y}})
	}
	localpage.Reply(w, http.StatusOK, map[string]any{"regions": out, "dropped": found.Dropped})
}

// selection is a request for files about several objects.
type selection struct {
	Image   string   `json:"image"` // name of the image's file
	Objects []object `json:"objects"`
}

// object is an object as the page has it.
type object struct {
	Name   string      `json:"name"`
	Points [][]float64 `json:"points"`
	Box    []float64   `json:"box"`
	Mask   string      `json:"mask"`
}

func (q *selection) read(body io.Reader) (prompts []segment.Prompts, err error) {
	if err := localpage.ReadJSON(body, q); err != nil {
		return nil, err
	}
	if n := len(q.Objects); n == 0 || n > maxObjects {
		return nil, localpage.BadRequest("has %d objects; allowed are 1 to %d", n, maxObjects)
	}
	for _, o := range q.Objects {
		if o.Mask == "" || o.Mask == string(segment.All) {
			return nil, diag.New(code.MaskChoice, "mask", "is %q; allowed are best and the number of a mask", o.Mask)
		}
		p, err := readPrompts(o.Points, o.Box)
		if err != nil {
			return nil, err
		}
		prompts = append(prompts, p)
	}
	return prompts, nil
}

// export answers with a ZIP: the mask of each object, a label image with the palette of segment.Palette, in which
// smaller objects lie in front of larger ones, and the masks as annotations of COCO. The label of an object is its
// place in the list, from 1.
func (p *Page) export(w http.ResponseWriter, r *http.Request) {
	s := p.image(w, r)
	if s == nil {
		return
	}
	var q selection
	prompts, err := q.read(http.MaxBytesReader(w, r.Body, maxPrompts))
	if err != nil {
		p.Fail(w, r, err)
		return
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	picture := func(name string, img image.Image) error {
		out, err := z.Create(name)
		if err == nil {
			err = png.Encode(out, img)
		}
		return err
	}
	var masks []coco.Mask
	for i, o := range q.Objects {
		mask, _, err := p.run(s, r, prompts[i], segment.Choice(o.Mask), "")
		if err == nil {
			err = picture(fileName(i+1, o.Name), mask.Image)
		}
		if err != nil {
			p.Fail(w, r, err)
			return
		}
		m := coco.Mask{RLE: segment.EncodeRLE(mask.Image), Name: o.Name}
		if v := finite(mask.IoU); v != nil {
			m.Score = *v
		}
		masks = append(masks, m)
	}
	size := s.Picture().Rect.Size()
	labels, err := labelsOf(size, masks)
	if err == nil {
		err = picture("labels.png", labels)
	}
	if err == nil {
		var out io.Writer
		if out, err = z.Create("coco.json"); err == nil {
			err = coco.Write(out, coco.RLE, coco.Object,
				[]coco.Image{{ID: 1, Width: size.X, Height: size.Y, FileName: q.Image}},
				func(int) ([]coco.Mask, error) { return masks, nil })
		}
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		p.Fail(w, r, fmt.Errorf("the masks as ZIP: %w", err))
		return
	}
	w.Header().Set("Content-Type", "application/zip")
	w.Write(b.Bytes())
}

// labelsOf draws masks into a label image, the largest first.
func labelsOf(size image.Point, masks []coco.Mask) (image.Image, error) {
	type drawn struct{ label, area int }
	var order []drawn
	for i, m := range masks {
		area, _, err := m.RLE.Measure()
		if err != nil {
			return nil, err
		}
		order = append(order, drawn{i + 1, area})
	}
	slices.SortStableFunc(order, func(a, b drawn) int { return b.area - a.area })
	s := segment.Segmentation{Labels: image.NewGray16(image.Rectangle{Max: size}),
		Regions: make([]segment.Region, len(masks))}
	for _, o := range order {
		mask, err := masks[o.label-1].RLE.Mask()
		if err != nil {
			return nil, err
		}
		for i, v := range mask.Pix {
			if v != 0 {
				s.Labels.SetGray16(i%size.X, i/size.X, color.Gray16{Y: uint16(o.label)})
			}
		}
	}
	return s.Picture(), nil
}

// fileName returns the name of a mask's file, which is valid on every system: 03-Large-dog.png.
func fileName(n int, name string) string {
	name = strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return '-'
	}, name)
	runes := []rune(strings.Trim(name, "-"))
	return strings.TrimSuffix(fmt.Sprintf("%03d-%s", n, string(runes[:min(len(runes), 40)])), "-") + ".png"
}
