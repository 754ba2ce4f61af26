package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// browser is a headless Chromium, controlled by the WebDriver protocol (https://www.w3.org/TR/webdriver2/).
type browser struct {
	t       *testing.T
	session string // URL
	files   string // folder for downloads
}

// startBrowser starts chromedriver and a browser, which end with the test. It skips the test unless RLX_REQUIRE_BROWSER
// is set.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	if os.Getenv("RLX_REQUIRE_BROWSER") == "" {
		t.Skip("takes half a minute and needs Chromium: make test-browser")
	}
	path, err := exec.LookPath("chromedriver")
	if err != nil {
		t.Fatal(
			"RLX_REQUIRE_BROWSER is set, and there is no chromedriver; on Debian: apt-get install chromium chromium-driver")
	}
	driver := exec.Command(path, "--port=0")
	out, err := driver.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := driver.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		driver.Process.Kill()
		driver.Wait()
	})
	port := ""
	for lines := bufio.NewScanner(out); port == "" && lines.Scan(); {
		_, port, _ = strings.Cut(strings.TrimSuffix(lines.Text(), "."), "successfully on port ")
	}
	if port == "" {
		t.Fatal("chromedriver does not say which port it listens on")
	}
	go io.Copy(io.Discard, out)
	b := &browser{t: t, session: "http://127.0.0.1:" + port + "/session", files: t.TempDir()}
	options := map[string]any{
		"args": []string{"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
			"--no-first-run", "--window-size=1280,800"},
		"prefs": map[string]any{"download.default_directory": b.files},
	}
	var session struct{ SessionID string }
	b.do(
		"POST", "",
		map[string]any{"capabilities": map[string]any{"alwaysMatch": map[string]any{"goog:chromeOptions": options}}},
		&session)
	b.session += "/" + session.SessionID
	t.Cleanup(func() { b.do("DELETE", "", nil, nil) })
	return b
}

// do makes a request of the protocol and stores the value of the answer in value.
func (b *browser) do(method, path string, body, value any) {
	b.t.Helper()
	var raw []byte
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			b.t.Fatal(err)
		}
	}
	req, err := http.NewRequest(method, b.session+path, bytes.NewReader(raw))
	if err != nil {
		b.t.Fatal(err)
	}
	client := http.Client{Timeout: hangGuard}
	resp, err := client.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct{ Value json.RawMessage }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode != http.StatusOK {
		b.t.Fatalf("%s %s: %s %.400s %v", method, path, resp.Status, answer.Value, err)
	}
	if value != nil {
		if err := json.Unmarshal(answer.Value, value); err != nil {
			b.t.Fatalf("%s %s: %v", method, path, err)
		}
	}
}

func (b *browser) open(url string) { b.do("POST", "/url", map[string]string{"url": url}, nil) }

// script runs JavaScript in the page and stores its result in value.
func (b *browser) script(value any, text string, args ...any) {
	b.t.Helper()
	if args == nil {
		args = []any{}
	}
	b.do("POST", "/execute/sync", map[string]any{"script": text, "args": args}, value)
}

// until waits until a JavaScript expression is true.
func (b *browser) until(condition string) {
	b.t.Helper()
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		var state struct {
			Done   bool
			Status string
		}
		b.script(&state, "return {done: Boolean("+condition+"), status: document.getElementById('status').textContent}")
		if state.Done {
			return
		}
		if time.Since(begun) > hangGuard/4 {
			b.t.Fatalf("%s does not become true; the page says %q", condition, state.Status)
		}
	}
}

// element returns a reference to the element that a CSS selector finds.
func (b *browser) element(selector string) string {
	b.t.Helper()
	var found map[string]string
	b.do("POST", "/element", map[string]string{"using": "css selector", "value": selector}, &found)
	for _, id := range found {
		return id
	}
	b.t.Fatal("no element " + selector)
	return ""
}

func (b *browser) click(selector string) {
	b.t.Helper()
	b.do("POST", "/element/"+b.element(selector)+"/click", struct{}{}, nil)
}

// send types text into an element. For a file input, text is the path of a file.
func (b *browser) send(selector, text string) {
	b.t.Helper()
	b.do("POST", "/element/"+b.element(selector)+"/value", map[string]string{"text": text}, nil)
}

// Key codes from section 17.4.2 of the protocol.
const (
	keyEscape, keyShift, keyControl, keyEnter = "\ue00c", "\ue008", "\ue009", "\ue007"
	keyLeft, keyUp, keyRight, keyDown         = "\ue012", "\ue013", "\ue014", "\ue015"
)

// press presses keys together, such as Control and z, and releases them.
func (b *browser) press(keys ...string) {
	b.t.Helper()
	var acts []map[string]string
	for _, k := range keys {
		acts = append(acts, map[string]string{"type": "keyDown", "value": k})
	}
	for _, k := range keys {
		acts = append(acts, map[string]string{"type": "keyUp", "value": k})
	}
	b.do(
		"POST", "/actions",
		map[string]any{"actions": []any{map[string]any{"type": "key", "id": "keys", "actions": acts}}}, nil)
}

// mouse presses a button (0 left, 2 right) at the first place and releases it at the last. Places are x and y in pixels
// of the window.
func (b *browser) mouse(button int, places ...[2]int) {
	b.t.Helper()
	acts := []map[string]any{}
	for i, p := range places {
		acts = append(acts, map[string]any{"type": "pointerMove", "x": p[0], "y": p[1], "duration": 0})
		if i == 0 {
			acts = append(acts, map[string]any{"type": "pointerDown", "button": button})
		}
	}
	acts = append(acts, map[string]any{"type": "pointerUp", "button": button})
	b.do(
		"POST", "/actions",
		map[string]any{"actions": []any{map[string]any{"type": "pointer", "id": "mouse", "actions": acts}}}, nil)
}

// touch puts fingers on the screen at their first places, moves them together and lifts them at their last ones.
func (b *browser) touch(fingers ...[][2]int) {
	b.t.Helper()
	var sources []any
	for i, places := range fingers {
		acts := []map[string]any{}
		for k, p := range places {
			acts = append(acts, map[string]any{"type": "pointerMove", "x": p[0], "y": p[1], "duration": 0})
			if k == 0 {
				acts = append(acts, map[string]any{"type": "pointerDown", "button": 0})
			}
		}
		acts = append(acts, map[string]any{"type": "pointerUp", "button": 0})
		sources = append(sources, map[string]any{"type": "pointer", "id": fmt.Sprint("finger", i),
			"parameters": map[string]string{"pointerType": "touch"}, "actions": acts})
	}
	b.do("POST", "/actions", map[string]any{"actions": sources}, nil)
}

// screenshot writes a picture of the window.
func (b *browser) screenshot(path string) {
	b.t.Helper()
	var picture string
	b.do("GET", "/screenshot", nil, &picture)
	raw, err := base64.StdEncoding.DecodeString(picture)
	if err == nil {
		err = os.WriteFile(path, raw, 0o666)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// resize gives the window, without its frame, the size of a screen with width x height pixels; ratio is the number of
// these per CSS pixel.
func (b *browser) resize(width, height int, ratio float64, dark bool) {
	b.t.Helper()
	b.devtools("Emulation.setDeviceMetricsOverride",
		map[string]any{"width": width, "height": height, "deviceScaleFactor": ratio, "mobile": false})
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	b.devtools("Emulation.setEmulatedMedia",
		map[string]any{"features": []any{map[string]string{"name": "prefers-color-scheme", "value": scheme}}})
}

// devtools sends a command of Chromium's own protocol.
func (b *browser) devtools(command string, params any) {
	b.t.Helper()
	b.do("POST", "/goog/cdp/execute", map[string]any{"cmd": command, "params": params}, nil)
}

// place returns where a pixel of a w x h image is in the window.
func (b *browser) place(w, h, x, y int) [2]int {
	b.t.Helper()
	var at [2]float64
	b.script(&at, `const r = document.getElementById("view").getBoundingClientRect(), [x, y, w, h] = arguments;
		return [r.left + (x + 0.5) * r.width / w, r.top + (y + 0.5) * r.height / h]`, x, y, w, h)
	return [2]int{int(at[0]), int(at[1])}
}

// says waits until the page shows a text.
func (b *browser) says(text string) {
	b.t.Helper()
	b.until(fmt.Sprintf("document.getElementById('status').textContent.includes(%q)", text))
}

// saves calls do, which makes the page save a file, and returns the file.
func (b *browser) saves(name string, do func()) []byte {
	b.t.Helper()
	path := filepath.Join(b.files, name)
	os.Remove(path)
	do()
	b.says("Saved as " + name)
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return readFile(b.t, path)
		} else if time.Since(begun) > hangGuard {
			b.t.Fatal(name + " does not appear")
		}
	}
}
