package main

import (
	"archive/zip"
	"bytes"
	"fmt"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/internal/synth"
)

// concepts and clickable return a small SAM 3 with random weights and its tokenizer, compiled once, the second with the
// tracker.
var (
	concepts = sync.OnceValues(func() (string, error) {
		return compiledSAM3("sam3", goldenCases+"sam3_concepts/")
	})
	clickable = sync.OnceValues(func() (string, error) {
		return compiledSAM3("sam3clicks", goldenCases+"sam3_clicks/", goldenCases+"sam3_concepts/")
	})
)

// goldenCases is the folder of the golden cases of models.
const goldenCases = "../../testdata/goldens/"

// compiledSAM3 compiles a golden case, with weights of others.
func compiledSAM3(name, golden string, more ...string) (string, error) {
	sam, err := artifact()
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(sam)
	checkpoint, file := filepath.Join(dir, name+".safetensors"), filepath.Join(dir, name+".rlx")
	entries, err := goldenWeights(append(more, golden)...)
	if err == nil {
		err = synth.Write(checkpoint, entries, dtype.F32)
	}
	if err != nil {
		return "", err
	}
	tokens, err := os.ReadFile(goldenCases + "sam3_tiny/tokenizer.json")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "tokenizer.json"), tokens, 0o666)
	}
	if err != nil {
		return "", err
	}
	if msg, err := exec.Command(filepath.Join(dir, "rlxc"), checkpoint, "--model-config", golden+"config.json",
		"--target", "cpu", "-o", file).CombinedOutput(); err != nil {
		return "", fmt.Errorf("compiling a SAM 3: %w\n%s", err, msg)
	}
	return file, nil
}

// TestSearchBrowser uses what the page of `rlxrun serve` has for texts and examples, in Chromium. It compares the
// objects with those of `rlxrun --text` and `--box`. RLX_SCREENSHOTS=DIR writes screenshots.
func TestSearchBrowser(t *testing.T) {
	b := startBrowser(t)
	sam3, err := concepts()
	if err != nil {
		t.Fatal(err)
	}
	coins, err := filepath.Abs("../../demo/coins.png")
	if err != nil {
		t.Fatal(err)
	}
	rlxrun, dir := filepath.Join(filepath.Dir(sam3), "rlxrun"), t.TempDir()
	url, end := startServe(t, rlxrun, sam3, "--image", coins)
	shot := func(name string) {
		if to := os.Getenv("RLX_SCREENSHOTS"); to != "" {
			b.screenshot(filepath.Join(to, name+".png"))
		}
	}
	at := func(x, y int) [2]int { return b.place(384, 303, x, y) }
	rows := func(n int) {
		t.Helper()
		b.until(fmt.Sprintf("document.querySelectorAll('.object').length === %d", n))
	}
	// exported presses E and compares the masks in the ZIP with those of rlxrun.
	exported := func(names []string, args string) {
		t.Helper()
		file := b.saves("coins-masks.zip", func() { b.press("e") })
		sh(t, dir, "rm -rf want && "+rlxrun+" "+sam3+" --image "+coins+" "+args+" --object-masks -o want -q")
		z, err := zip.NewReader(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		var have []string
		for _, f := range z.File {
			have = append(have, f.Name)
		}
		if want := append(names, "labels.png", "coco.json"); !slices.Equal(have, want) {
			t.Fatalf("%s: the export has %q; want %q", args, have, want)
		}
		for i, name := range names {
			f, err := z.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			got, errGot := png.Decode(f)
			file := readFile(t, filepath.Join(dir, "want", fmt.Sprint(i+1, ".png")))
			want, errWant := png.Decode(bytes.NewReader(file))
			if errGot != nil || errWant != nil || !slices.Equal(got.(*image.Gray).Pix, want.(*image.Gray).Pix) {
				t.Errorf("%s: %s differs from the mask of rlxrun; %v, %v", args, name, errGot, errWant)
			}
		}
	}
	named := func(text string, n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprintf("%03d-%s-%d.png", i+1, text, i+1))
		}
		return out
	}

	b.resize(1280, 800, 1, true)
	b.open(url)
	b.says("Ready after")
	b.says("Say what to find")
	// Keyboard only: T goes to the text box, Enter looks, and letters are no commands there.
	b.press("t")
	b.until("document.activeElement.id === 'text' && document.activeElement.value === ''")
	b.send("#text", "coin\ue007")
	b.says("6 objects, scores 0.83 to 0.45")
	rows(6)
	b.until("document.querySelector('.object .title').value === 'coin 1'")
	b.until("document.querySelector('.object output').textContent === '0.83'")
	b.send("#text", "\ue00c") // Escape leaves the text box
	b.until("document.activeElement.id !== 'text'")
	exported(named("coin", 6), "--text coin")

	// Examples: a box and, with U, a counterexample. A search with the same text replaces its objects.
	b.mouse(0, at(316, 155), at(350, 190), at(378, 217))
	b.until("document.getElementById('examples').textContent === '1 example'")
	b.press("u")
	b.mouse(0, at(10, 20), at(30, 40), at(59, 69))
	b.until("document.getElementById('examples').textContent === '1 example, 1 counterexample'")
	b.click("#find")
	b.says("7 objects, scores 0.8")
	rows(7)
	exported(named("coin", 7), "--text coin --box 316,155,379,218 --box 10,20,60,70:0")
	b.click(".object:nth-child(2) .swatch")
	b.says("coin 2, score 0.7")
	shot("search-dark")
	b.press("s")
	b.says("Saved as coins-coin-2-mask.png")
	b.resize(1280, 800, 1, false)
	shot("search-light")
	b.resize(400, 800, 2, false)
	b.until("document.documentElement.scrollWidth <= 400")
	shot("search-narrow")
	b.resize(1280, 800, 1, true)

	// Undo takes back a search, then an example at a time; another text adds objects.
	b.press(keyControl, "z")
	rows(6)
	b.press(keyControl, "z")
	b.until("document.getElementById('examples').textContent === '1 example'")
	b.press(keyControl, "z")
	b.send("#text", " a red\ue007")
	b.until("document.querySelector('.object:last-child .title').value.startsWith('coin a red ')")
	b.until("document.querySelectorAll('.object').length > 6")

	// What is refused is said, and the objects stay.
	b.script(nil, "document.getElementById('text').value = 'x '.repeat(100)")
	b.click("#find")
	b.says("tokens, with those of its begin and end")
	b.until("document.querySelectorAll('.object').length > 6")
	b.script(nil, "document.getElementById('text').value = 'coin'")
	b.send("#threshold", "\ue009a\ue0000.99\ue007") // all of it, and Enter
	b.says("Nothing scores above 0.99; the highest score is 0.8")
	b.mouse(0, at(100, 100))
	b.says("Drag a box around an example")
	asksOnly(b, url)
	if status := end(syscall.SIGINT); status != 0 {
		t.Errorf("after Ctrl-C the status is %d; want 0", status)
	}
}

// TestSearchClicksBrowser uses a model that takes texts and clicks, in Chromium: both fill one list of objects, and a
// click changes an object of a search. It compares masks with those of `rlxrun --point`.
func TestSearchClicksBrowser(t *testing.T) {
	b := startBrowser(t)
	sam3, err := clickable()
	if err != nil {
		t.Fatal(err)
	}
	coins, err := filepath.Abs("../../demo/coins.png")
	if err != nil {
		t.Fatal(err)
	}
	rlxrun, dir := filepath.Join(filepath.Dir(sam3), "rlxrun"), t.TempDir()
	url, end := startServe(t, rlxrun, sam3, "--image", coins)
	at := func(x, y int) [2]int { return b.place(384, 303, x, y) }
	rows := func(n int) {
		t.Helper()
		b.until(fmt.Sprintf("document.querySelectorAll('.object').length === %d", n))
	}
	// same saves the mask of the current object and compares it with that of rlxrun.
	same := func(name, args string) {
		t.Helper()
		mask := b.saves(name, func() { b.press("s") })
		sh(t, dir, rlxrun+" "+sam3+" --image "+coins+" "+args+" -o want.png -q")
		if !bytes.Equal(mask, readFile(t, filepath.Join(dir, "want.png"))) {
			t.Errorf("the mask that is saved differs from that of rlxrun %s", args)
		}
	}

	b.resize(1280, 800, 1, true)
	b.open(url)
	b.says("Ready after")
	b.says("Click on an object")
	b.script(nil, "document.getElementById('threshold').value = 0.75")
	b.press("t")
	b.send("#text", "coin\ue007")
	b.says("3 objects, scores 0.83 to 0.77")
	rows(3)
	b.send("#text", "\ue00c") // Escape leaves the text box
	b.press("l")
	b.mouse(0, at(316, 155), at(350, 190), at(378, 217))
	b.until("document.getElementById('examples').textContent === '1 example'")
	rows(3) // an example is no prompt
	b.click(".object:nth-child(1) .swatch")
	b.says("coin 1, score 0.83")
	if to := os.Getenv("RLX_SCREENSHOTS"); to != "" {
		b.screenshot(filepath.Join(to, "search-clicks.png"))
	}
	// A click changes an object of a search: its box becomes a prompt.
	b.click(".tools .on")
	b.mouse(0, at(190, 280))
	b.says("predicted quality")
	rows(3)
	b.press(keyControl, "z")
	b.says("coin 1, score 0.83")
	b.press("n")
	b.says("Click on another object")
	b.mouse(0, at(100, 140))
	b.says("predicted quality")
	rows(4)
	same("coins-Object-4-mask.png", "--point 100,140")
	b.until("document.documentElement.scrollHeight <= innerHeight") // the panel scrolls, and the page does not
	b.resize(400, 800, 2, false)
	b.until("document.documentElement.scrollWidth <= 400")
	if to := os.Getenv("RLX_SCREENSHOTS"); to != "" {
		b.screenshot(filepath.Join(to, "search-clicks-narrow.png"))
	}
	asksOnly(b, url)
	if status := end(syscall.SIGINT); status != 0 {
		t.Errorf("after Ctrl-C the status is %d; want 0", status)
	}
}
