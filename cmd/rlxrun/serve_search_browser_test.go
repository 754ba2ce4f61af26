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
	"time"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/internal/synth"
)

// concepts returns a small SAM 3 with random weights and its tokenizer, compiled once.
var concepts = sync.OnceValues(func() (string, error) {
	sam, err := artifact()
	if err != nil {
		return "", err
	}
	const golden = "../../testdata/goldens/sam3_concepts/"
	dir := filepath.Dir(sam)
	checkpoint, file := filepath.Join(dir, "sam3.safetensors"), filepath.Join(dir, "sam3.rlx")
	entries, err := synth.ReadManifest(golden + "manifest.json")
	if err == nil {
		err = synth.Write(checkpoint, entries, dtype.F32)
	}
	var tokens []byte
	if err == nil {
		tokens, err = os.ReadFile("../../testdata/goldens/sam3_tiny/tokenizer.json")
	}
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
})

// TestSearchBrowser uses what the page of `rlxrun serve` has for texts and examples, in Chromium. It compares the
// objects with those of `rlxrun --text` and `--box`. RLX_SCREENSHOTS=DIR writes screenshots.
func TestSearchBrowser(t *testing.T) {
	if os.Getenv("RLX_REQUIRE_BROWSER") == "" {
		t.Skip("takes half a minute and needs Chromium: make test-browser")
	}
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
		file := filepath.Join(b.files, "coins-masks.zip")
		os.Remove(file)
		b.press("e")
		b.says("Saved as coins-masks.zip")
		for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
			if _, err := os.Stat(file); err == nil {
				break
			} else if time.Since(begun) > hangGuard {
				t.Fatal("no file appears")
			}
		}
		sh(t, dir, "rm -rf want && "+rlxrun+" "+sam3+" --image "+coins+" "+args+" --object-masks -o want -q")
		z, err := zip.OpenReader(file)
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
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
			want, errWant := png.Decode(bytes.NewReader(readFile(t, filepath.Join(dir, "want", fmt.Sprint(i+1, ".png")))))
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
