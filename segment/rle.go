package segment

import (
	"bytes"
	"image"
	"slices"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
)

// RLE is a mask in the run-length encoding of the COCO data set (Lin et al., arXiv:1405.0312), as pycocotools reads and
// writes it: the lengths of runs of pixels outside, inside, outside and so on, down the columns, the left one first.
type RLE struct {
	Size [2]int `json:"size"` // height and width in pixels
	// Counts has the runs as text. From the fourth on, a run is given by its difference to the one two before. A number
	// is written in groups of 5 bits, the lowest first, in two's complement. Each group is a byte from '0' to 'o', with
	// 32 added if another one follows.
	Counts string `json:"counts"`
}

// EncodeRLE encodes a mask. Pixels other than 0 are inside.
func EncodeRLE(m *image.Gray) RLE {
	return RLE{[2]int{m.Rect.Dy(), m.Rect.Dx()}, compress(columnRuns(m))}
}

// columnRuns returns the lengths of runs down the columns. It goes through the mask by rows, in the order of memory,
// and keeps the places at which a pixel differs from the one above it.
func columnRuns(m *image.Gray) []int {
	w, h := m.Rect.Dx(), m.Rect.Dy()
	if w == 0 || h == 0 {
		return nil
	}
	row := func(y int) []byte { return m.Pix[y*m.Stride:][:w] }
	changes := make([][]int, w) // rows, for each column
	for y := 1; y < h; y++ {
		above, here := row(y-1), row(y)
		if bytes.Equal(above, here) {
			continue
		}
		for x, v := range here {
			if (v != 0) != (above[x] != 0) {
				changes[x] = append(changes[x], y)
			}
		}
	}
	var runs []int
	began, inside := 0, false // of the current run
	end := func(at int) { runs, began, inside = append(runs, at-began), at, !inside }
	for x, top := range row(0) {
		if (top != 0) != inside {
			end(x * h)
		}
		for _, y := range changes[x] {
			end(x*h + y)
		}
	}
	end(w * h)
	return runs
}

// compress writes runs as RLE.Counts does.
func compress(runs []int) string {
	var out []byte
	for i, n := range runs {
		if i > 2 {
			n -= runs[i-2]
		}
		for more := true; more; {
			group := n & 0x1f
			n >>= 5
			sign := 0
			if group&0x10 != 0 {
				sign = -1
			}
			if more = n != sign; more {
				group |= 0x20
			}
			out = append(out, byte('0'+group))
		}
	}
	return string(out)
}

// maxMaskPixels bounds the masks that an RLE may describe. It is the limit of images.
const maxMaskPixels = 1 << 28

// Runs returns the lengths of the runs, COCO's uncompressed counts. If r is not a mask, whose runs have as many pixels
// as its size says, the error matches ErrImage.
func (r RLE) Runs() ([]int, error) {
	bad := func(format string, args ...any) ([]int, error) {
		return nil, diag.New(code.Image, "run lengths", format, args...)
	}
	h, w := int64(r.Size[0]), int64(r.Size[1])
	if h < 1 || w < 1 || h > maxMaskPixels || w > maxMaskPixels || h*w > maxMaskPixels {
		return bad("are of a mask of %d x %d pixels; the limit is 2^28 pixels", w, h)
	}
	var out []int
	left := int(h * w)
	for at := 0; at < len(r.Counts); {
		n, shift := 0, 0
		for more := true; more; shift += 5 {
			if at == len(r.Counts) {
				return bad("end within a number")
			}
			group := int(r.Counts[at]) - '0'
			if group < 0 || group >= 64 || shift > 30 {
				return bad("have no number at byte %d", at)
			}
			at++
			n |= group & 0x1f << shift
			if more = group&0x20 != 0; !more && group&0x10 != 0 {
				n |= -1 << (shift + 5)
			}
		}
		if len(out) > 2 {
			n += out[len(out)-2]
		}
		if n == 0 && len(out) > 0 { // so that the list is no longer than the mask
			return bad("have an empty run after the first")
		}
		if n < 0 || n > left {
			return bad("have a run of %d pixels where %d are left", n, left)
		}
		out, left = append(out, n), left-n
	}
	if left > 0 {
		return bad("are %d pixels short", left)
	}
	return out, nil
}

// Measure returns the number of pixels inside and their box: x0, y0, x1, y1, of which x1 and y1 are exclusive. The box
// of an empty mask is zero. Errors are those of Runs.
func (r RLE) Measure() (area int, box [4]int, err error) {
	runs, err := r.Runs()
	if err != nil {
		return 0, box, err
	}
	h := r.Size[0]
	box = [4]int{r.Size[1], h, 0, 0}
	at := 0
	for i, n := range runs {
		if i%2 == 1 && n > 0 {
			first, last := at, at+n-1
			y0, y1 := first%h, last%h+1
			if first/h != last/h { // it goes on in the next column
				y0, y1 = 0, h
			}
			area += n
			box = [4]int{min(box[0], first/h), min(box[1], y0), max(box[2], last/h+1), max(box[3], y1)}
		}
		at += n
	}
	if area == 0 {
		box = [4]int{}
	}
	return area, box, nil
}

// Mask returns the mask, 255 inside and 0 outside. Errors are those of Runs.
func (r RLE) Mask() (*image.Gray, error) {
	runs, err := r.Runs()
	if err != nil {
		return nil, err
	}
	h := r.Size[0]
	m := image.NewGray(image.Rect(0, 0, r.Size[1], h))
	at := 0
	for i, n := range runs {
		if i%2 == 1 {
			for p := at; p < at+n; p++ {
				m.Pix[p%h*m.Stride+p/h] = 255
			}
		}
		at += n
	}
	return m, nil
}

// Polygons returns the outlines of a mask as COCO's polygons: x0, y0, x1, y1 and so on, along the edges of its pixels,
// so that a polygon covers exactly the pixels in it. There is one polygon for each part of the mask, the largest first.
// Parts that touch only at a corner are separate. COCO's polygons cannot have holes, so the holes of the mask are
// filled.
func Polygons(m *image.Gray) [][]int {
	w, h := m.Rect.Dx(), m.Rect.Dy()
	in := func(x, y int) bool { return x >= 0 && y >= 0 && x < w && y < h && m.Pix[y*m.Stride+x] != 0 }
	seen := make([]bool, w*h) // pixels whose upper edge belongs to an outline that was followed
	type outline struct {
		area int // doubled; negative for the outline of a hole
		line []int
	}
	var all []outline
	for y := range h {
		for x := range w {
			if !in(x, y) || in(x, y-1) || seen[y*w+x] {
				continue
			}
			var o outline
			// Go along the edges with the mask on the right hand.
			dx, dy := 1, 0
			for px, py, begun := x, y, false; !begun || px != x || py != y || dx != 1; begun = true {
				if dx == 1 {
					seen[py*w+px] = true
				}
				o.area += px*(py+dy) - (px+dx)*py
				px, py = px+dx, py+dy
				// the pixels ahead, on the right and on the left
				rx, ry := px+(dx-dy-1)/2, py+(dx+dy-1)/2
				lx, ly := px+(dx+dy-1)/2, py+(dy-dx-1)/2
				switch {
				case !in(rx, ry):
					o.line = append(o.line, px, py)
					dx, dy = -dy, dx
				case in(lx, ly):
					o.line = append(o.line, px, py)
					dx, dy = dy, -dx
				}
			}
			if o.area > 0 {
				all = append(all, o)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b outline) int { return b.area - a.area })
	var out [][]int
	for _, o := range all {
		out = append(out, o.line)
	}
	return out
}
