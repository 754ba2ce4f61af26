package views

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// transforms is transforms.json. A frame may have a lens of its own.
type transforms struct {
	lensJSON
	Frames []frameJSON `json:"frames"`
}

type frameJSON struct {
	lensJSON
	Path   string      `json:"file_path"`
	Matrix [][]float64 `json:"transform_matrix"` // camera to world; y points up and z back
}

type lensJSON struct {
	Model   string   `json:"camera_model"`
	AngleX  float64  `json:"camera_angle_x"` // radians
	AngleY  float64  `json:"camera_angle_y"`
	Width   float64  `json:"w"`
	Height  float64  `json:"h"`
	Fx      float64  `json:"fl_x"`
	Fy      float64  `json:"fl_y"`
	Cx      *float64 `json:"cx"`
	Cy      *float64 `json:"cy"`
	K1      float64  `json:"k1"`
	K2      float64  `json:"k2"`
	K3      float64  `json:"k3"`
	K4      float64  `json:"k4"`
	P1      float64  `json:"p1"`
	P2      float64  `json:"p2"`
	FishEye bool     `json:"is_fisheye"`
}

// given reports whether a frame has a lens of its own.
func (l *lensJSON) given() bool { return l.Fx != 0 || l.AngleX != 0 || l.Fy != 0 || l.AngleY != 0 }

// lens returns the lens for an image of the given size.
func (l *lensJSON) lens(width, height int) (Lens, error) {
	known := map[string]bool{"": true, "OPENCV": true, "PINHOLE": true, "SIMPLE_PINHOLE": true, "perspective": true}
	if !known[l.Model] || l.FishEye || l.K4 != 0 {
		return Lens{}, fmt.Errorf("camera_model is %.40q, is_fisheye %v and k4 %v; want OPENCV, PINHOLE or SIMPLE_PINHOLE, without a fish eye",
			l.Model, l.FishEye, l.K4)
	}
	focal := func(side int, angle float64) float64 {
		if angle == 0 {
			return 0
		}
		return 0.5 * float64(side) / math.Tan(0.5*angle)
	}
	fx := cmp.Or(l.Fx, focal(width, l.AngleX))
	fy := cmp.Or(l.Fy, focal(height, l.AngleY))
	out := Lens{Width: width, Height: height, Fx: cmp.Or(fx, fy), Fy: cmp.Or(fy, fx),
		Cx: 0.5 * float64(width), Cy: 0.5 * float64(height), K1: l.K1, K2: l.K2, K3: l.K3, P1: l.P1, P2: l.P2}
	if l.Cx != nil {
		out.Cx = *l.Cx
	}
	if l.Cy != nil {
		out.Cy = *l.Cy
	}
	if out.Fx == 0 {
		return out, errors.New("there is neither fl_x nor camera_angle_x")
	}
	return out, out.check()
}

// ParseTransforms reads transforms.json. size returns the size of an image, which is asked for where the file does not
// say it.
func ParseTransforms(text []byte, size func(name string) (width, height int, err error)) (out []View, err error) {
	var t transforms
	if err := json.Unmarshal(text, &t); err != nil {
		return nil, fmt.Errorf("is not JSON of cameras: %w", err)
	}
	if len(t.Frames) == 0 || len(t.Frames) > MaxViews {
		return nil, fmt.Errorf("has %d frames; want 1 to %d", len(t.Frames), MaxViews)
	}
	names := map[string]bool{}
	var width, height int // size of the first image, for images whose size the file does not give
	for i := range t.Frames {
		f := &t.Frames[i]
		bad := func(err error) error { return fmt.Errorf("frame %d, %.80q: %w", i, f.Path, err) }
		if f.Path == "" || names[f.Path] {
			return nil, bad(errors.New("file_path is empty or appears twice"))
		}
		names[f.Path] = true
		lens := &t.lensJSON
		if f.given() {
			lens = &f.lensJSON
		}
		w, h := whole(cmp.Or(lens.Width, t.Width)), whole(cmp.Or(lens.Height, t.Height))
		if w == 0 || h == 0 {
			if width == 0 {
				if width, height, err = size(f.Path); err != nil {
					return nil, err
				}
			}
			w, h = width, height
		}
		v := View{Name: f.Path}
		if v.Lens, err = lens.lens(w, h); err == nil {
			err = v.place(f.Matrix)
		}
		if err != nil {
			return nil, bad(err)
		}
		out = append(out, v)
	}
	return out, nil
}

// whole returns a size in pixels, which some programs write as 800.0, or -1.
func whole(x float64) int {
	if x != math.Trunc(x) || math.Abs(x) > maxSide {
		return -1
	}
	return int(x)
}

// place sets the position and the axes from a matrix of three or four rows.
func (v *View) place(m [][]float64) error {
	if len(m) != 3 && len(m) != 4 {
		return fmt.Errorf("transform_matrix has %d rows; want 4", len(m))
	}
	for _, row := range m {
		if len(row) != 4 {
			return fmt.Errorf("transform_matrix has a row of %d numbers; want 4", len(row))
		}
		for _, x := range row {
			if math.IsNaN(x) || math.Abs(x) > math.MaxFloat32 {
				return fmt.Errorf("transform_matrix has %v; want finite numbers", x)
			}
		}
	}
	column := func(k int, sign float64) [3]float64 {
		return [3]float64{sign * m[0][k], sign * m[1][k], sign * m[2][k]}
	}
	right, down, forward := column(0, 1), column(1, -1), column(2, -1)
	v.Position = column(3, 1)
	across := cross(down, forward)
	volume := math.Sqrt(dot(down, down) * dot(forward, forward) * dot(right, right))
	if !(dot(across, right) > 0.9*volume) || volume < 1e-9 {
		return errors.New("transform_matrix is not a rotation")
	}
	v.Forward = unit(forward)
	v.Right = unit(across)
	v.Down = cross(v.Forward, v.Right)
	return nil
}

func dot(a, b [3]float64) float64 { return a[0]*b[0] + a[1]*b[1] + a[2]*b[2] }

func cross(a, b [3]float64) [3]float64 {
	return [3]float64{a[1]*b[2] - a[2]*b[1], a[2]*b[0] - a[0]*b[2], a[0]*b[1] - a[1]*b[0]}
}

func unit(a [3]float64) [3]float64 {
	n := math.Sqrt(dot(a, a))
	return [3]float64{a[0] / n, a[1] / n, a[2] / n}
}
