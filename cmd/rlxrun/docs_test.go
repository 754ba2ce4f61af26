package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// noData lists what documented commands contain that cannot run here, and why. Everything else in the pages of
// TestDocumentedCommands must succeed.
var noData = map[string]string{
	"rlx-backend-mine":         "the reader's backend",
	"-b mine":                  "the reader's backend",
	"describe mine":            "the reader's backend",
	"./mine.target":            "the reader's backend",
	"-b metal":                 "needs a Mac",
	"metal=":                   "needs a Mac",
	"-b wgpu":                  "the tests of the wgpu backend run it",
	"vit_b.rlx":                "a published checkpoint",
	"vith.rlx":                 "a published checkpoint",
	"bert/":                    "a published tokenizer",
	"1b.rlx":                   "a checkpoint of 2.5 GB",
	"/tmp/llama1b":             "a checkpoint of 2.5 GB",
	"my-adapter/":              "the reader's adapter",
	"--receipt-key key.pem":    "the reader's key",
	"--key public.pem":         "the reader's key",
	"--draft mtp":              "a published checkpoint",
	"--target wgpu --fallback": "a model with ops that wgpu lacks",
}

// documented matches a command in an indented block.
var documented = regexp.MustCompile(`^    ((?:bin/)?(?:rlxc|rlxrun|mkdir -p) .*)$`)

// steps matches the number of training steps. One page asks for thousands.
var steps = regexp.MustCompile(` -n \d+`)

// TestDocumentedCommands runs the commands of the README and of docs, in the order of each page. The demo models stand
// in for published ones, so flags, file names and order are checked, and not the published files.
func TestDocumentedCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	file, err := artifact()
	if err != nil {
		t.Fatal(err)
	}
	pages := []string{"docs/text.md", "docs/training.md", "docs/performance.md", "docs/wgpu.md", "docs/metal.md",
		"docs/cli.md", "docs/segmentation.md", "docs/receipts.md"}
	// Each commit has a seed of its own, and so another page.
	if seed, err := strconv.ParseUint(os.Getenv("RLX_CONFORMANCE"), 10, 64); err == nil {
		pages = pages[seed%uint64(len(pages)):][:1]
	}
	for _, page := range append(pages, "README.md") {
		t.Run(page, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("../..", page))
			if err != nil {
				t.Fatal(err)
			}
			dir := reader(t, filepath.Dir(file))
			for line := range strings.Lines(string(text)) {
				if m := documented.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil {
					runDocumented(t, dir, m[1])
				}
			}
		})
	}
}

// reader returns a folder with the files that the reader of a page has.
func reader(t *testing.T, bin string) string {
	t.Helper()
	dir, err := os.MkdirTemp(bin, "docs") // t.TempDir is too long for sockets below it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	demo, err := filepath.Abs("../../demo")
	if err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"bin": bin, "demo": demo,
		"model.safetensors": demo + "/sam-nano.safetensors",
		"photo.jpg":         demo + "/coin.png", "photo.png": demo + "/coin.png", "x.png": demo + "/coin.png",
		"llama-3.2-1b": demo + "/llama"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	text := strings.Repeat("ROMEO:\nBut soft, what light through yonder window breaks?\n", 60)
	for _, name := range []string{"text.txt", "corpus.txt", "held-out.txt"} {
		write(t, filepath.Join(dir, name), text)
	}
	write(t, filepath.Join(dir, "rules.txt"), "ROMEO:\n")
	for _, name := range []string{"prompts.txt", "sentences.txt", "questions.txt"} {
		write(t, filepath.Join(dir, name), "ROMEO:\nJULIET:\n")
	}
	write(t, filepath.Join(dir, "person.json"),
		`{"type": "object", "properties": {"name": {"enum": ["Juliet"]}}, "required": ["name"]}`)
	write(t, filepath.Join(dir, "answer.gbnf"), `root ::= "yes" | "no"`)
	// a chat model, and images with masks
	sh(t, dir, `mkdir qwen photos masks
cp demo/llama/* qwen/
sed 's/^{/{"chat_template": "{% for m in messages %}{{ m.content }}\\n{% endfor %}",/' demo/llama/tokenizer_config.json > qwen/tokenizer_config.json
cp demo/coins.png demo/scene1.png photos
cp demo/coins.mask.png masks/coins.png
cp demo/scene1.mask.png masks/scene1.png
bin/rlxc demo/sam-nano.safetensors -o sam.rlx -q
bin/rlxc qwen -o llama.rlx -q`)
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func runDocumented(t *testing.T, dir, line string) {
	t.Helper()
	for part, why := range noData {
		if strings.Contains(line, part) {
			t.Logf("not run (%s): %s", why, line)
			return
		}
	}
	command := line
	if strings.Contains(line, "rlxrun train") {
		command = steps.ReplaceAllString(line, " -n 2")
	}
	if strings.Contains(line, "rlxrun serve") { // SIGTERM ends it after it has printed the address, with status 0
		command = "{ exec " + command + "\n} > address & until [ -s address ]; do kill -0 $!; sleep 0.1; done; " +
			"kill -TERM $!; wait $!; rm address"
	}
	t.Log(line)
	sh(t, dir, command)
}

// sh runs lines of shell in a folder, with the programs in its bin.
func sh(t *testing.T, dir, lines string) {
	t.Helper()
	cmd := exec.Command("bash", "-euc", lines)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+dir+"/bin:"+os.Getenv("PATH"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Errorf("%s: %v\n%s", lines, err, out.String())
	}
}
