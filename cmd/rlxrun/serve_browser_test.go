package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestBrowser uses the page of `rlxrun serve` with the demo model as a user would, in Chromium. It compares masks with
// those of `rlxrun --point`. RLX_SCREENSHOTS=DIR writes screenshots of the page.
func TestBrowser(t *testing.T) {
	b := startBrowser(t)
	sam, err := artifact()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	demo, err := filepath.Abs("../../demo")
	if err != nil {
		t.Fatal(err)
	}
	scene, coins := filepath.Join(demo, "scene1.png"), filepath.Join(demo, "coins.png")
	rlxrun := filepath.Join(filepath.Dir(sam), "rlxrun")
	url, end := startServe(t, rlxrun, sam, "--image", scene)
	// want returns the mask that the command makes for image.
	image := scene
	want := func(args ...string) []byte {
		t.Helper()
		file := filepath.Join(dir, "want.png")
		cmd := exec.Command(rlxrun, append([]string{sam, "--image", image, "-q", "-o", file}, args...)...)
		if msg, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, msg)
		}
		return readFile(t, file)
	}
	// saved presses a key and returns the file that the page then saves.
	saved := func(key, name string) []byte {
		t.Helper()
		return b.saves(name, func() { b.press(key) })
	}
	same := func(what string, args ...string) {
		t.Helper()
		if !bytes.Equal(saved("s", "scene1-mask.png"), want(args...)) {
			t.Errorf("%s: the mask that is saved differs from that of rlxrun %s", what, strings.Join(args, " "))
		}
	}
	// found waits for the next mask since the page was opened.
	masks := 0
	found := func() {
		t.Helper()
		masks++
		b.until(fmt.Sprintf("performance.getEntriesByName('click to mask').length >= %d", masks))
		b.says("predicted quality")
	}
	shot := func(name string) {
		if to := os.Getenv("RLX_SCREENSHOTS"); to != "" {
			b.screenshot(filepath.Join(to, name+".png"))
		}
	}

	b.resize(1280, 800, 1, true)
	b.open(url)
	b.says("Ready after")
	b.mouse(0, b.place(256, 256, 128, 128))
	found()
	shot("dark")
	same("a click", "--point", "128,128")
	b.mouse(2, b.place(256, 256, 40, 40))
	found()
	same("a click and a right click", "--point", "128,128", "--point", "40,40,0")
	b.press(keyControl, "z")
	found()
	same("undone", "--point", "128,128")
	b.press(keyEscape)
	b.says("Click on an object")
	b.mouse(0, b.place(256, 256, 60, 70), b.place(256, 256, 100, 120), b.place(256, 256, 199, 189))
	found()
	same("a drag", "--box", "60,70,200,190")
	b.click("[data-mask='3']")
	found()
	same("mask 3", "--box", "60,70,200,190", "--mask", "3")
	b.press("0")
	found()

	// The cut-out is the image inside the mask.
	cut, err := png.Decode(bytes.NewReader(saved("x", "scene1-cutout.png")))
	if err != nil {
		t.Fatal(err)
	}
	mask, err := png.Decode(bytes.NewReader(want("--box", "60,70,200,190")))
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(readFile(t, scene)))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 256 * 256 {
		x, y := i%256, i/256
		r, g, bl, a := cut.At(x, y).RGBA()
		inside, _, _, _ := mask.At(x, y).RGBA()
		wr, wg, wb, _ := img.At(x, y).RGBA()
		if inside != 0 && [4]uint32{r, g, bl, a} != [4]uint32{wr, wg, wb, 0xffff} || inside == 0 && a != 0 {
			t.Fatalf("pixel %d,%d of the cut-out is %v; the mask has %d there", x, y, cut.At(x, y), inside)
		}
	}

	// Keyboard only: the cross starts in the middle. Arrow keys move it by 4 pixels here, with Shift by one.
	b.open(url)
	b.says("Ready after")
	masks = 0
	b.press(keyRight)
	b.press(keyShift, keyLeft)
	b.press(keyUp)
	b.press(keyEnter)
	found()
	same("Enter", "--point", "131,124")
	for range 8 {
		b.press(keyLeft)
	}
	b.press("-")
	found()
	same("minus", "--point", "131,124", "--point", "99,124,0")
	b.press("b")
	for range 5 {
		b.press(keyDown)
		b.press(keyRight)
	}
	b.press("b")
	found()
	same("B", "--point", "131,124", "--point", "99,124,0", "--box", "99,124,120,145")

	// An error is shown, and the previous image stays. Then a file is dropped, and another is chosen.
	broken := filepath.Join(dir, "broken.png")
	if err := os.WriteFile(broken, readFile(t, scene)[:1000], 0o666); err != nil {
		t.Fatal(err)
	}
	b.send("#file", broken)
	b.says("the file: is damaged: png: invalid format: not enough pixel data (RLX3030)")
	same("after an error", "--point", "131,124", "--point", "99,124,0", "--box", "99,124,120,145")
	for _, event := range []string{"drop", "paste"} {
		b.script(
			nil, `const bytes = Uint8Array.from(atob(arguments[0]), (c) => c.charCodeAt(0)), data = new DataTransfer();
			data.items.add(new File([bytes], "image.png"));
			const event = arguments[1] === "drop" ? new DragEvent("drop", {dataTransfer: data, bubbles: true}) : new ClipboardEvent("paste", {clipboardData: data, bubbles: true});
			document.getElementById("stage").dispatchEvent(event)`, base64.StdEncoding.EncodeToString(
				readFile(t, scene)), event)
		b.says("Ready after")
	}
	b.send("#file", coins)
	b.until("document.getElementById('name').textContent.startsWith('coins.png')")
	b.says("Ready after")
	image = coins
	b.mouse(0, b.place(384, 303, 316, 155), b.place(384, 303, 378, 217))
	found()
	b.mouse(0, b.place(384, 303, 347, 187))
	found()
	if !bytes.Equal(saved("s", "coins-mask.png"), want("--box", "316,155,379,218", "--point", "347,187")) {
		t.Error("the mask of a chosen file differs")
	}
	b.press(keyEscape)
	b.says("Click on an object")
	b.mouse(0, b.place(384, 303, 203, 203))
	found()
	shot("coins")
	asksOnly(b, url)
	var times [][2]float64
	b.script(&times, "return performance.getEntriesByName('click to mask').map((e) => [e.duration, 1000 * e.detail])")
	slices.SortFunc(times, func(x, y [2]float64) int { return int(1000 * (x[0] - y[0])) })
	t.Logf("from a click to its mask on the screen: %.0f to %.0f ms; of these in rlxrun, and all: %.1f", times[0][0],
		times[len(times)-1][0], times)

	// In a narrow window nothing is wider than the window, and the canvas has the resolution of the screen.
	b.resize(400, 800, 2, false)
	b.until("document.getElementById('view').width === Math.round(2 * document.getElementById('view').clientWidth)")
	b.until("document.documentElement.scrollWidth <= 400")
	shot("narrow")
	b.resize(1280, 800, 1, false)
	shot("light")
	if status := end(syscall.SIGINT); status != 0 {
		t.Errorf("after Ctrl-C the status is %d; want 0", status)
	}
	b.press("0")
	b.says("Was it ended?")
}

// asksOnly checks that the page has asked for nothing but what is below url.
func asksOnly(b *browser, url string) {
	b.t.Helper()
	var urls []string
	b.script(&urls, "return performance.getEntriesByType('resource').map((e) => e.name)")
	for _, u := range urls {
		if !strings.HasPrefix(u, url) && !strings.HasPrefix(u, "data:") &&
			!strings.HasPrefix(u, "blob:"+strings.TrimSuffix(url, "/")[:20]) {
			b.t.Errorf("the page asked for %s", u)
		}
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// startServe runs `rlxrun serve` and returns the address that it prints. end sends a signal and returns the exit
// status.
func startServe(t *testing.T, rlxrun string, args ...string) (url string, end func(syscall.Signal) (status int)) {
	t.Helper()
	cmd := exec.Command(rlxrun, append([]string{"serve"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	url, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		cmd.Wait()
		t.Fatalf("rlxrun serve prints no address: %v\n%s", err, stderr.String())
	}
	return strings.TrimSpace(url), func(sig syscall.Signal) int {
		cmd.Process.Signal(sig)
		return statusOf(cmd.Wait())
	}
}
