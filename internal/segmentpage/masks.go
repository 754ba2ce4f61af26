package segmentpage

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"net/http"

	"github.com/rlx-go/rlx/internal/localpage"
)

// drawing is a mask as the page has it.
type drawing struct {
	Pixels int `json:"pixels"` // pixels inside
	// run lengths of pixels outside, inside, outside, ..., row after row; they add up to all pixels
	Runs []int `json:"runs"`
}

// draw returns a mask for the page.
func draw(mask *image.Gray) drawing {
	d := drawing{Runs: runs(mask)}
	for i := 1; i < len(d.Runs); i += 2 {
		d.Pixels += d.Runs[i]
	}
	return d
}

// runs returns the run lengths of a mask. The first run is outside.
func runs(m *image.Gray) []int {
	out, value := []int{0}, byte(0) // value of the current run
	for y := range m.Rect.Dy() {
		for row := m.Pix[y*m.Stride:][:m.Rect.Dx()]; len(row) > 0; {
			n := bytes.IndexByte(row, 255-value)
			if n < 0 {
				n = len(row)
			}
			out[len(out)-1] += n
			if row = row[n:]; len(row) > 0 {
				out, value = append(out, 0), 255-value
			}
		}
	}
	return out
}

// maskOf returns the mask of the given size that has run lengths.
func maskOf(runs []int, size image.Point) (*image.Gray, error) {
	m, at := image.NewGray(image.Rectangle{Max: size}), 0
	for i, n := range runs {
		if n < 0 || n > len(m.Pix)-at {
			return nil, localpage.BadRequest("run %d of a mask is %d, and %d pixels are left", i, n, len(m.Pix)-at)
		}
		if i%2 != 0 {
			for j := range m.Pix[at:][:n] {
				m.Pix[at+j] = 255
			}
		}
		at += n
	}
	if at != len(m.Pix) {
		return nil, localpage.BadRequest("the runs of a mask add up to %d; the image has %d pixels", at, len(m.Pix))
	}
	return m, nil
}

// file answers with a PNG of a mask that the page has.
func (p *Page) file(w http.ResponseWriter, r *http.Request) {
	s := p.image(w, r)
	if s == nil {
		return
	}
	var q struct {
		Runs []int  `json:"runs"`
		Save string `json:"save"` // "mask" is white inside and black outside, "cutout" the image, transparent outside
	}
	err := localpage.ReadJSON(http.MaxBytesReader(w, r.Body, maxRuns), &q)
	if err == nil && q.Save != "mask" && q.Save != "cutout" {
		err = localpage.BadRequest("save is %q; allowed are mask and cutout", q.Save)
	}
	var mask *image.Gray
	if err == nil {
		mask, err = maskOf(q.Runs, s.Picture().Rect.Size())
	}
	if err != nil {
		p.Fail(w, r, err)
		return
	}
	var picture image.Image = mask
	var enc png.Encoder // rlxrun writes masks with the same settings
	if q.Save == "cutout" {
		// better compression takes seconds for a photograph
		picture, enc.CompressionLevel = cutout(s.Picture(), mask), png.BestSpeed
	}
	var b bytes.Buffer
	if err := enc.Encode(&b, picture); err != nil {
		p.Fail(w, r, fmt.Errorf("the mask as PNG: %w", err))
		return
	}
	w.Header().Set("Content-Type", "image/png")
	w.Write(b.Bytes())
}

// cutout returns the image inside the mask and transparency outside.
func cutout(img *image.NRGBA, m *image.Gray) *image.NRGBA {
	out := image.NewNRGBA(m.Rect)
	for y := range m.Rect.Dy() {
		for x, v := range m.Pix[y*m.Stride:][:m.Rect.Dx()] {
			if v != 0 {
				copy(out.Pix[y*out.Stride+4*x:][:4], img.Pix[y*img.Stride+4*x:][:4])
			}
		}
	}
	return out
}
