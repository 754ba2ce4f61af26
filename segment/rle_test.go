package segment

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"image"
	"image/color"
	"os"
	"slices"
	"testing"
)

// cocoCase is a mask as pycocotools encodes it (bench/goldens/coco.py).
type cocoCase struct {
	RLE
	Pixels string // bits, row after row, as hexadecimal digits
	Area   int
	BBox   [4]int
}

func (c cocoCase) mask(t *testing.T) *image.Gray {
	bits, err := hex.DecodeString(c.Pixels)
	if err != nil {
		t.Fatal(err)
	}
	m := image.NewGray(image.Rect(0, 0, c.Size[1], c.Size[0]))
	for i := range m.Pix {
		m.Pix[i] = bits[i/8] >> (7 - i%8) & 1 * 255
	}
	return m
}

func cocoCases(t *testing.T) (all []cocoCase) {
	t.Helper()
	data, err := os.ReadFile("testdata/coco.json")
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil || len(all) < 30 {
		t.Fatalf("%d cases: %v", len(all), err)
	}
	return all
}

func TestRLE(t *testing.T) {
	for i, c := range cocoCases(t) {
		m := c.mask(t)
		got := EncodeRLE(m)
		if got != c.RLE {
			t.Errorf("case %d, %v: %q; pycocotools has %q", i, c.Size, got.Counts, c.Counts)
		}
		runs, err := c.Runs()
		if err != nil {
			t.Fatalf("case %d: %v", i, err)
		}
		area := 0
		for k, n := range runs {
			area += n * (k % 2)
		}
		if area != c.Area {
			t.Errorf("case %d: runs %v have %d pixels inside; want %d", i, runs, area, c.Area)
		}
		if area, box, err := c.Measure(); err != nil || area != c.Area ||
			[4]int{box[0], box[1], box[2] - box[0], box[3] - box[1]} != c.BBox {
			t.Errorf("case %d: %d pixels in the box %v; pycocotools has %d in %v", i, area, box, c.Area, c.BBox)
		}
		back, err := c.Mask()
		if err != nil || !slices.Equal(back.Pix, m.Pix) {
			t.Errorf("case %d: the mask of %q differs; %v", i, c.Counts, err)
		}
	}
}

func TestRLERefused(t *testing.T) {
	for _, r := range []RLE{{}, {[2]int{2, 2}, ""}, {[2]int{2, 2}, "3"}, {[2]int{2, 2}, "5"}, {[2]int{2, 2}, "o"},
		{[2]int{2, 2}, "4P"}, {[2]int{2, 2}, "\x00"}, {[2]int{2, 2}, "-"}, {[2]int{-1, -4}, "4"},
		{[2]int{1 << 20, 1 << 20}, "4"}, {[2]int{2, 2}, "ooooooooooooo0"}, {[2]int{2, 2}, "0O5"},
		{[2]int{2, 2}, "2002"}} {
		if _, err := r.Mask(); !errors.Is(err, ErrImage) {
			t.Errorf("%v: %v", r, err)
		}
	}
}

// FuzzRLE checks that whatever Runs accepts is encoded back to the same mask.
func FuzzRLE(f *testing.F) {
	f.Add(2, 2, "112")
	f.Add(3, 4, "04")
	f.Add(33, 64, "kP1200O1")
	f.Fuzz(func(t *testing.T, h, w int, counts string) {
		if h > 1000 || w > 1000 {
			return
		}
		m, err := RLE{[2]int{h, w}, counts}.Mask()
		if err != nil {
			return
		}
		again, err := EncodeRLE(m).Mask()
		if err != nil || !slices.Equal(again.Pix, m.Pix) {
			t.Errorf("%d x %d %q: %v", h, w, counts, err)
		}
	})
}

// TestPolygons fills the polygons of masks: together they cover each pixel of the mask once, and those of its holes.
func TestPolygons(t *testing.T) {
	for i, c := range cocoCases(t) {
		if c.Size[0] > 1000 || c.Size[1] > 1000 {
			continue
		}
		m := c.mask(t)
		w, h := c.Size[1], c.Size[0]
		last := w * h
		covered := make([]bool, w*h)
		for _, line := range Polygons(m) {
			if len(line) < 8 || len(line)%4 != 0 {
				t.Fatalf("case %d: an outline with %d numbers", i, len(line))
			}
			n := 0
			for y := range h {
				inside := false
				for x := range w {
					for k := 0; k < len(line); k += 2 { // does a vertical edge lie at the left of this pixel?
						x0, y0, x1, y1 := line[k], line[k+1], line[(k+2)%len(line)], line[(k+3)%len(line)]
						inside = inside != (x0 == x && x1 == x && min(y0, y1) <= y && y < max(y0, y1))
					}
					if inside {
						n, covered[y*w+x] = n+1, true
					}
				}
			}
			if n > last || n == 0 {
				t.Errorf("case %d: an outline of %d pixels after one of %d", i, n, last)
			}
			last = n
		}
		outside := outsideOf(m)
		for p, v := range covered {
			if v != !outside[p] {
				t.Fatalf("case %d: pixel %d,%d is covered: %v; in the mask %v", i, p%w, p/w, v, m.Pix[p])
			}
		}
	}
}

// outsideOf returns the pixels outside of a mask from which a path leads to its edge. Paths go through corners, as
// polygons are joined along edges only.
func outsideOf(m *image.Gray) []bool {
	w, h := m.Rect.Dx(), m.Rect.Dy()
	out := make([]bool, w*h)
	var todo []image.Point
	visit := func(x, y int) {
		if x >= 0 && y >= 0 && x < w && y < h && m.Pix[y*m.Stride+x] == 0 && !out[y*w+x] {
			out[y*w+x] = true
			todo = append(todo, image.Pt(x, y))
		}
	}
	for x := range w {
		visit(x, 0)
		visit(x, h-1)
	}
	for y := range h {
		visit(0, y)
		visit(w-1, y)
	}
	for len(todo) > 0 {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for i := range 9 {
			visit(p.X+i%3-1, p.Y+i/3-1)
		}
	}
	return out
}

// TestPalette checks the formula at a few labels, that neighbours can be told apart, and both kinds of label image.
func TestPalette(t *testing.T) {
	p := Palette()
	if len(p) != 256 || p[0] != (color.NRGBA{A: 255}) || p[1] != (color.NRGBA{25, 92, 255, 255}) {
		t.Errorf("%d colours: %v", len(p), p[:3])
	}
	for i := 2; i < 256; i++ {
		a, b := p[i-1].(color.NRGBA), p[i].(color.NRGBA)
		d := 0
		for _, v := range []int{int(a.R) - int(b.R), int(a.G) - int(b.G), int(a.B) - int(b.B)} {
			d += v * v
		}
		if d < 100*100 {
			t.Errorf("labels %d and %d have the colours %v and %v", i-1, i, a, b)
		}
	}
	labels := image.NewGray16(image.Rect(0, 0, 3, 1))
	labels.SetGray16(1, 0, color.Gray16{Y: 1})
	labels.SetGray16(2, 0, color.Gray16{Y: 255})
	s := &Segmentation{Labels: labels, Regions: make([]Region, 255)}
	if got, ok := s.Picture().(*image.Paletted); !ok || !slices.Equal(got.Pix, []uint8{0, 1, 255}) {
		t.Errorf("picture %v", s.Picture())
	}
	white := image.NewGray(labels.Rect)
	white.Pix = []byte{255, 255, 255}
	o := s.Overlay(white)
	if o.NRGBAAt(0, 0) != (color.NRGBA{255, 255, 255, 255}) || o.NRGBAAt(1, 0) != p[1] {
		t.Errorf("overlay %v", o.Pix)
	}
	s.Regions = make([]Region, 256)
	if s.Picture() != image.Image(labels) {
		t.Error("256 regions do not fit a palette")
	}
}
