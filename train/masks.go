package train

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"image"
	"image/color"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/imaging"
	"github.com/rlx-go/rlx/internal/regular"
)

// A picture is an image with its objects.
type picture struct {
	name    string
	square  imaging.Square
	labels  []uint16 // of each pixel; 0 is the background
	objects []object
}

// object is the area of one colour in a mask.
type object struct {
	label          uint16
	x0, y0, x1, y1 int // bounds, x1 and y1 excluded
	pixels         int
}

// Limits of a mask.
const (
	maxObjects  = 1024
	leastPixels = 16 // smaller objects are left out
)

// findPictures returns the names of the images in a folder that have a mask in another, with the paths of both.
func findPictures(images, masks string) (names []string, err error) {
	all, err := os.ReadDir(images)
	if err != nil {
		return nil, diag.New(code.TrainMasks, images, "cannot be read: %w", cause(err))
	}
	for _, e := range all {
		if imaging.Named(e.Name()) {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		return nil, diag.New(code.TrainMasks, images, "has no images (%s)", strings.Join(imaging.Extensions, ", "))
	}
	for i, name := range names {
		if i > 0 && stem(names[i-1]) == stem(name) {
			return nil, diag.New(code.TrainMasks, filepath.Join(images, name), "has the name of another image, %s",
				names[i-1])
		}
		mask := filepath.Join(masks, stem(name)+".png")
		if _, err := os.Stat(mask); err != nil {
			return nil, diag.New(code.TrainMasks, mask, "cannot be read: %w", cause(err)).
				WithHint("each image needs a mask of its name that ends in .png")
		}
	}
	return names, nil
}

// cause returns what went wrong with a file, without its path.
func cause(err error) error {
	if e, ok := err.(*fs.PathError); ok {
		return e.Err
	}
	return err
}

func stem(name string) string { return strings.TrimSuffix(name, filepath.Ext(name)) }

// openImage decodes a file.
func openImage(path string) (image.Image, error) {
	f, st, err := regular.Open(path)
	if err != nil {
		return nil, diag.New(code.TrainMasks, path, "cannot be read: %w", err)
	}
	defer f.Close()
	return imaging.Decode(path, f, imaging.Limits{FileSize: st.Size()})
}

// openMask reads the objects of a mask for an image of the given size. Objects come in the order of their first pixels.
func openMask(path string, size image.Point) (p *picture, err error) {
	img, err := openImage(path)
	if err != nil {
		return nil, err
	}
	b := img.Bounds()
	if b.Size() != size {
		return nil, diag.New(code.TrainMasks, path, "has %d x %d px; its image has %d x %d", b.Dx(), b.Dy(), size.X,
			size.Y)
	}
	p = &picture{labels: make([]uint16, 0, size.X*size.Y)}
	known := map[color.NRGBA]uint16{{A: 255}: 0}
	var all []object
	for y := range size.Y {
		for x := range size.X {
			c := color.NRGBAModel.Convert(img.At(b.Min.X+x, b.Min.Y+y)).(color.NRGBA)
			if c.A == 0 {
				c = color.NRGBA{}
			}
			c.A = 255
			label, ok := known[c]
			if !ok {
				if len(all) == maxObjects {
					return nil, diag.New(code.TrainMasks, path, "has more than %d colours; want one for each object",
						maxObjects).WithHint("store masks without smooth edges")
				}
				label = uint16(len(known))
				known[c] = label
				all = append(all, object{label: label, x0: x, y0: y, x1: x + 1, y1: y + 1})
			}
			p.labels = append(p.labels, label)
			if label > 0 {
				o := &all[label-1]
				o.x0, o.x1, o.y1, o.pixels = min(o.x0, x), max(o.x1, x+1), y+1, o.pixels+1
			}
		}
	}
	p.objects = slices.DeleteFunc(all, func(o object) bool { return o.pixels < leastPixels })
	return p, nil
}

// hash adds a picture to a digest.
func (p *picture) hash(h hash.Hash) {
	h.Write([]byte(p.name))
	b := make([]byte, 0, 2*len(p.labels))
	for _, l := range p.labels {
		b = binary.LittleEndian.AppendUint16(b, l)
	}
	h.Write(b)
}

// prompt returns a prompt for an object, as points in pixels of the square with their labels: a random point of it and
// padding, or the corners of its box.
func (p *picture) prompt(o *object, r *rand.PCG) (points [4]float32, labels [2]int32) {
	sx, sy := float64(p.square.ScaledW)/float64(p.square.Width), float64(p.square.ScaledH)/float64(p.square.Height)
	if r.Uint64()%2 == 0 {
		return [4]float32{float32(float64(o.x0) * sx), float32(float64(o.y0) * sy), float32(float64(o.x1) * sx),
			float32(float64(o.y1) * sy)}, [2]int32{2, 3}
	}
	k := int(r.Uint64() % uint64(o.pixels))
	for y := o.y0; y < o.y1; y++ {
		for x := o.x0; x < o.x1; x++ {
			if p.labels[y*p.square.Width+x] != o.label {
				continue
			}
			if k == 0 {
				return [4]float32{float32(float64(x) * sx), float32(float64(y) * sy)}, [2]int32{1, -1}
			}
			k--
		}
	}
	panic("BUG: train: an object has fewer pixels than were counted")
}

// target appends the mask of an object at the resolution of the logits, side x side, and then where the square has an
// image. A pixel belongs to the object if at least half of it does.
func (p *picture) target(out []float32, o *object, side int) []float32 {
	g := p.square
	step := float64(g.Size) / float64(side) // pixels of the square
	fx, fy := float64(g.Width)/float64(g.ScaledW), float64(g.Height)/float64(g.ScaledH)
	n := min(max(int(math.Ceil(step*max(fx, fy))), 1), 16)
	at := len(out)
	out = append(out, make([]float32, 2*side*side)...)
	mask, weight := out[at:][:side*side], out[at+side*side:]
	for v := range side {
		for u := range side {
			hits, seen := 0, 0
			for j := range n {
				for i := range n {
					x := int((float64(u) + (float64(i)+0.5)/float64(n)) * step * fx)
					y := int((float64(v) + (float64(j)+0.5)/float64(n)) * step * fy)
					if x >= g.Width || y >= g.Height {
						continue
					}
					seen++
					if p.labels[y*g.Width+x] == o.label {
						hits++
					}
				}
			}
			if 2*seen >= n*n {
				weight[v*side+u] = 1
				if 2*hits >= seen {
					mask[v*side+u] = 1
				}
			}
		}
	}
	return out
}

// readPictures reads all masks, and gives each image to use.
func readPictures(ctx context.Context, images, masks string, size int, use func(img image.Image, p *picture) error) (
	all []*picture, digest string, err error) {
	names, err := findPictures(images, masks)
	if err != nil {
		return nil, "", err
	}
	h := sha256.New()
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, "", err
		}
		img, err := openImage(filepath.Join(images, name))
		if err != nil {
			return nil, "", err
		}
		p, err := openMask(filepath.Join(masks, stem(name)+".png"), img.Bounds().Size())
		if err != nil {
			return nil, "", err
		}
		p.name, p.square = name, imaging.SquareOf(img.Bounds().Dx(), img.Bounds().Dy(), size)
		p.hash(h)
		if err := use(img, p); err != nil {
			return nil, "", err
		}
		all = append(all, p)
	}
	return all, hex.EncodeToString(h.Sum(nil)), nil
}
