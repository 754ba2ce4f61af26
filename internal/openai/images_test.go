package openai

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"os"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/internal/api"
	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/internal/tensortest"
)

const vlGolden = "../../testdata/goldens/qwen3vl_tiny/"

// dataURL returns an image of the golden as a data: URL.
func dataURL(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(vlGolden + name + ".png")
	if err != nil {
		t.Fatal(err)
	}
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(b)
}

// TestImages sends the conversation of the golden, with two images, and compares the tokens of the answer with those of
// Transformers. A conversation that continues computes only what is new, and one with another image does not reuse it.
func TestImages(t *testing.T) {
	t.Run("turns", func(t *testing.T) { testImages(t) })
	t.Run("shared", func(t *testing.T) { testImages(t, "--batch", "3") })
}

func testImages(t *testing.T, flags ...string) {
	t.Parallel()
	model := rlxtest.CompileGolden(t, vlGolden, append(flags, "--target", "cpu")...)
	f := serve(t, model, Limits{}, api.Options{})
	image := func(name string) request {
		return request{"type": "image_url", "image_url": request{"url": dataURL(t, name)}}
	}
	ask := func(first, second string, more ...any) (int, map[string]any) {
		t.Helper()
		messages := []any{request{"role": "system", "content": "Answer."},
			request{"role": "user", "content": []any{
				request{"type": "text", "text": "Compare "}, image(first), request{"type": "text", "text": " with "},
				image(second), request{"type": "text", "text": ", please."}}}}
		return f.post(t, "/v1/chat/completions", request{"messages": append(messages, more...), "temperature": 0,
			"max_tokens": 16, "ignore_eos": true})
	}
	status, got := ask("wide", "tall")
	if status != 200 {
		t.Fatal(got)
	}
	var want strings.Builder
	all := tensortest.Golden(t, vlGolden+"golden.safetensors:greedy").Ints
	symbols := vlAlphabet(t)
	for _, id := range all[len(all)-16:] {
		want.WriteString(symbols[id])
	}
	if n := at(got, "usage", "prompt_tokens"); n != 90.0 {
		t.Errorf("%v prompt tokens; want 90", n)
	}
	answer := at(got, "choices", 0, "message", "content").(string)
	if text := string([]rune(want.String())); answer != text { // a byte that is no character becomes U+FFFD
		t.Errorf("the answer is %q; want %q", answer, text)
	}
	if _, again := ask("wide", "tall"); at(again, "choices", 0, "message", "content") != answer {
		t.Errorf("the same conversation has another answer: %v", again)
	}
	_, other := ask("tall", "wide") // the two have the same text before the first image alone
	if n, _ := at(other, "usage", "prompt_tokens_details", "cached_tokens").(float64); n > 60 {
		t.Errorf("other images are taken for those that were computed: %v", other)
	}
}

// vlAlphabet returns the bytes of the tokens of the golden's tokenizer.
func vlAlphabet(t *testing.T) map[int64]string {
	t.Helper()
	b, err := os.ReadFile(vlGolden + "tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Model struct{ Vocab map[string]int64 }
	}
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	// GPT-2's alphabet: printable bytes stand for themselves, the others for the characters from 256 on.
	bytes, next := map[rune]byte{}, rune(256)
	for b := range 256 {
		r := rune(b)
		if r >= '!' && r <= '~' || r >= 0xa1 && r <= 0xac || r >= 0xae {
			bytes[r] = byte(b)
			continue
		}
		bytes[next] = byte(b)
		next++
	}
	out := map[int64]string{}
	for s, id := range file.Model.Vocab {
		out[id] = string([]byte{bytes[[]rune(s)[0]]})
	}
	return out
}

// TestImageRequests checks what is refused, and how.
func TestImageRequests(t *testing.T) {
	t.Parallel()
	f := serve(t, rlxtest.CompileGolden(t, vlGolden, "--target", "cpu"), Limits{}, api.Options{})
	url := func(u any) any { return request{"type": "image_url", "image_url": request{"url": u}} }
	small := dataURL(t, "small")
	// the size of a PNG is at bytes 16 to 23, and the checksum of its header at 29
	raw, err := base64.StdEncoding.DecodeString(small[strings.Index(small, ",")+1:])
	if err != nil {
		t.Fatal(err)
	}
	huge := append([]byte{}, raw...)
	huge[17], huge[21] = 0x01, 0x01
	binary.BigEndian.PutUint32(huge[29:], crc32.ChecksumIEEE(huge[12:29]))
	for name, c := range map[string]struct {
		part any
		text string
	}{
		"an address":    {url("https://example.org/a.png"), "data: URLs"},
		"a file":        {url("file:///etc/passwd"), "data: URLs"},
		"no base64":     {url("data:image/png,abc"), "base64"},
		"bad base64":    {url("data:image/png;base64,%%%"), "base64"},
		"no image":      {url("data:image/png;base64,aGVsbG8="), "not an image"},
		"cut":           {url(small[:len(small)-60]), "image_url"},
		"many pixels":   {url("data:image/png;base64," + base64.StdEncoding.EncodeToString(huge)), "pixels"},
		"no url":        {request{"type": "image_url"}, "no url"},
		"number":        {url(7), "messages"},
		"a video":       {request{"type": "video_url", "video_url": request{"url": "x"}}, "videos are not supported"},
		"a sound":       {request{"type": "input_audio"}, "input_audio"},
		"mark in text":  {request{"type": "text", "text": "<|image_pad|>"}, "places for 1 images, and 0"},
		"mark of video": {request{"type": "text", "text": "<|video_pad|>"}, "videos are not supported"},
	} {
		status, got := f.post(t, "/v1/chat/completions", request{"max_tokens": 1,
			"messages": []any{request{"role": "user", "content": []any{c.part}}}})
		if message, _ := at(got, "error", "message").(string); status != 400 || !strings.Contains(message, c.text) {
			t.Errorf("%s: status %d, %v; want 400 and %q", name, status, got, c.text)
		}
	}
	var many []any
	for range maxImages + 1 {
		many = append(many, url(small))
	}
	status, got := f.post(t, "/v1/chat/completions",
		request{"messages": []any{request{"role": "user", "content": many}}})
	if status != 400 || !strings.Contains(at(got, "error", "message").(string), "more than 32 images") {
		t.Errorf("%d images: status %d, %v", len(many), status, got)
	}
	status, got = serve(t, chatModel(), Limits{}, api.Options{}).post(t, "/v1/chat/completions", request{
		"messages": []any{request{"role": "user", "content": []any{url(small)}}}})
	if status != 400 || !strings.Contains(at(got, "error", "message").(string), "takes only text") {
		t.Errorf("a model for text: status %d, %v", status, got)
	}
}
