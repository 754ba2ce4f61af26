package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestPlanBrowser looks at the page of -o plan=FILE.html in Chromium, opened as a file: views, search, keys and two
// programs side by side. RLX_SCREENSHOTS=DIR writes screenshots.
func TestPlanBrowser(t *testing.T) {
	b := startBrowser(t)
	sam, err := artifact()
	if err != nil {
		t.Fatal(err)
	}
	scene, err := filepath.Abs("../../demo/scene1.png")
	if err != nil {
		t.Fatal(err)
	}
	dir, bin := t.TempDir(), filepath.Dir(sam)
	sh(t, dir, bin+"/rlxrun "+sam+" --image "+scene+" --point 128,128 -o m.png --profile -o plan=measured.html -q\n"+
		bin+"/rlxc plan "+sam+" --view html > plan.html")
	shot := func(name string) {
		if to := os.Getenv("RLX_SCREENSHOTS"); to != "" {
			b.screenshot(filepath.Join(to, name+".png"))
		}
	}
	b.resize(1280, 800, 1, true)
	b.open("file://" + dir + "/measured.html")
	b.until("document.querySelector('canvas')?.width > 100 && document.title === 'Plan of sam.rlx'")
	b.until("/ ms on cpu:0 /.test(document.querySelector('.top').textContent)")
	b.press(keyRight)
	b.says("step 1: ")
	b.press(keyRight)
	b.says("step 2: ")
	shot("plan-memory-dark")
	b.press("4")
	b.until("document.querySelector('[aria-selected=true]').textContent === 'Roofline'")
	shot("plan-roofline-dark")
	b.press("2")
	b.until("document.querySelectorAll('tbody tr').length > 30")
	b.until("document.querySelector('tr.at').dataset.step === '1'")
	b.press(keyEscape)
	b.press("/")
	b.send("#search", "attention")
	b.says(" steps")
	b.until("[...document.querySelectorAll('tbody tr')].every((r) => /attention/.test(r.textContent))")
	b.press(keyEscape)
	b.press("3")
	b.until("[...document.querySelectorAll('th')].some((h) => h.textContent === 'reads')")
	shot("plan-layers-dark")
	b.click("tbody tr")
	b.until("document.querySelector('[aria-selected=true]').textContent === 'Steps'")

	b.resize(1280, 800, 1, false)
	b.open("file://" + dir + "/plan.html")
	b.press("b")
	b.until("document.querySelectorAll('.pane').length === 2")
	b.until("document.querySelectorAll('select')[1].selectedOptions[0].textContent.includes('wgpu')")
	shot("plan-side-light")
	b.press("2")
	shot("plan-steps-light")
	b.resize(400, 800, 2, false)
	b.until("document.documentElement.scrollWidth <= 400")
	shot("plan-narrow")
	var urls []string
	b.script(&urls, "return performance.getEntriesByType('resource').map((e) => e.name)")
	if len(urls) > 0 {
		t.Errorf("the page asked for %v", urls)
	}
}
