package segment

import (
	"image"
	"testing"

	"github.com/rlx-go/rlx/task"
)

func newSpec(size, maxPoints int) *spec { return (*spec)(task.NewSegment(size, maxPoints)) }

func BenchmarkPreprocess(b *testing.B) {
	s := newSpec(1024, 64)
	r := image.Rect(0, 0, 4000, 3000)
	for name, img := range map[string]image.Image{"rgb": image.NewNRGBA(r),
		"jpeg": image.NewYCbCr(r, image.YCbCrSubsampleRatio420), "rgba16": image.NewNRGBA64(r)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				s.preprocess(img)
			}
		})
	}
}

func BenchmarkPostprocess(b *testing.B) {
	s := newSpec(1024, 64)
	logits, iou := make([]float32, 4*256*256), make([]float32, 4)
	for b.Loop() {
		if _, err := s.postprocess(logits, 256, 256, iou, s.geometry(4000, 3000), Best); err != nil {
			b.Fatal(err)
		}
	}
}
