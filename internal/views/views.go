// Package views reads the cameras of a folder of images, in COLMAP's text format or in the form transforms.json of
// programs for NeRF, and resamples images as a camera without distortion would see them.
//
// Errors about the contents are *diag.Error with code.Views.
package views

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/imaging"
	"github.com/rlx-go/rlx/internal/regular"
)

// Limits of a folder.
const (
	MaxFile  = 1 << 28 // bytes of one text file
	MaxViews = 1 << 20
	maxSide  = 1 << 15
)

// A View is a camera, with the name of its image.
type View struct {
	Name string // as the file of cameras gives it
	// Position is the place of the camera. Right, Down and Forward are its axes of length 1 in the world.
	Position, Right, Down, Forward [3]float64
	Lens                           Lens
}

// A Lens says which point of an image shows a direction.
type Lens struct {
	Width, Height  int
	Fx, Fy, Cx, Cy float64 // in pixels; the centre of the upper left pixel is (0.5,0.5)
	K1, K2, K3     float64 // radial distortion
	P1, P2         float64 // tangential distortion
}

// At returns the point of the image that shows the direction (x,y,1) in front of the camera (OpenCV's model).
func (l *Lens) At(x, y float64) (u, v float64) {
	r := x*x + y*y
	radial := 1 + r*(l.K1+r*(l.K2+r*l.K3))
	return l.Fx*(x*radial+2*l.P1*x*y+l.P2*(r+2*x*x)) + l.Cx, l.Fy*(y*radial+l.P1*(r+2*y*y)+2*l.P2*x*y) + l.Cy
}

// Check returns an error for a lens that no camera has.
func (l *Lens) check() error {
	if l.Width < 1 || l.Width > maxSide || l.Height < 1 || l.Height > maxSide {
		return fmt.Errorf("the image has %d x %d px; want 1 to %d", l.Width, l.Height, maxSide)
	}
	for _, x := range []float64{l.Fx, l.Fy} {
		if !(x > 1e-3 && x < 1e9) {
			return fmt.Errorf("the focal length is %v px; want a number above 0", x)
		}
	}
	for _, x := range []float64{l.Cx, l.Cy, l.K1, l.K2, l.K3, l.P1, l.P2} {
		if !(math.Abs(x) < 1e9) {
			return fmt.Errorf("a parameter of the lens is %v; want finite numbers", x)
		}
	}
	return nil
}

// A Point is a point of the scene that all cameras see.
type Point struct {
	At    [3]float64
	Color [3]float64 // red, green and blue, 0 to 1
}

// Set has the contents of a folder.
type Set struct {
	Views  []View
	Points []Point // of COLMAP; nil for other folders
	// Files lists the files that were read.
	Files []string
	dir   string
}

// transformsFile is the name of the other form.
const transformsFile = "transforms.json"

// colmapFolders are the places where COLMAP's files may be.
var colmapFolders = []string{"sparse/0", "sparse", "."}

// Is reports whether a path is a folder with cameras.
func Is(path string) bool {
	if exists(filepath.Join(path, transformsFile)) {
		return true
	}
	_, ok := findColmap(path)
	return ok
}

func exists(path string) bool {
	st, err := os.Stat(path)
	return err == nil && !st.IsDir()
}

// findColmap returns the folder of COLMAP's files, in text or binary form.
func findColmap(path string) (dir string, ok bool) {
	for _, below := range colmapFolders {
		dir := filepath.Join(path, filepath.FromSlash(below))
		if exists(filepath.Join(dir, "cameras.txt")) || exists(filepath.Join(dir, "cameras.bin")) {
			return dir, true
		}
	}
	return "", false
}

// Open reads the cameras of a folder. It opens no image, except for the size of the first if transforms.json does not
// say it.
func Open(dir string) (*Set, error) {
	s := &Set{dir: dir}
	var err error
	switch at, ok := findColmap(dir); {
	case ok:
		err = s.openColmap(at)
	case !Is(dir):
		return nil, diag.New(code.Views, dir, "has no cameras; want %s, or COLMAP's cameras.txt, images.txt and "+
			"points3D.txt in the folder itself, in sparse or in sparse/0", transformsFile)
	default:
		err = s.openTransforms(filepath.Join(dir, transformsFile))
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// read reads a file and remembers it.
func (s *Set) read(path string) ([]byte, error) {
	text, err := regular.ReadFile(path, MaxFile)
	if err != nil {
		return nil, diag.New(code.Views, path, "%w", err)
	}
	s.Files = append(s.Files, path)
	return text, nil
}

func (s *Set) openColmap(dir string) error {
	if !exists(filepath.Join(dir, "cameras.txt")) {
		return diag.New(code.Views, filepath.Join(dir, "cameras.bin"),
			"is COLMAP's binary format; want its text format").
			WithHint("colmap model_converter --input_path %s --output_path %s --output_type TXT", dir, dir)
	}
	var text [3][]byte
	for i, name := range []string{"cameras.txt", "images.txt", "points3D.txt"} {
		path := filepath.Join(dir, name)
		var err error
		if text[i], err = s.read(path); err != nil && !(i == 2 && errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	lenses, err := ParseCameras(text[0])
	if err != nil {
		return diag.New(code.Views, filepath.Join(dir, "cameras.txt"), "%w", err)
	}
	if s.Views, err = ParseImages(text[1], lenses); err != nil {
		return diag.New(code.Views, filepath.Join(dir, "images.txt"), "%w", err)
	}
	if s.Points, err = ParsePoints(text[2]); err != nil {
		return diag.New(code.Views, filepath.Join(dir, "points3D.txt"), "%w", err)
	}
	return nil
}

func (s *Set) openTransforms(path string) error {
	text, err := s.read(path)
	if err != nil {
		return err
	}
	size := func(name string) (width, height int, err error) { return imageSize(s.find(name)) }
	if s.Views, err = ParseTransforms(text, size); err != nil {
		if _, ok := errors.AsType[*diag.Error](err); ok {
			return err
		}
		return diag.New(code.Views, path, "%w", err)
	}
	return nil
}

// find returns the path of an image.
func (s *Set) find(name string) string {
	var first string
	for _, folder := range []string{"", "images"} {
		for _, ext := range append([]string{""}, imaging.Extensions...) {
			path := filepath.Join(s.dir, folder, filepath.FromSlash(name)+ext)
			if exists(path) {
				return path
			}
			if first == "" {
				first = path
			}
		}
	}
	return first
}

// Path returns the path of the image of view i.
func (s *Set) Path(i int) string { return s.find(s.Views[i].Name) }
