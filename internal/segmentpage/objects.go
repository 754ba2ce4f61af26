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
	"time"
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
	var masks []drawing
	found, err := s.Everything(r.Context(), gridSide, func(mask *image.Gray) error {
		masks = append(masks, draw(mask))
		return nil
	})
	if err != nil {
		p.Fail(w, r, err)
		return
	}
	slices.Reverse(masks)
	out := []region{}
	for i, x := range found.Regions[:min(len(found.Regions), maxObjects)] {
		a := answer{Mask: x.Token, Quality: make([]*float32, x.Token+1), drawing: masks[i]}
		a.Quality[x.Token] = finite(x.IoU)
		out = append(out, region{a, [2]float64{x.Point.X, x.Point.Y}})
	}
	localpage.Reply(w, http.StatusOK, map[string]any{"regions": out, "dropped": found.Dropped})
}

// concept is a request to find the objects that a text, examples or both describe.
type concept struct {
	Text      string      `json:"text"`
	Examples  [][]float64 `json:"examples"` // [x0,y0,x1,y1,1], and 0 in place of 1 for what not to find
	Threshold float64     `json:"threshold"`
}

func (q *concept) read(body io.Reader) (out segment.Concept, err error) {
	if err := localpage.ReadJSON(body, q); err != nil {
		return out, err
	}
	out.Text = q.Text
	for i, v := range q.Examples {
		if len(v) != 5 || v[4] != 0 && v[4] != 1 {
			return out, diag.New(code.MaskPrompt, fmt.Sprintf("example %d", i),
				"is %v; allowed are [x0,y0,x1,y1,1] and [x0,y0,x1,y1,0]", v)
		}
		out.Examples = append(out.Examples, segment.Example{Box: segment.Box{X0: v[0], Y0: v[1], X1: v[2], Y1: v[3]},
			Negative: v[4] == 0})
	}
	return out, nil
}

// scored is an object of a search.
type scored struct {
	Score float32    `json:"score"`
	Box   [4]float32 `json:"box"`
	drawing
}

// search answers with the objects of a concept, the highest score first.
func (p *Page) search(w http.ResponseWriter, r *http.Request) {
	begun := time.Now()
	s := p.image(w, r)
	if s == nil {
		return
	}
	var q concept
	c, err := q.read(http.MaxBytesReader(w, r.Body, maxPrompts))
	if err == nil {
		err = p.Enter(r.Context(), "")
	}
	if err != nil {
		p.Fail(w, r, err)
		return
	}
	defer p.Leave()
	var found *segment.Found
	if err = s.ready(r); err == nil {
		found, err = s.Find(r.Context(), c, q.Threshold)
	}
	objects := []scored{}
	for i := 0; err == nil && i < min(len(found.Objects), maxObjects); i++ {
		x := &found.Objects[i]
		var mask *image.Gray
		if mask, err = x.Mask.Mask(); err == nil {
			objects = append(objects, scored{x.Score, x.Box, draw(mask)})
		}
	}
	if err != nil {
		p.Fail(w, r, err)
		return
	}
	localpage.Reply(w, http.StatusOK, map[string]any{"objects": objects, "closest": found.Closest,
		"seconds": time.Since(begun).Seconds()})
}

// selection is a request for files about several objects.
type selection struct {
	Image   string   `json:"image"` // name of the image's file
	Objects []object `json:"objects"`
}

// object is an object as the page has it.
type object struct {
	Name  string   `json:"name"`
	Runs  []int    `json:"runs"`
	Score *float32 `json:"score"` // predicted quality, or score of a search; null for NaN
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
	err := localpage.ReadJSON(http.MaxBytesReader(w, r.Body, maxRuns), &q)
	if n := len(q.Objects); err == nil && (n == 0 || n > maxObjects) {
		err = localpage.BadRequest("has %d objects; allowed are 1 to %d", n, maxObjects)
	}
	var b bytes.Buffer
	if err == nil {
		err = q.write(&b, s.Picture().Rect.Size())
	}
	if err != nil {
		p.Fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/zip")
	w.Write(b.Bytes())
}

// write writes the ZIP for an image of the given size.
func (q *selection) write(to io.Writer, size image.Point) error {
	z := zip.NewWriter(to)
	picture := func(name string, img image.Image) error {
		out, err := z.Create(name)
		if err == nil {
			err = png.Encode(out, img)
		}
		return err
	}
	var masks []coco.Mask
	for i, o := range q.Objects {
		mask, err := maskOf(o.Runs, size)
		if err == nil {
			err = picture(fileName(i+1, o.Name), mask)
		}
		if err != nil {
			return err
		}
		m := coco.Mask{RLE: segment.EncodeRLE(mask), Name: o.Name}
		if o.Score != nil {
			m.Score = *o.Score
		}
		masks = append(masks, m)
	}
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
		return fmt.Errorf("the masks as ZIP: %w", err)
	}
	return nil
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
