//go:build unix

package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/capsule"
	"github.com/rlx-go/rlx/internal/clitest"
	"github.com/rlx-go/rlx/internal/receipt"
	"github.com/rlx-go/rlx/internal/tinymodel"
	"github.com/rlx-go/rlx/task"
)

// models makes a folder with a model of each task, sam.rlx, text.rlx and f.rlx, a model that keeps a state, and an
// image. It returns the folder and the flags for a backend, which is this test binary; see TestMain.
func models(t *testing.T) (dir, backend string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	writeArtifact(t, filepath.Join(dir, "sam.rlx"), tinymodel.Task(), tinyPrograms(t)...)
	p := tinymodel.Program(t, copyGraph, "cpu")
	writeArtifact(t, filepath.Join(dir, "f.rlx"), nil, p)
	var b bytes.Buffer
	x, sizes := p.Graph.Inputs()[0].Type, map[string]int64{"N": 1}
	m := capsule.Manifest{Sizes: sizes, Inputs: []capsule.Input{{Name: "x", Type: x.String()}}, Precision: "f32",
		Model: "f", Backend: capsule.Backend{Name: "cpu"}}
	c := capsule.Contents{Split: program.Whole(p), Inputs: []tensor.Tensor{tensor.New(x.DType,
		x.Shape.Eval(sizes)...)}}
	if err := capsule.Write(t.Context(), &b, m, c); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "f.capsule"), b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	writeReceipt(t, dir)
	err = writeTextModel(filepath.Join(dir, "text.rlx"), func(*task.Text, *string, *string) {})
	if err := errors.Join(err, os.Rename(twoColours(t, 32, 16), filepath.Join(dir, "in.png"))); err != nil {
		t.Fatal(err)
	}
	return dir, " -b cpu --threads 1 --plugin cpu=" + self
}

// writeReceipt writes f.json, the receipt of a run of f.rlx.
func writeReceipt(t *testing.T, dir string) {
	t.Helper()
	file, err := digestFile(t.Context(), filepath.Join(dir, "f.rlx"))
	if err != nil {
		t.Fatal(err)
	}
	file.Path = "f.rlx"
	r := receipt.Receipt{Format: receipt.Format, Artifact: file, Inputs: []receipt.File{},
		Flags:   []receipt.Flag{{Name: "input", Value: "x=1"}, {Name: "output", Value: "y.npy"}},
		Device:  receipt.Device{Backend: "cpu", Precision: "f32"},
		Methods: []receipt.Method{}, Results: []receipt.Result{}}
	var b bytes.Buffer
	if err := errors.Join(r.Write(&b), os.WriteFile(filepath.Join(dir, "f.json"), b.Bytes(), 0o666)); err != nil {
		t.Fatal(err)
	}
}

// TestPaths gives files that never end to each path of the command line.
func TestPaths(t *testing.T) {
	dir, b := models(t)
	sam, generate := "run sam.rlx"+b, "run text.rlx -n 1"+b
	list := []clitest.Path{
		{Flag: "run FILE", Args: "run PATH -i x=1 -o y.npy" + b},
		{Flag: "run -i npy", Args: "run f.rlx -i x=@PATH.npy -o y.npy" + b},
		{Flag: "run -i npz", Args: "run f.rlx -i x=@PATH.npz:x -o y.npy" + b},
		{Flag: "run -i safetensors", Args: "run f.rlx -i x=@PATH.safetensors:x -o y.npy" + b},
		{Flag: "run --output", Args: "run f.rlx -i x=1 -o PATH.npy" + b, Output: true},
		{Flag: "run --output picture", Args: sam + " --image in.png --point 1,1 -o PATH.png", Output: true},
		{Flag: "run --output folder", Args: sam + " --image in.png --everything --grid 2 -o PATH", Output: true,
			Folder: true},
		{Flag: "run --output coco", Args: sam + " --image in.png --point 1,1 -o coco=PATH.json", Output: true},
		{Flag: "run --output coco of all", Args: sam + " --image in.png --everything --grid 2 -o coco=PATH.json",
			Output: true},
		{Flag: "run --output plan", Args: "run f.rlx -i x=1 -o y.npy --profile -o plan=PATH.html" + b, Output: true},
		{Flag: "run --image", Args: sam + " --image PATH --point 1,1 -o m.png"},
		{Flag: "run --image --everything", Args: sam + " --image PATH --everything -o masks"},
		{Flag: "run --images", Args: sam + " --images PATH --everything -o masks"},
		{Flag: "run --images in a folder", Args: sam + " --images PATH.png --everything -o masks", Folder: true},
		{Flag: "run --mask-prompt", Args: sam + " --image in.png --point 1,1 -o m.png --mask-prompt PATH"},
		{Flag: "run --points-file", Args: sam + " --image in.png --points-file PATH -o masks"},
		{Flag: "run --prompt-file", Args: generate + " --prompt-file PATH"},
		{Flag: "run --prompts-file", Args: generate + " --prompts-file PATH"},
		{Flag: "run --json-schema", Args: generate + " --prompt a --json-schema PATH"},
		{Flag: "run --grammar", Args: generate + " --prompt a --grammar PATH"},
		{Flag: "run --logits", Args: generate + " --prompt a --logits PATH.npy", Output: true},
		{Flag: "run --state", Args: generate + " --prompt a --state PATH"},
		{Flag: "run --save-state", Args: generate + " --prompt a --save-state PATH", Output: true},
		{Flag: "run --trace", Args: "run f.rlx -i x=1 -o y.npy --trace PATH" + b, Output: true},
		{Flag: "run --dump-tensors", Args: "run f.rlx -i x=1 -o y.npy --dump-tensors *=PATH" + b, Output: true,
			Folder: true},
		{Flag: "run --log-protocol", Args: "run f.rlx -i x=1 -o y.npy --log-protocol PATH" + b, Output: true},
		{Flag: "run --expect", Args: "run f.rlx -i x=1 --expect PATH" + b},
		{Flag: "run --weights", Args: "run f.rlx -i x=1 -o y.npy --weights PATH" + b},
		{Flag: "run --lora", Args: generate + " --prompt a --lora PATH", Folder: true},
		{Flag: "serve --lora", Args: "serve sam.rlx --lora PATH" + b, Folder: true},
		{Flag: "bench --lora", Args: "bench text.rlx -n 1 --lora PATH" + b, Folder: true},
		{Flag: "diff --lora", Args: "diff text.rlx --lora PATH" + b, Folder: true},
		{Flag: "replay --lora", Args: "replay f.capsule --lora PATH" + b, Folder: true},
		{Flag: "serve --weights", Args: "serve sam.rlx --weights PATH" + b},
		{Flag: "bench --weights", Args: "bench f.rlx -n 1 --weights PATH" + b},
		{Flag: "diff --weights", Args: "diff f.rlx --weights PATH" + b},
		{Flag: "replay --weights", Args: "replay f.capsule --weights PATH" + b},
		{Flag: "run --capsule", Args: "run f.rlx -i x=1 -o y.npy --capsule PATH" + b, Output: true},
		{Flag: "run --receipt", Args: "run f.rlx -i x=1 -o y.npy --receipt PATH" + b, Output: true},
		{Flag: "run --receipt-key", Args: "run f.rlx -i x=1 -o y.npy --receipt r.json --receipt-key PATH" + b},
		{Flag: "verify-receipt FILE", Args: "verify-receipt PATH"},
		{Flag: "verify-receipt PATH", Args: "verify-receipt f.json PATH"},
		{Flag: "verify-receipt --key", Args: "verify-receipt f.json --key PATH"},
		{Flag: "diff FILE", Args: "diff PATH" + b},
		{Flag: "diff OTHER", Args: "diff f.rlx PATH" + b},
		{Flag: "diff -i npy", Args: "diff f.rlx -i x=@PATH.npy" + b},
		{Flag: "diff --output", Args: "diff f.rlx --minimize -o PATH" + b, Output: true},
		{Flag: "diff --plot", Args: "diff f.rlx --plot PATH" + b, Output: true},
		{Flag: "replay FILE", Args: "replay PATH" + b},
		{Flag: "replay --model", Args: "replay f.capsule --model PATH" + b},
		{Flag: "replay --trace", Args: "replay f.capsule --trace PATH" + b, Output: true},
		{Flag: "replay --dump-tensors", Args: "replay f.capsule --dump-tensors *=PATH" + b, Output: true, Folder: true},
		{Flag: "replay --log-protocol", Args: "replay f.capsule --log-protocol PATH" + b, Output: true},
		{Flag: "replay --capsule", Args: "replay f.capsule --capsule PATH" + b, Output: true},
		{Flag: "serve FILE", Args: "serve PATH" + b},
		{Flag: "serve --image", Args: "serve sam.rlx --image PATH" + b},
		{Flag: "serve --key-file", Args: "serve text.rlx --key-file PATH" + b},
		{Flag: "serve --tls-cert", Args: "serve text.rlx --tls-cert PATH --tls-key in.png" + b},
		{Flag: "serve --tls-key", Args: "serve text.rlx --tls-cert in.png --tls-key PATH" + b},
		{Flag: "bench --compare", Args: "bench f.rlx -n 1 --compare PATH" + b},
		{Flag: "bench --csv", Args: "bench f.rlx -n 1 --csv PATH" + b, Output: true},
		{Flag: "bench FILE", Args: "bench PATH" + b},
		{Flag: "bench --trace", Args: "bench f.rlx -n 1 --trace PATH" + b, Output: true},
		{Flag: "bench --dump-tensors", Args: "bench f.rlx -n 1 --dump-tensors *=PATH" + b, Output: true, Folder: true},
		{Flag: "bench --capsule", Args: "bench f.rlx -n 1 --capsule PATH" + b, Output: true},
		{Flag: "bench --log-protocol", Args: "bench f.rlx -n 1 --log-protocol PATH" + b, Output: true},
		{Flag: "plugins install FILE", Args: "plugins install PATH"},
		{Flag: "plugins test PATH", Args: "plugins test PATH"},
		{Flag: "plugins test --define", Args: "plugins test cpu --define PATH"},
		{Flag: "plugins describe --output", Args: "plugins describe cpu -o PATH --plugin cpu=" + strings.TrimPrefix(
			b[strings.Index(b, "cpu=/"):], "cpu="), Output: true},
		{Flag: "plugins describe --log-protocol", Args: "plugins describe cpu --log-protocol PATH --plugin cpu=" +
			strings.TrimPrefix(b[strings.Index(b, "cpu=/"):], "cpu="), Output: true},
		{Flag: "plugins vectors --output", Args: "plugins vectors --op neg -o PATH"},
		{Flag: "perplexity FILE", Args: "perplexity PATH --text in.png" + b},
		{Flag: "perplexity --text", Args: "perplexity text.rlx --text PATH" + b},
		{Flag: "perplexity --weights", Args: "perplexity text.rlx --text in.png --weights PATH" + b},
		{Flag: "perplexity --lora", Args: "perplexity text.rlx --text in.png --lora PATH" + b, Folder: true},
		{Flag: "train FILE", Args: "train PATH --text in.png" + b},
		{Flag: "train --text", Args: "train text.rlx --text PATH" + b},
		{Flag: "train --save", Args: "train text.rlx --text in.png --save PATH" + b, Output: true},
		{Flag: "train --adapter", Args: "train text.rlx --text in.png --adapter PATH" + b, Folder: true},
		{Flag: "train --eval", Args: "train text.rlx --text in.png --eval PATH" + b},
		{Flag: "train --plot", Args: "train text.rlx --text in.png --plot PATH" + b, Output: true},
		{Flag: "train --checkpoint", Args: "train text.rlx --text in.png --checkpoint PATH" + b, Output: true},
		{Flag: "train --lora", Args: "train text.rlx --text in.png --lora PATH" + b, Folder: true},
		{Flag: "train --weights", Args: "train text.rlx --text in.png --weights PATH" + b},
		{Flag: "train --views", Args: "train text.rlx --views PATH" + b, Folder: true},
		{Flag: "train --images", Args: "train text.rlx --images PATH --masks ." + b, Folder: true},
		{Flag: "train --masks", Args: "train text.rlx --images . --masks PATH" + b, Folder: true},
		{Flag: "embed FILE", Args: "embed PATH --text a" + b},
		{Flag: "embed --lines", Args: "embed text.rlx --lines PATH" + b},
		{Flag: "embed --output", Args: "embed text.rlx --text a -o PATH.npy" + b, Output: true},
		{Flag: "embed --weights", Args: "embed text.rlx --text a --weights PATH" + b},
		{Flag: "embed --lora", Args: "embed text.rlx --text a --lora PATH" + b, Folder: true},
		{Flag: "chat FILE", Args: "chat PATH" + b},
		{Flag: "chat --load", Args: "chat text.rlx --load PATH" + b},
		{Flag: "chat --save", Args: "chat text.rlx --save PATH" + b, Output: true},
		{Flag: "chat --json-schema", Args: "chat text.rlx --json-schema PATH" + b},
		{Flag: "chat --grammar", Args: "chat text.rlx --grammar PATH" + b},
		{Flag: "chat --weights", Args: "chat text.rlx --weights PATH" + b},
		{Flag: "chat --lora", Args: "chat text.rlx --lora PATH" + b, Folder: true},
		{Flag: "tokenize FILE", Args: "tokenize PATH"},
		{Flag: "tokenize FILE.json", Args: "tokenize PATH.json"},
		{Flag: "detokenize FILE", Args: "detokenize PATH 1"},
		{Flag: "detokenize FILE.json", Args: "detokenize PATH.json 1"},
	}
	for _, command := range []string{"run", "bench", "serve", "devices", "plugins list", "plugins test",
		"plugins describe", "plugins install", "diff", "replay", "perplexity", "train", "doctor",
		"verify-receipt", "chat", "embed"} {
		args := command + " -b x --plugin x=PATH"
		switch command {
		case "embed":
			args = strings.Replace(args, command, command+" text.rlx --text a", 1)
		case "perplexity", "train":
			args = strings.Replace(args, command, command+" text.rlx --text in.png", 1)
		case "run", "bench", "serve", "diff", "chat":
			args = strings.Replace(args, command, command+" sam.rlx", 1)
		case "verify-receipt":
			args = strings.Replace(args, command, command+" f.json", 1)
		case "replay":
			args = strings.Replace(args, command, command+" f.capsule", 1)
		case "plugins install":
			args = command + " " + os.Args[0] + " --plugin x=PATH"
		case "plugins test", "plugins describe":
			args = command + " x --plugin x=PATH"
		default:
			args = command + " --plugin x=PATH"
		}
		list = append(list, clitest.Path{Flag: command + " --plugin", Args: args})
	}
	clitest.CheckPaths(t, commandLine(), dir, list)
}

// TestPhases checks that rlxrun ends in every phase when it gets a signal. In phases of the backend, it ends by a
// message to the backend.
func TestPhases(t *testing.T) {
	dir, b := models(t)
	if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), []byte(tinymodel.Tokenizer), 0o600); err != nil {
		t.Fatal(err)
	}
	clitest.CheckPhases(t, commandLine(), dir, map[string]string{
		"run f.rlx -i x=1 -o y.npy --check" + b: "open inputs weights check",
		"tokenize tokenizer.json":               "tokenizer tokenize",
		"tokenize text.rlx":                     "open tokenizer tokenize",
	})
}
