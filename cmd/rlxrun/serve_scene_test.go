package main

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/internal/tinymodel"
	"github.com/rlx-go/rlx/task"
)

// oneSplat is a method that renders one grey ball around the origin.
const oneSplat = `graph %s
meta = input : f32[23]
p = const {value=0} : f32[3]
s = const {value=-1.5} : f32[3]
r = const {value=1} : f32[4]
o = const {value=0.99} : f32[1]
c = const {value=0.5} : f32[3]
h = const {value=0.5} : f32[3]
image = gaussian_splat_render p, s, r, o, c, h, meta {height=%d, width=%d} : f32[%[2]d,%[3]d,4]
return image=image
`

// sceneSession returns a session with that method for images of the given sizes, the first of which is the task's.
func sceneSession(t *testing.T, sizes ...image.Point) (*session, *task.Splats) {
	t.Helper()
	about := &task.Splats{Method: "render", Meta: "meta", Image: "image", Width: sizes[0].X, Height: sizes[0].Y,
		Radius: 1}
	var texts []string
	for i, size := range sizes {
		texts = append(texts, fmt.Sprintf(oneSplat, [...]string{"render", "preview", "other"}[i], size.Y, size.X))
	}
	path := filepath.Join(t.TempDir(), "scene.rlx")
	writeArtifact(t, path, about, tinymodel.Programs(t, "cpu", texts...)...)
	return sessionOf(t, path, debugFlags{}), about
}

// TestServeScene checks that frames are those of `rlxrun --camera`, that the smaller method makes the small ones, that
// a backend that was killed is started again, and what the page refuses.
func TestServeScene(t *testing.T) {
	before := rlxtest.Children(t)
	s, about := sceneSession(t, image.Pt(41, 30), image.Pt(13, 10), image.Pt(80, 5))
	const text = "pos=1,-2,-3;target=0,0.5,0;fov=50;background=0.1,0.2,0.3;scale=2"
	c, err := parseCamera(text, about)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.model.Method("render")
	if err != nil {
		t.Fatal(err)
	}
	<-s.started
	if err := s.load(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	wanted, err := (&splatsJob{task: about, camera: c, method: m}).view(t.Context(), s, c)
	if err != nil {
		t.Fatal(err)
	}
	ask, end, notes := servedBy(t, s, &serveFlags{camera: text})
	status, body := ask("GET", "start", "")
	const wantStart = `{"model":"scene.rlx","sizes":[[41,30],[13,10]],"camera":{"pos":[1,-2,-3],"target":[0,0.5,0],"up":[0,-1,0],"fov":50},"rest":"background=0.1,0.2,0.3;scale=2","radius":1}`
	if strings.TrimSpace(string(body)) != wantStart {
		t.Errorf("start: status %d, %s; want %s", status, body, wantStart)
	}
	const here = `{"pos":[1,-2,-3],"target":[0,0.5,0],"up":[0,-1,0],"fov":50,`
	frame := func() {
		t.Helper()
		_, file := ask("POST", "frames", here+`"width":41,"format":"png"}`)
		img, err := png.Decode(bytes.NewReader(file))
		if err != nil {
			t.Fatalf("%v: %.300s", err, file)
		}
		if img.Bounds() != wanted.Bounds() {
			t.Fatalf("the frame has %v; want %v", img.Bounds(), wanted.Bounds())
		}
		for i := range 41 * 30 {
			x, y := i%41, i/41
			r, g, b, a := img.At(x, y).RGBA()
			r2, g2, b2, a2 := wanted.At(x, y).RGBA()
			if r != r2 || g != g2 || b != b2 || a != a2 {
				t.Fatalf("pixel %d,%d is %v; want %v", x, y, img.At(x, y), wanted.At(x, y))
			}
		}
	}
	frame()
	status, body = ask("POST", "frames", here+`"tab":"a","width":13,"format":"jpeg"}`)
	small, err := jpeg.Decode(bytes.NewReader(body))
	if err != nil || small.Bounds() != image.Rect(0, 0, 13, 10) {
		t.Fatalf("status %d, %v", status, err)
	}
	brightest := uint32(0)
	for i := range 13 * 10 {
		r, _, _, _ := small.At(i%13, i/13).RGBA()
		brightest = max(brightest, r)
	}
	// the ball, and the background in a corner
	if corner, _, _, _ := small.At(0, 9).RGBA(); brightest < 0x6000 || corner > 0x3000 {
		t.Errorf("the brightest pixel is %x, a corner %x", brightest, corner)
	}
	rlxtest.Kill(t, before)
	frame()
	if !strings.Contains(notes.String(), "; it was started again\n") {
		t.Errorf("stderr is %q", notes)
	}
	for _, x := range [][2]string{
		{`{"pos":[0,0.5,0],"target":[0,0.5,0],"up":[0,-1,0],"fov":50,`, "one point"},
		{`{"pos":[0,2,0],"target":[0,0.5,0],"up":[0,-1,0],"fov":50,`, "along the view"},
		{`{"pos":[0,2,0],"target":[0,0.5,0],"up":[0,0,0],"fov":50,`, "along the view"},
		{`{"pos":[1,2,0],"target":[0,0.5,0],"up":[0,-1,0],"fov":0,`, "1 to 170"},
		{`{"pos":[1,2,0],"target":[0,0.5,0],"up":[0,-1,0],"fov":171,`, "1 to 170"},
	} {
		status, body = ask("POST", "frames", x[0]+`"width":41,"format":"png"}`)
		if status != http.StatusUnprocessableEntity || !bytes.Contains(body, []byte(x[1])) ||
			!bytes.Contains(body, []byte("RLX2001")) {
			t.Errorf("%s: status %d: %s", x[0], status, body)
		}
	}
	// Numbers that f32 overflows with are an answer, too: a picture or an error with a code.
	status, body = ask("POST", "frames", `{"pos":[1e38,-3e38,1e38],"target":[-1e38,3e38,0],"up":[0,-1,0],"fov":1,"width":13,"format":"png"}`)
	if _, err := png.Decode(bytes.NewReader(body)); err != nil && !bytes.Contains(body, []byte(`"code":"RLX`)) {
		t.Errorf("far away: status %d: %s", status, body)
	}
	frame()
	stop := errors.New("a signal")
	if err := end(stop); err != stop {
		t.Errorf("the command ends with %v", err)
	}
}

// TestServeWrongFlags checks flags of the other kind of page.
func TestServeWrongFlags(t *testing.T) {
	scene, _ := sceneSession(t, image.Pt(8, 6))
	for _, c := range []struct {
		s    *session
		f    serveFlags
		text string
	}{
		{scene, serveFlags{image: "x.png"}, "is for artifacts that segment images"},
		{scene, serveFlags{camera: "roll=1"}, `"roll" is unknown`},
		{tinySession(t, debugFlags{}), serveFlags{camera: "fov=60"}, "is for scenes"},
	} {
		err := c.s.serve(t.Context(), &c.f)
		if !errors.Is(err, diag.Usage) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%+v: %v; want %q", c.f, err, c.text)
		}
	}
}
