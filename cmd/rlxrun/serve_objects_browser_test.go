package main

import (
	"archive/zip"
	"bytes"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestObjectsBrowser uses what the page of `rlxrun serve` has for several objects, in Chromium: names and colours, the
// mask under the pointer, undo, all objects at once, magnification, and the export, whose masks are compared with those
// of `rlxrun --point`. RLX_SCREENSHOTS=DIR writes screenshots.
func TestObjectsBrowser(t *testing.T) {
	b := startBrowser(t)
	sam, err := artifact()
	if err != nil {
		t.Fatal(err)
	}
	scene, err := filepath.Abs("../../demo/scene1.png")
	if err != nil {
		t.Fatal(err)
	}
	rlxrun := filepath.Join(filepath.Dir(sam), "rlxrun")
	url, end := startServe(t, rlxrun, sam, "--image", scene)
	shot := func(name string) {
		if to := os.Getenv("RLX_SCREENSHOTS"); to != "" {
			b.screenshot(filepath.Join(to, name+".png"))
		}
	}
	at := func(x, y int) [2]int { return b.place(256, 256, x, y) }
	rows := func(n int) { t.Helper(); b.until(fmt.Sprintf("document.querySelectorAll('.object').length === %d", n)) }

	b.resize(1280, 800, 1, true)
	b.open(url)
	b.says("Ready after")
	// The pointer shows what a click would give, before there is one.
	b.mouseMove(at(120, 128), at(128, 128))
	b.until("performance.getEntriesByType('resource').some((e) => e.name.endsWith('/masks'))")
	rows(0)
	b.mouse(0, at(128, 128))
	b.says("predicted quality")
	rows(1)
	b.press("n")
	b.says("Click on another object")
	b.mouse(0, at(215, 150))
	rows(2)
	b.says("predicted quality")
	b.press("n")
	b.mouse(0, at(40, 140))
	rows(3)
	b.says("predicted quality")
	var colours []string
	b.script(&colours, "return [...document.querySelectorAll('.swatch')].map((e) => e.style.background)")
	if len(colours) != 3 || len(slices.Compact(slices.Sorted(slices.Values(colours)))) != 3 {
		t.Errorf("the objects have the colours %v", colours)
	}
	// Names: a letter in a name is no command.
	b.script(nil, "document.querySelector('.object:nth-child(2) .title').select()")
	b.send(".object:nth-child(2) .title", "\ue003Nice box\ue007")
	b.until("document.querySelector('.object:nth-child(2) .swatch').ariaLabel === 'Select Nice box'")
	b.until("document.querySelector('.object:nth-child(2)').matches('.current')")
	b.says("predicted quality")
	// Removing an object, and getting it back.
	b.click(".object:nth-child(3) .remove")
	rows(2)
	b.press(keyControl, "z")
	rows(3)
	b.says("predicted quality")
	shot("objects-dark")
	b.resize(1280, 800, 1, false)
	shot("objects-light")
	b.resize(400, 800, 2, false)
	b.until("document.documentElement.scrollWidth <= 400")
	shot("objects-narrow")
	b.resize(1280, 800, 1, true)

	// The export has all of them, as the command makes them.
	file := b.saves("scene1-masks.zip", func() { b.press("e") })
	z, err := zip.NewReader(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range z.File {
		names = append(names, f.Name)
	}
	const all = "001-Object-1.png 002-Nice-box.png 003-Object-3.png labels.png coco.json"
	if got := strings.Join(names, " "); got != all {
		t.Errorf("the export has %s", got)
	}
	want := filepath.Join(t.TempDir(), "want.png")
	sh(t, filepath.Dir(want), rlxrun+" "+sam+" --image "+scene+" --point 215,150 -o want.png -q")
	f, err := z.Open("002-Nice-box.png")
	if err != nil {
		t.Fatal(err)
	}
	got, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	wanted, err := png.Decode(bytes.NewReader(readFile(t, want)))
	if err != nil || !slices.Equal(got.(*image.Gray).Pix, wanted.(*image.Gray).Pix) {
		t.Errorf("the exported mask differs from that of rlxrun --point 215,150; %v", err)
	}

	// All objects at once; then one of them is refined.
	b.open(url)
	b.says("Ready after")
	b.press("a")
	b.says("3 objects.")
	rows(3)
	shot("everything")
	b.click(".object:nth-child(1) .swatch")
	b.says("predicted quality")
	b.press(keyControl, "z")
	rows(0)

	// Magnified, a click still hits the pixel under it, and the picture moves with the middle button.
	before := at(128, 128)
	b.wheel(before, -800)
	b.until("!document.getElementById('view').hidden")
	b.mouse(0, before)
	b.says("predicted quality")
	b.mouse(1, before, [2]int{before[0] - 60, before[1] - 40})
	shot("zoomed")
	b.says("predicted quality") // and nothing was pasted
	b.press("f")
	// Two fingers magnify, and add nothing.
	x, y := before[0], before[1]
	b.touch([][2]int{{x - 20, y}, {x - 60, y}, {x - 90, y}}, [][2]int{{x + 20, y}, {x + 60, y}, {x + 90, y}})
	shot("pinched")
	rows(1)
	b.press("f")
	mask := b.saves("scene1-mask.png", func() { b.press("s") })
	sh(t, filepath.Dir(want), rlxrun+" "+sam+" --image "+scene+" --point 128,128 -o want.png -q")
	if !bytes.Equal(mask, readFile(t, want)) {
		t.Error("the mask of a click in the magnified picture differs")
	}
	asksOnly(b, url)
	if status := end(syscall.SIGINT); status != 0 {
		t.Errorf("after Ctrl-C the status is %d; want 0", status)
	}
}

// mouseMove moves the mouse along places without a button.
func (b *browser) mouseMove(places ...[2]int) {
	b.t.Helper()
	for _, p := range places {
		b.devtools("Input.dispatchMouseEvent", map[string]any{"type": "mouseMoved", "x": p[0], "y": p[1]})
	}
}

// wheel turns the wheel at a place.
func (b *browser) wheel(at [2]int, by int) {
	b.t.Helper()
	b.devtools("Input.dispatchMouseEvent",
		map[string]any{"type": "mouseWheel", "x": at[0], "y": at[1], "deltaX": 0, "deltaY": by})
}
