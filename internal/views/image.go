package views

import (
	"image"
	"image/color"
	"math"
	"path/filepath"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/imaging"
	"github.com/rlx-go/rlx/internal/regular"
)

// decode opens an image.
func decode(path string) (image.Image, error) {
	f, st, err := regular.Open(path)
	if err != nil {
		return nil, diag.New(code.Views, path, "cannot be read: %w", err)
	}
	defer f.Close()
	return imaging.Decode(path, f, imaging.Limits{FileSize: st.Size()})
}

// imageSize returns the size of an image.
func imageSize(path string) (width, height int, err error) {
	img, err := decode(path)
	if err != nil {
		return 0, 0, err
	}
	return img.Bounds().Dx(), img.Bounds().Dy(), nil
}

// Meta returns the camera of view i in the form of the op gaussian_splat_render, for images without distortion, with
// the view's vertical field of view and the principal point in the middle.
func (s *Set) Meta(i int, background [3]float64) []float32 {
	v := &s.Views[i]
	m := make([]float32, 23)
	// a target far away keeps the digits of the direction
	far := max(1, math.Sqrt(dot(v.Position, v.Position)))
	for k := range 3 {
		m[k], m[3+k] = float32(v.Position[k]), float32(v.Position[k]+far*v.Forward[k])
		m[6+k], m[12+k] = float32(v.Down[k]), float32(background[k])
	}
	m[9] = float32(360 / math.Pi * math.Atan(0.5*float64(v.Lens.Height)/v.Lens.Fy))
	m[18], m[19], m[21] = 1, 1.0/255, 1e-3
	return m
}

// Pixels reads the image of view i and resamples it for the camera of Meta: width*height*4 bytes with red, green and
// blue, before the background where the image is transparent, and 255, or 0 where the image shows nothing.
func (s *Set) Pixels(i, width, height int, background [3]float64) ([]byte, error) {
	path, l := s.Path(i), &s.Views[i].Lens
	img, err := decode(path)
	if err != nil {
		return nil, err
	}
	b := img.Bounds()
	if b.Dx() != l.Width || b.Dy() != l.Height {
		return nil, diag.New(code.Views, path, "has %d x %d px; its camera has %d x %d", b.Dx(), b.Dy(), l.Width,
			l.Height).WithHint("give the images with which the cameras of %s were found", filepath.Base(s.Files[0]))
	}
	src := flat(img, background)
	// several samples in each pixel where the image becomes smaller
	focal := l.Fy * float64(height) / float64(l.Height)
	n := max(1, int(math.Ceil(max(l.Fx, l.Fy)/focal-1e-9)))
	out := make([]byte, 4*width*height)
	for y := range height {
		for x := range width {
			copy(out[4*(y*width+x):], src.pixel(x, y, width, height, n, focal, l))
		}
	}
	return out, nil
}

// plane is an image of values 0 to 255, three for each pixel.
type plane struct {
	width, height int
	values        []float32
}

// flat puts an image before a background.
func flat(img image.Image, background [3]float64) *plane {
	b := img.Bounds()
	p := &plane{width: b.Dx(), height: b.Dy(), values: make([]float32, 0, 3*b.Dx()*b.Dy())}
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			c := color.NRGBAModel.Convert(img.At(x, y)).(color.NRGBA)
			share := float64(c.A) / 255
			for k, v := range []uint8{c.R, c.G, c.B} {
				p.values = append(p.values, float32(share*float64(v)+(1-share)*255*background[k]))
			}
		}
	}
	return p
}

// pixel returns one resampled pixel, the mean of n*n samples.
func (p *plane) pixel(x, y, width, height, n int, focal float64, l *Lens) []byte {
	var sum [3]float64
	for j := range n {
		for i := range n {
			dx := (float64(x) + (float64(i)+0.5)/float64(n) - 0.5*float64(width)) / focal
			dy := (float64(y) + (float64(j)+0.5)/float64(n) - 0.5*float64(height)) / focal
			u, v := l.At(dx, dy)
			c, ok := p.at(u-0.5, v-0.5)
			if !ok {
				return []byte{0, 0, 0, 0}
			}
			for k := range sum {
				sum[k] += c[k]
			}
		}
	}
	out := []byte{0, 0, 0, 255}
	for k := range sum {
		out[k] = byte(math.Round(min(max(sum[k]/float64(n*n), 0), 255)))
	}
	return out
}

// at returns the value at a point, in pixels from the centre of the upper left one, by bilinear interpolation. ok is
// false outside of the image.
func (p *plane) at(u, v float64) (c [3]float64, ok bool) {
	const edge = 0.5 + 1e-6
	if !(u >= -edge && v >= -edge && u <= float64(p.width)-1+edge && v <= float64(p.height)-1+edge) {
		return c, false
	}
	u, v = min(max(u, 0), float64(p.width-1)), min(max(v, 0), float64(p.height-1))
	x, y := int(u), int(v)
	fx, fy := u-float64(x), v-float64(y)
	x1, y1 := min(x+1, p.width-1), min(y+1, p.height-1)
	for k := range c {
		get := func(x, y int) float64 { return float64(p.values[3*(y*p.width+x)+k]) }
		c[k] = (get(x, y)*(1-fx)+get(x1, y)*fx)*(1-fy) + (get(x, y1)*(1-fx)+get(x1, y1)*fx)*fy
	}
	return c, true
}
