package segment

import (
	"image"

	"github.com/rlx-go/rlx/internal/imaging"
	"github.com/rlx-go/rlx/task"
)

// geometry relates an image to the square input of a model.
type geometry = imaging.Square

// geometry returns the position of an image of w x h pixels in the square.
func (s *spec) geometry(w, h int) geometry {
	if s.Resize == task.ResizeStretch {
		return imaging.StretchedTo(w, h, s.Size)
	}
	return imaging.SquareOf(w, h, s.Size)
}

// preprocess returns the input tensor [1,3,Size,Size] for an image.
func (s *spec) preprocess(img image.Image) ([]float32, geometry) {
	b := img.Bounds()
	g := s.geometry(b.Dx(), b.Dy())
	return g.Pixels(img, s.Mean, s.Std), g
}
