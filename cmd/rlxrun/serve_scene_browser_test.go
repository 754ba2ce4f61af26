package main

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/png"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rlx-go/rlx/task"
)

// ballsPLY is a scene of three balls: a red one at the origin, a green one at x = 1 and a blue one at y = 1.
func ballsPLY() []byte {
	b := []byte("ply\nformat binary_little_endian 1.0\nelement vertex 3\n")
	const properties = "x y z f_dc_0 f_dc_1 f_dc_2 opacity scale_0 scale_1 scale_2 rot_0 rot_1 rot_2 rot_3"
	for name := range strings.FieldsSeq(properties) {
		b = append(b, "property float "+name+"\n"...)
	}
	b = append(b, "end_header\n"...)
	for _, row := range [][]float32{
		{0, 0, 0, 1.5, -1.5, -1.5, 6, -2, -2, -2, 1, 0, 0, 0},
		{1, 0, 0, -1.5, 1.5, -1.5, 6, -2, -2, -2, 1, 0, 0, 0},
		{0, 1, 0, -1.5, -1.5, 1.5, 6, -2, -2, -2, 1, 0, 0, 0},
	} {
		for _, x := range row {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		}
	}
	return b
}

// orbitPage is the page of a scene in a browser.
type orbitPage struct {
	*browser
	full int // full frames that were shown
}

// settled waits for the full frame after a movement and returns the camera that the page names.
func (p *orbitPage) settled() camera {
	p.t.Helper()
	p.until("performance.getEntriesByName('still frame').length > " + strconv.Itoa(p.full))
	p.script(&p.full, "return performance.getEntriesByName('still frame').length")
	text := ""
	p.script(&text, "return document.getElementById('camera').textContent")
	text = strings.TrimSuffix(strings.TrimPrefix(text, "--camera '"), "'")
	c, err := parseCamera(text, &task.Splats{Radius: 1})
	if err != nil {
		p.t.Fatalf("the page names %q: %v", text, err)
	}
	return c
}

// TestSceneBrowser uses the page of `rlxrun serve` with a scene as a user would, in Chromium. It compares saved
// pictures with those of `rlxrun --camera`. RLX_SCREENSHOTS=DIR writes screenshots of the page.
func TestSceneBrowser(t *testing.T) {
	p := &orbitPage{browser: startBrowser(t)}
	sam, err := artifact()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ply, scene := filepath.Join(dir, "balls.ply"), filepath.Join(dir, "balls.rlx")
	if err := os.WriteFile(ply, ballsPLY(), 0o666); err != nil {
		t.Fatal(err)
	}
	rlxrun := filepath.Join(filepath.Dir(sam), "rlxrun")
	compile := exec.Command(filepath.Join(filepath.Dir(sam), "rlxc"), ply, "-o", scene, "--set", "width=320", "--set",
		"height=240")
	if msg, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, msg)
	}
	const first = "pos=0.3,-0.4,-4;target=0.3,0.4,0;fov=45;background=0.2,0.2,0.2"
	url, end := startServe(t, rlxrun, scene, "--camera", first)
	shot := func(name string) {
		if to := os.Getenv("RLX_SCREENSHOTS"); to != "" {
			p.screenshot(filepath.Join(to, "scene-"+name+".png"))
		}
	}
	// saved saves the picture and compares it with that of rlxrun, by the camera that the page shows.
	saved := func(what string) {
		t.Helper()
		text := ""
		p.script(&text, "return document.getElementById('camera').textContent")
		file := filepath.Join(dir, "want.png")
		picture := p.saves("balls.png", func() { p.press("s") })
		value := strings.TrimSuffix(strings.TrimPrefix(text, "--camera '"), "'")
		if msg, err := exec.Command(rlxrun, scene, "--camera", value, "-q", "-o", file).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, msg)
		}
		if d := difference(t, picture, readFile(t, file)); d > 0.2 { // the text has 5 digits
			t.Errorf("%s: the picture that is saved differs from that of rlxrun %s by %v levels", what, text, d)
		}
	}
	distance := func(c camera) float64 { a := sub(c.pos, c.target); return math.Sqrt(dot(a, a)) }

	p.resize(1280, 800, 1, true)
	p.open(url)
	p.says("Rendered in")
	begin := p.settled()
	saved("the first view")
	shot("dark")
	// A drag of half the picture's height to the right turns the camera by 90 degrees to the left.
	p.mouse(0, p.place(320, 240, 100, 120), p.place(320, 240, 160, 120), p.place(320, 240, 220, 120))
	c := p.settled()
	left := sub(c.pos, c.target)
	if math.Abs(distance(c)-distance(begin)) > 0.01 || left[0] > -3.9 || math.Abs(left[2]) > 0.1 ||
		c.target != begin.target {
		t.Errorf("a drag to the right leads from %v to %v", begin, c)
	}
	saved("a drag")
	p.press("r")
	if c = p.settled(); c != begin {
		t.Errorf("reset leads to %v; want %v", c, begin)
	}
	p.mouse(0, p.place(320, 240, 160, 60), p.place(320, 240, 160, 100))
	if c = p.settled(); c.pos[1] > begin.pos[1]-1 {
		t.Errorf("a drag down leads from %v to %v, which is not higher", begin, c)
	}
	p.press("r")
	p.settled()
	p.mouse(2, p.place(320, 240, 160, 60), p.place(320, 240, 200, 60))
	c = p.settled()
	if arm, was := sub(c.pos, c.target), sub(begin.pos, begin.target); c.target[0] > begin.target[0]-0.3 ||
		math.Abs(arm[0]-was[0])+math.Abs(arm[1]-was[1])+math.Abs(arm[2]-was[2]) > 0.01 {
		t.Errorf("a right drag leads from %v to %v", begin, c)
	}
	p.press("r")
	p.settled()
	for _, key := range []string{"+", "+", keyRight, keyUp} {
		p.press(key)
	}
	c = p.settled()
	if math.Abs(distance(c)*1.21-distance(begin)) > 0.01 || c.pos[0] < begin.pos[0]+0.1 || c.pos[1] > begin.pos[1] {
		t.Errorf("keys lead from %v to %v", begin, c)
	}
	saved("keys")
	p.click("#reset")
	p.settled()
	p.script(nil,
		`document.getElementById("view").dispatchEvent(new WheelEvent("wheel", {deltaY: 200, cancelable: true}))`)
	if c = p.settled(); distance(c) < 1.2*distance(begin) {
		t.Errorf("the wheel leads from %v to %v", begin, c)
	}
	p.script(nil, `const fov = document.getElementById("fov"), up = document.getElementById("up");
		fov.value = 30; fov.dispatchEvent(new Event("input"));
		up.value = "0,0,-1"; up.dispatchEvent(new Event("change"))`)
	if c = p.settled(); c.fov != 30 || c.up != [3]float64{0, 0, -1} {
		t.Errorf("field of view and up are %v", c)
	}
	saved("another up")

	// Fingers, at the width of a phone
	p.resize(400, 800, 2, false)
	p.press("r")
	p.settled()
	p.until("document.documentElement.scrollWidth <= 400")
	shot("narrow")
	at := func(x, y int) [2]int { return p.place(320, 240, x, y) }
	p.touch([][2]int{at(100, 120), at(130, 120), at(160, 120)})
	if c = p.settled(); c.pos[0] > begin.pos[0]-1 || math.Abs(distance(c)-distance(begin)) > 0.01 {
		t.Errorf("a finger leads from %v to %v", begin, c)
	}
	p.press("r")
	p.settled()
	p.touch([][2]int{at(140, 120), at(120, 120), at(100, 120)}, [][2]int{at(180, 120), at(200, 120), at(220, 120)})
	if c = p.settled(); math.Abs(distance(c)*3-distance(begin)) > 0.3 {
		t.Errorf("two fingers lead from %v to %v", begin, c)
	}
	saved("two fingers")
	moving := 0
	p.script(&moving, "return performance.getEntriesByName('moving frame').length")
	if moving == 0 {
		t.Error("no frame was shown while the camera moved")
	}
	p.resize(1280, 800, 1, false)
	shot("light")

	asksOnly(p.browser, url)
	if status := end(syscall.SIGINT); status != 0 {
		t.Errorf("after Ctrl-C the status is %d; want 0", status)
	}
	p.press("r")
	p.says("Was it ended?")
}

// difference returns the mean difference of two PNG files, in levels of 8 bits.
func difference(t *testing.T, a, b []byte) float64 {
	t.Helper()
	var images [2]image.Image
	for i, file := range [][]byte{a, b} {
		img, err := png.Decode(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		images[i] = img
	}
	bounds := images[0].Bounds()
	if bounds != images[1].Bounds() {
		t.Fatalf("sizes %v and %v", bounds, images[1].Bounds())
	}
	sum := 0.0
	for i := range bounds.Dx() * bounds.Dy() {
		x, y := i%bounds.Dx(), i/bounds.Dx()
		r, g, bl, _ := images[0].At(x, y).RGBA()
		r2, g2, bl2, _ := images[1].At(x, y).RGBA()
		for _, d := range [][2]uint32{{r, r2}, {g, g2}, {bl, bl2}} {
			sum += math.Abs(float64(d[0])-float64(d[1])) / 257
		}
	}
	return sum / float64(3*bounds.Dx()*bounds.Dy())
}
