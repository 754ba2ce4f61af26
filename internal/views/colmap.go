package views

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// colmapModel describes the parameters of a camera model of COLMAP.
type colmapModel struct {
	params int
	set    func(l *Lens, p []float64)
}

// colmapModels are COLMAP's camera models without a fish eye.
var colmapModels = map[string]colmapModel{
	"SIMPLE_PINHOLE": {3, func(l *Lens, p []float64) { l.Fx, l.Fy, l.Cx, l.Cy = p[0], p[0], p[1], p[2] }},
	"PINHOLE":        {4, func(l *Lens, p []float64) { l.Fx, l.Fy, l.Cx, l.Cy = p[0], p[1], p[2], p[3] }},
	"SIMPLE_RADIAL": {4, func(l *Lens, p []float64) {
		l.Fx, l.Fy, l.Cx, l.Cy, l.K1 = p[0], p[0], p[1], p[2], p[3]
	}},
	"RADIAL": {5, func(l *Lens, p []float64) {
		l.Fx, l.Fy, l.Cx, l.Cy, l.K1, l.K2 = p[0], p[0], p[1], p[2], p[3], p[4]
	}},
	"OPENCV": {8, func(l *Lens, p []float64) {
		l.Fx, l.Fy, l.Cx, l.Cy, l.K1, l.K2, l.P1, l.P2 = p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]
	}},
}

// lines calls f with the words of each line that is neither empty nor a comment. Errors name the line.
func lines(text []byte, f func(n int, words []string) error) error {
	n := 0
	for line := range bytes.Lines(text) {
		n++
		words := strings.Fields(string(line))
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		if err := f(n, words); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return nil
}

// numbers parses finite numbers.
func numbers(words []string) ([]float64, error) {
	out := make([]float64, len(words))
	for i, w := range words {
		x, err := strconv.ParseFloat(w, 64)
		if err != nil || math.IsNaN(x) || math.Abs(x) > math.MaxFloat32 {
			return nil, fmt.Errorf("has %.40q; want a finite number", w)
		}
		out[i] = x
	}
	return out, nil
}

// ParseCameras reads cameras.txt. It returns the lenses by the cameras' ids.
func ParseCameras(text []byte) (map[string]Lens, error) {
	out := map[string]Lens{}
	err := lines(text, func(_ int, w []string) error {
		if len(w) < 4 {
			return fmt.Errorf("has %d values; want CAMERA_ID MODEL WIDTH HEIGHT PARAMS", len(w))
		}
		model, ok := colmapModels[w[1]]
		if !ok {
			return fmt.Errorf("camera model %.40q is not supported; allowed are SIMPLE_PINHOLE, PINHOLE, "+
				"SIMPLE_RADIAL, RADIAL and OPENCV (colmap image_undistorter makes PINHOLE of others)", w[1])
		}
		if len(w) != 4+model.params {
			return fmt.Errorf("%s has %d parameters; want %d", w[1], len(w)-4, model.params)
		}
		if _, twice := out[w[0]]; twice {
			return fmt.Errorf("camera %.40s appears twice", w[0])
		}
		var l Lens
		var err error
		if l.Width, err = strconv.Atoi(w[2]); err == nil {
			l.Height, err = strconv.Atoi(w[3])
		}
		if err != nil {
			return fmt.Errorf("the image has %.20q x %.20q px; want whole numbers", w[2], w[3])
		}
		p, err := numbers(w[4:])
		if err != nil {
			return err
		}
		model.set(&l, p)
		out[w[0]] = l
		return l.check()
	})
	if err == nil && len(out) == 0 {
		err = errors.New("has no cameras")
	}
	return out, err
}

// ParseImages reads images.txt, which has two lines for each image; the second lists points and may be empty.
func ParseImages(text []byte, lenses map[string]Lens) (out []View, err error) {
	points := false // whether a line lists the points of the image before it
	names := map[string]bool{}
	n := 0
	for line := range bytes.Lines(text) {
		n++
		words := strings.Fields(string(line))
		switch {
		case points:
			points = false
			continue
		case len(words) == 0 || words[0][0] == '#':
			continue
		}
		v, err := parseImage(words, lenses)
		switch {
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", n, err)
		case names[v.Name]:
			return nil, fmt.Errorf("line %d: image %.80q appears twice", n, v.Name)
		case len(out) == MaxViews:
			return nil, fmt.Errorf("has more than %d images", MaxViews)
		}
		names[v.Name], points = true, true
		out = append(out, v)
	}
	if len(out) == 0 {
		return nil, errors.New("has no images")
	}
	return out, nil
}

// parseImage reads IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME. The rotation and the translation lead from the world
// to the camera, whose y points down.
func parseImage(w []string, lenses map[string]Lens) (v View, err error) {
	if len(w) < 10 {
		return v, fmt.Errorf("has %d values; want IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME", len(w))
	}
	p, err := numbers(w[1:8])
	if err != nil {
		return v, err
	}
	lens, ok := lenses[w[8]]
	if !ok {
		return v, fmt.Errorf("camera %.40s is not in cameras.txt", w[8])
	}
	q := p[:4]
	length := math.Sqrt(q[0]*q[0] + q[1]*q[1] + q[2]*q[2] + q[3]*q[3])
	if !(length > 1e-6) {
		return v, errors.New("the quaternion is 0")
	}
	a, b, c, d := q[0]/length, q[1]/length, q[2]/length, q[3]/length
	v = View{Name: strings.Join(w[9:], " "), Lens: lens,
		Right:   [3]float64{1 - 2*(c*c+d*d), 2 * (b*c - a*d), 2 * (b*d + a*c)},
		Down:    [3]float64{2 * (b*c + a*d), 1 - 2*(b*b+d*d), 2 * (c*d - a*b)},
		Forward: [3]float64{2 * (b*d - a*c), 2 * (c*d + a*b), 1 - 2*(b*b+c*c)}}
	for i := range v.Position {
		v.Position[i] = -(v.Right[i]*p[4] + v.Down[i]*p[5] + v.Forward[i]*p[6])
	}
	return v, nil
}

// ParsePoints reads points3D.txt: POINT3D_ID X Y Z R G B ERROR and a track.
func ParsePoints(text []byte) (out []Point, err error) {
	err = lines(text, func(_ int, w []string) error {
		if len(w) < 8 {
			return fmt.Errorf("has %d values; want POINT3D_ID X Y Z R G B ERROR TRACK", len(w))
		}
		x, err := numbers(w[1:7])
		if err != nil {
			return err
		}
		p := Point{At: [3]float64(x[:3])}
		for i, c := range x[3:] {
			if c < 0 || c > 255 {
				return fmt.Errorf("has the colour %v; want 0 to 255", c)
			}
			p.Color[i] = c / 255
		}
		out = append(out, p)
		return nil
	})
	return out, err
}
