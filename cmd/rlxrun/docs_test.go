package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/internal/synth"
)

// noData lists what documented commands contain that cannot run here, and why. Their flags are checked. Everything
// else in the pages of TestDocumentedCommands must succeed.
var noData = map[string]string{
	"rlx-backend-mine":         "the reader's backend",
	"-b mine":                  "the reader's backend",
	"-b npu":                   "the reader's backend",
	"npu-1.":                   "the reader's backend",
	"remove npu":               "the reader's backend",
	"describe mine":            "the reader's backend",
	"./mine.target":            "the reader's backend",
	"-b metal":                 "needs a Mac",
	"metal=":                   "needs a Mac",
	"-b cuda":                  "needs a GPU of NVIDIA",
	"-b wgpu":                  "the tests of the wgpu backend run it",
	"vit_b.rlx":                "a published checkpoint",
	"vith.rlx":                 "a published checkpoint",
	"bert/":                    "a published tokenizer",
	"1b.rlx":                   "a checkpoint of 2.5 GB",
	"/tmp/llama1b":             "a checkpoint of 2.5 GB",
	"my-adapter/":              "the reader's adapter",
	"ghcr.io/me/":              "a registry",
	"model.onnx":               "the reader's model",
	"encoder.onnx":             "the reader's model",
	"resnet.rlx":               "the reader's model",
	"model.rlx -i x=@x.npy":    "the reader's model",
	"bench model.rlx":          "the reader's model",
	"run.capsule":              "a failure of the reader's",
	"python bench/":            "needs a checkout, and packages of Python",
	"--receipt-key key.pem":    "the reader's key",
	"--key public.pem":         "the reader's key",
	"--draft mtp":              "a published checkpoint",
	"--target wgpu --fallback": "a model with ops that wgpu lacks",
	"--context 4096":           "a model for long texts",
	"--devices 0,1":            "needs two devices",
}

// documented matches a command of a page: in an indented block, alone in one with fences, or behind a $, where its
// output follows.
var documented = regexp.MustCompile(`^(?:    |\$ )?((?:bin/)?(?:rlxc|rlxrun|curl|mkdir -p|python) .*)$`)

// steps matches the number of training steps, of which one page asks for thousands, or of timed runs.
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
	pages := []string{"docs/text.md", "docs/text-speed.md", "docs/training.md", "docs/performance.md", "docs/wgpu.md",
		"docs/metal.md",
		"docs/cli.md", "docs/segmentation.md", "docs/receipts.md", "docs/cuda.md", "docs/gradients.md", "docs/onnx.md",
		"docs/plugins.md", "docs/serving.md", "docs/splats.md", "docs/wrong-number.md", "python/README.md",
		"sdk/python/README.md", "sdk/rust/README.md"}
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
			for _, command := range commands(string(text)) {
				runDocumented(t, dir, command)
			}
		})
	}
}

// commands returns the commands of a page in their order. A block of the language sh is one.
func commands(page string) []string {
	var out []string
	fence, block := "", ""
	for line := range strings.Lines(page) {
		switch language, ok := strings.CutPrefix(line, "```"); {
		case ok && fence == "":
			fence, block = "```"+strings.TrimSpace(language), ""
		case ok:
			if fence == "```sh" {
				out = append(out, block)
			}
			fence = ""
		case fence == "```sh":
			block += line
		default:
			m := documented.FindStringSubmatch(strings.TrimRight(line, "\n"))
			if m != nil && (fence == "```" || fence == "" && m[0] != m[1]) {
				out = append(out, m[1])
			}
		}
	}
	return out
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
	checkpoint(t, filepath.Join(dir, "sam2.1-hiera-tiny"), goldenCases+"sam2_tiny/")
	checkpoint(t, filepath.Join(dir, "sam3"), goldenCases+"sam3_clicks/", goldenCases+"sam3_concepts/")
	tokenizer, err := os.ReadFile(goldenCases + "sam3_tiny/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "sam3", "tokenizer.json"), string(tokenizer))
	checkpoint(t, filepath.Join(dir, "qwen3-vl-2b"), goldenCases+"qwen3vl_tiny/")
	for _, name := range []string{"tokenizer.json", "chat_template.jinja", "preprocessor_config.json"} {
		file, err := os.ReadFile(goldenCases + "qwen3vl_tiny/" + name)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "qwen3-vl-2b", name), string(file))
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
cp -r qwen chat
cp demo/coins.png demo/scene1.png photos
cp demo/coins.mask.png masks/coins.png
cp demo/scene1.mask.png masks/scene1.png
bin/rlxc demo/sam-nano.safetensors -o sam.rlx -q
bin/rlxc qwen -o llama.rlx -q`)
	return dir
}

// checkpoint makes a folder with the model of a golden case, with weights of others.
func checkpoint(t *testing.T, dir, golden string, more ...string) {
	t.Helper()
	es, err := goldenWeights(append(more, golden)...)
	if err == nil {
		err = os.Mkdir(dir, 0o755)
	}
	if err == nil {
		err = synth.Write(filepath.Join(dir, "model.safetensors"), es, dtype.F32)
	}
	if err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(golden + "config.json")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "config.json"), string(config))
}

// goldenWeights joins the weights of golden cases, given as folders that end in a slash.
func goldenWeights(folders ...string) (out []synth.Entry, err error) {
	for _, f := range folders {
		part, err := synth.ReadManifest(f + "manifest.json")
		if err != nil {
			return nil, err
		}
		out = append(out, part...)
	}
	return out, nil
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
			checkFlags(t, dir, line)
			return
		}
	}
	t.Log(line)
	if strings.HasPrefix(line, "curl ") {
		download(t, dir, line)
		return
	}
	command := ports.ReplaceAllString(line, "${1}0")
	if script, ok := strings.CutPrefix(command, "python "); ok {
		command = "python3 " + script
	}
	if strings.Contains(line, "rlxrun train") || strings.Contains(line, "rlxrun bench") {
		command = steps.ReplaceAllString(line, " -n 2")
	}
	if strings.Contains(line, "rlxrun serve") { // SIGTERM ends it after it has printed the address, with status 0
		command = "{ exec " + command + "\n} > address & until [ -s address ]; do kill -0 $!; sleep 0.1; done; " +
			"kill -TERM $!; wait $!; rm address"
	}
	sh(t, dir, command)
}

// ports matches the ports of servers; each test has its own.
var ports = regexp.MustCompile(`(--port |--grpc 127\.0\.0\.1:)\d+`)

// checkFlags reports whether the program knows the flags of a command that cannot run. With --help it reads them first.
func checkFlags(t *testing.T, dir, line string) {
	t.Helper()
	m := flagged.FindStringSubmatch(line)
	if m == nil {
		return
	}
	sh(t, dir, m[1]+" --help >/dev/null || [ $? != 2 ]")
}

// flagged matches the first program of ours in a line, with its arguments, without what shells and readers see behind.
var flagged = regexp.MustCompile(`((?:bin/)?\b(?:rlxc|rlxrun) .*?)(?: \.\.\.)?(?: +#.*| [|>&].*)?$`)

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

// published has the files of models as the hub publishes them, by path. Ours stand in for them.
var published = map[string]func(name string) string{
	"/facebook/sam-vit-base/resolve/main/": func(name string) string {
		return map[string]string{"model.safetensors": "demo/sam-nano.safetensors", "config.json": "sam.json"}[name]
	},
	"/Qwen/Qwen2.5-0.5B-Instruct/resolve/main/": func(name string) string { return "chat/" + name },
}

// download runs a command of curl with a server of ours in place of the hub, so the form of the address, the names of
// the files and their places are checked, and the next commands read what has been fetched.
func download(t *testing.T, dir, line string) {
	t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Logf("not run (%v): %s", err, line)
		return
	}
	write(t, filepath.Join(dir, "sam.json"), `{"model_type": "sam", "mask_decoder_config": {"num_attention_heads": 8}}`)
	write(t, filepath.Join(dir, "chat", "generation_config.json"), "{}")
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		folder, name := path.Split(r.URL.Path)
		local, ok := published[folder]
		if !ok || local(name) == "" {
			http.NotFound(w, r)
			return
		}
		http.ServeFile(w, r, filepath.Join(dir, local(name)))
	}))
	defer hub.Close()
	local := strings.Replace(line, "https://huggingface.co/", hub.URL+"/", 1)
	if local == line {
		t.Fatalf("%s: an address that is not of the hub", line)
	}
	sh(t, dir, "rm -rf model.safetensors config.json qwen; "+local+" -f -sS")
}

// manifestArgs matches the arguments of a program in the manifests of deploy.
var manifestArgs = regexp.MustCompile(`args: \[([^]]*)\]`)

// TestManifests checks the flags of the programs in the manifests of deploy. make test-deploy checks the manifests.
func TestManifests(t *testing.T) {
	file, err := artifact()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(filepath.Dir(file), filepath.Join(dir, "bin")); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../deploy/*/*.yaml")
	found := 0
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range manifestArgs.FindAllStringSubmatch(string(text), -1) {
			found++
			args := strings.Join(strings.Fields(m[1]), " ")
			program := "bin/rlxrun "
			if strings.HasPrefix(args, "pull") {
				program = "bin/rlxc "
			}
			checkFlags(t, dir, program+strings.NewReplacer(", ", " ", `"`, "", "$(MODEL)", "MODEL").Replace(args))
		}
	}
	if err != nil || found != 3 {
		t.Errorf("found the arguments of %d programs, error %v; want 3", found, err)
	}
}
