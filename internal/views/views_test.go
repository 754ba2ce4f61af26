package views

import (
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/splat"
)

const cameras = `# Camera list with one line of data per camera:
1 PINHOLE 80 60 90 90 40 30
2 OPENCV 80 60 90 91 41 29.5 0.01 -0.002 0.001 -0.003
`

const images = `# Image list
# Number of images: 2
1 0.5 0.5 -0.5 0.5 1 2 3 1 a.png
10 20 -1 11 21 4
2 1 0 0 0 0 0 5 2 b c.png

`

// TestColmap compares cameras with COLMAP's definition: a point X of the world is at R X + t in the camera, which
// projects it to (fx x/z + cx, fy y/z + cy).
func TestColmap(t *testing.T) {
	lenses, err := ParseCameras([]byte(cameras))
	if err != nil {
		t.Fatal(err)
	}
	all, err := ParseImages([]byte(images), lenses)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || all[0].Name != "a.png" || all[1].Name != "b c.png" || all[1].Lens.P2 != -0.003 {
		t.Fatalf("%+v", all)
	}
	// the quaternion (1,1,-1,1)/2 turns x to -y, y to -z... : its matrix, written out
	r := [3][3]float64{{0, -1, 0}, {0, 0, -1}, {1, 0, 0}}
	move := [3]float64{1, 2, 3}
	set := Set{Views: all}
	meta := set.Meta(0, [3]float64{})
	v, err := splat.NewView(meta, 80, 60)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(4, 4))
	for range 20 {
		var x, c [3]float64
		for k := range x {
			x[k] = rng.Float64()*4 - 2
		}
		for i := range c {
			c[i] = move[i]
			for k := range x {
				c[i] += r[i][k] * x[k]
			}
		}
		if c[2] < 0.1 {
			continue
		}
		px, py := 90*c[0]/c[2]+40, 90*c[1]/c[2]+30
		// where the renderer's ray of this pixel meets the plane of the point
		for k := range x {
			got := v.Position[k] + c[2]*(v.Forward[k]+v.Right[k]*(px-40)/v.Focal+v.Down[k]*(py-30)/v.Focal)
			if math.Abs(got-x[k]) > 1e-5 {
				t.Errorf("the ray of %v passes %v; want %v", [2]float64{px, py}, got, x[k])
			}
		}
	}
}

func identity(rows string) string {
	return `{"w":80,"h":60.0,"fl_x":90,"frames":[{"file_path":"a.png","transform_matrix":` + rows + `}]}`
}

const straight = `[[1,0,0,1],[0,1,0,2],[0,0,1,3],[0,0,0,1]]`

// TestTransforms reads transforms.json, whose cameras look along -z with y up.
func TestTransforms(t *testing.T) {
	all, err := ParseTransforms([]byte(identity(straight)), nil)
	if err != nil {
		t.Fatal(err)
	}
	v := all[0]
	if v.Position != [3]float64{1, 2, 3} || v.Forward != [3]float64{0, 0, -1} || v.Right != [3]float64{1, 0, 0} ||
		v.Down != [3]float64{0, -1, 0} || v.Lens.Fy != 90 || v.Lens.Cx != 40 || v.Lens.Height != 60 {
		t.Errorf("%+v", v)
	}
	// an angle instead of a focal length, and the size of the image itself
	text := `{"camera_angle_x":1.5707963267948966,"frames":[{"file_path":"x","transform_matrix":` + straight + `}]}`
	all, err = ParseTransforms([]byte(text), func(string) (int, int, error) { return 100, 50, nil })
	if err != nil || math.Abs(all[0].Lens.Fx-50) > 1e-9 || math.Abs(all[0].Lens.Fy-50) > 1e-9 {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestBad checks the messages about files that are not usable.
func TestBad(t *testing.T) {
	parse := map[string]func(text string) error{
		"cameras": func(text string) error { _, err := ParseCameras([]byte(text)); return err },
		"images": func(text string) error {
			lenses, err := ParseCameras([]byte(cameras))
			if err == nil {
				_, err = ParseImages([]byte(text), lenses)
			}
			return err
		},
		"points": func(text string) error { _, err := ParsePoints([]byte(text)); return err },
		"json": func(text string) error {
			none := func(string) (int, int, error) { return 0, 0, errors.New("no size") }
			_, err := ParseTransforms([]byte(text), none)
			return err
		},
	}
	for _, c := range []struct{ file, text, want string }{
		{"cameras", "# nothing\n", "has no cameras"},
		{"cameras", "1 OPENCV_FISHEYE 8 6 1 2 3 4 5 6 7 8", `line 1: camera model "OPENCV_FISHEYE" is not supported`},
		{"cameras", "1 PINHOLE 8 6 1 2 3", "PINHOLE has 3 parameters; want 4"},
		{"cameras", "1 PINHOLE 8 6 1 2 3 NaN", `has "NaN"; want a finite number`},
		{"cameras", "1 PINHOLE 8 6 0 2 3 4", "the focal length is 0 px"},
		{"cameras", "1 PINHOLE 8 6.5 1 2 3 4", "want whole numbers"},
		{"cameras", "1 PINHOLE 0 6 1 2 3 4", "0 x 6 px; want 1 to"},
		{"cameras", "1 PINHOLE 8 6 1 2 3 4\n1 PINHOLE 8 6 1 2 3 4", "line 2: camera 1 appears twice"},
		{"cameras", "1 PINHOLE", "has 2 values"},
		{"images", "", "has no images"},
		{"images", "1 0 0 0 0 1 2 3 1 a.png\n\n", "line 1: the quaternion is 0"},
		{"images", "1 1 0 0 0 1 2 3 7 a.png\n\n", "camera 7 is not in cameras.txt"},
		{"images", "1 1 0 0 0 1 2 3 1\n\n", "has 9 values"},
		{"images", "1 1 0 0 0 1 2 inf 1 a.png\n\n", "finite"},
		{"images", "1 1 0 0 0 1 2 3 1 a.png\n\n2 1 0 0 0 1 2 3 1 a.png\n\n", `line 3: image "a.png" appears twice`},
		{"points", "1 0 0 0 256 0 0 0.5", "has the colour 256"},
		{"points", "1 0 0 0 25 0", "has 6 values"},
		{"json", "{", "is not JSON"},
		{"json", `{"frames":[]}`, "has 0 frames"},
		{"json", `{"w":8,"h":6,"frames":[{"file_path":"a"}]}`, "neither fl_x nor camera_angle_x"},
		{"json", `{"fl_x":8,"frames":[{"file_path":"a"}]}`, "no size"},
		{"json", `{"w":8.5,"h":6,"fl_x":3,"frames":[{"file_path":"a"}]}`, "-1 x 6 px"},
		{"json", `{"w":8,"h":6,"fl_x":3,"frames":[{"file_path":""}]}`, "file_path is empty"},
		{"json", `{"w":8,"h":6,"fl_x":3,"camera_model":"OPENCV_FISHEYE","frames":[{"file_path":"a"}]}`, "fish eye"},
		{"json", identity(`[[1,0,0,1]]`), "has 1 rows"},
		{"json", identity(`[[1,0,0],[1],[2]]`), "a row of 3 numbers"},
		{"json", identity(`[[-1,0,0,1],[0,1,0,2],[0,0,1,3]]`), "is not a rotation"},
		{"json", identity(`[[0,0,0,0],[0,0,0,0],[0,0,0,0]]`), "is not a rotation"},
	} {
		if err := parse[c.file](c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q: error is %v; want %q", c.file, c.text, err, c.want)
		}
	}
}

// folder writes transforms.json for one image, which shows a function of its pixels.
func folder(t *testing.T, lens string, w, h int, pixel func(x, y int) color.Color) *Set {
	t.Helper()
	dir := t.TempDir()
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			img.Set(x, y, pixel(x, y))
		}
	}
	f, err := os.Create(filepath.Join(dir, "a.png"))
	if err == nil {
		err = png.Encode(f, img)
	}
	if err == nil {
		err = f.Close()
	}
	text := fmt.Sprintf(`{%s,"frames":[{"file_path":"a","transform_matrix":%s}]}`, lens, straight)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, transformsFile), []byte(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestPixels checks that an image of the wanted camera stays the same, that others are resampled where OpenCV's model
// puts each direction, and that transparent pixels show the background.
func TestPixels(t *testing.T) {
	ramp := func(x, y int) color.Color { return color.NRGBA{uint8(3 * x), uint8(4 * y), 7, 255} }
	same := folder(t, `"fl_x":50`, 40, 30, ramp)
	out, err := same.Pixels(0, 40, 30, [3]float64{})
	if err != nil {
		t.Fatal(err)
	}
	for y := range 30 {
		for x := range 40 {
			if got, want := [4]byte(out[4*(y*40+x):]), [4]byte{uint8(3 * x), uint8(4 * y), 7, 255}; got != want {
				t.Fatalf("pixel %d,%d is %v; want %v", x, y, got, want)
			}
		}
	}
	bent := folder(t, `"fl_x":55,"fl_y":50,"cx":22,"cy":14,"k1":0.1,"k2":-0.05,"p1":0.01,"p2":0.02`, 40, 30, ramp)
	if out, err = bent.Pixels(0, 40, 30, [3]float64{}); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for y := range 30 {
		for x := range 40 {
			dx, dy := (float64(x)+0.5-20)/50, (float64(y)+0.5-15)/50
			r := dx*dx + dy*dy
			d := 1 + 0.1*r - 0.05*r*r
			u := 55*(dx*d+2*0.01*dx*dy+0.02*(r+2*dx*dx)) + 22 - 0.5
			v := 50*(dy*d+0.01*(r+2*dy*dy)+2*0.02*dx*dy) + 14 - 0.5
			got := [4]byte(out[4*(y*40+x):])
			if got[3] == 0 {
				if u > 0 && v > 0 && u < 39 && v < 29 {
					t.Fatalf("pixel %d,%d has no weight", x, y)
				}
				continue
			}
			seen++
			// the mean of 2 x 2 samples of a linear image, inside of it
			if u > 0.5 && v > 0.5 && u < 38 && v < 28 &&
				(math.Abs(float64(got[0])-3*u) > 0.75 || math.Abs(float64(got[1])-4*v) > 0.75) {
				t.Errorf("pixel %d,%d is %v; want %v, %v", x, y, got, 3*u, 4*v)
			}
		}
	}
	if seen < 900 {
		t.Errorf("%d pixels have a weight", seen)
	}
	clear := folder(t, `"fl_x":50`, 4, 3, func(int, int) color.Color { return color.NRGBA{200, 100, 0, 128} })
	out, err = clear.Pixels(0, 4, 3, [3]float64{0, 1, 1})
	if err != nil || [4]byte(out) != [4]byte{100, 177, 127, 255} {
		t.Errorf("%v, %v", out[:4], err)
	}
}

// TestFolders checks folders that lack something.
func TestFolders(t *testing.T) {
	write := func(files map[string]string) string {
		dir := t.TempDir()
		for name, text := range files {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	if Is(t.TempDir()) {
		t.Error("an empty folder has cameras")
	}
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"binary":    {map[string]string{"sparse/0/cameras.bin": "x"}, "is COLMAP's binary format"},
		"no images": {map[string]string{"sparse/cameras.txt": cameras}, "images.txt"},
		"no image": {map[string]string{"cameras.txt": cameras, "images.txt": images},
			"cannot be read"},
		"no picture": {map[string]string{"cameras.txt": cameras, "images.txt": images, "images/a.png": "hello"},
			"a.png"},
	} {
		dir := write(c.files)
		if !Is(dir) {
			t.Errorf("%s: not recognised", name)
		}
		s, err := Open(dir)
		if err == nil {
			_, err = s.Pixels(0, 80, 60, [3]float64{})
		}
		if err == nil || !strings.Contains(err.Error(), c.want) ||
			!errors.Is(err, code.Views) && !errors.Is(err, code.Image) {
			t.Errorf("%s: error is %v; want %q", name, err, c.want)
		}
	}
	s := folder(t, `"w":41,"h":30,"fl_x":50`, 40, 30, func(int, int) color.Color { return color.Black })
	_, err := s.Pixels(0, 40, 30, [3]float64{})
	if !errors.Is(err, code.Views) || !strings.Contains(err.Error(), "has 40 x 30 px; its camera has 41 x 30") {
		t.Error(err)
	}
}

func FuzzColmap(f *testing.F) {
	f.Add([]byte(cameras), []byte(images), []byte("1 0.5 1 2 255 0 3 0.1 1 2"))
	f.Add([]byte("1 SIMPLE_RADIAL 8 6 1 2 3 4"), []byte("1 1 0 0 0 1 2 3 1 a"), []byte("# x"))
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		lenses, err := ParseCameras(a)
		if err == nil {
			var all []View
			if all, err = ParseImages(b, lenses); err == nil {
				checkAxes(t, all)
			}
		}
		_, _ = ParsePoints(c)
	})
}

func FuzzTransforms(f *testing.F) {
	f.Add([]byte(identity(straight)))
	f.Add([]byte(`{"camera_angle_x":1,"frames":[{"file_path":"a","w":4,"h":5,"fl_y":3,"transform_matrix":[[1]]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := ParseTransforms(text, func(string) (int, int, error) { return 5, 4, nil })
		if err == nil {
			checkAxes(t, all)
		}
	})
}

// checkAxes checks that the axes of cameras are orthogonal and of length 1.
func checkAxes(t *testing.T, all []View) {
	for _, v := range all {
		if err := v.Lens.check(); err != nil {
			t.Error(err)
		}
		side := cross(v.Down, v.Forward)
		for k := range side {
			if !(math.Abs(side[k]-v.Right[k]) < 1e-6) || math.Abs(v.Position[k]-v.Position[k]) > 0 {
				t.Errorf("%+v", v)
			}
		}
	}
}
