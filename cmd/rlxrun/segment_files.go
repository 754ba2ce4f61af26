package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/imaging"
	"github.com/rlx-go/rlx/internal/regular"
	"github.com/rlx-go/rlx/segment"
)

// imagesOf lists the files of --images by name: the images in a folder, judged by their extension, or the files that a
// pattern matches.
func imagesOf(arg string) ([]string, error) {
	pattern, like := arg, false
	if st, err := os.Stat(arg); err == nil && st.IsDir() {
		pattern, like = filepath.Join(arg, "*"), true
	}
	all, err := filepath.Glob(pattern)
	if err != nil {
		return nil, cli.Usagef("--images "+arg, "is not a pattern: %w", err)
	}
	all = slices.DeleteFunc(all, func(p string) bool {
		st, err := os.Stat(p)
		return err == nil && st.IsDir() || like && !imaging.Named(p)
	})
	if len(all) == 0 {
		return nil, diag.New(code.Image, arg, "no images: nothing there has a name that ends in %s",
			strings.Join(imaging.Extensions, ", "))
	}
	seen := map[string]string{}
	for _, p := range all {
		if other, twice := seen[filepath.Base(p)]; twice {
			return nil, cli.Usagef("--images "+arg, "%s and %s have the same name and would share a folder of results",
				other, p)
		}
		seen[filepath.Base(p)] = p
	}
	return all, nil
}

// maxPrompts bounds the size of a --points-file in bytes.
const maxPrompts = 16 << 20

// readPrompts reads a --points-file: a list of {"points": [[x,y], [x,y,0]], "box": [x0,y0,x1,y1]}.
func readPrompts(path string) (out []segment.Prompts, err error) {
	bad := func(format string, args ...any) ([]segment.Prompts, error) {
		return nil, diag.New(code.MaskPrompt, path, format, args...).WithHint(
			`a file is [{"points": [[120,80], [30,40,0]]}, {"box": [60,40,200,160]}]`)
	}
	raw, err := regular.ReadFile(path, maxPrompts)
	if err != nil {
		return nil, diag.New(code.MaskPrompt, path, "%w", err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	var list []struct {
		Points [][]float64
		Box    []float64
	}
	if err := d.Decode(&list); err != nil || d.More() {
		if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) { // its text shows Go types
			return bad("is not a list of prompts: found a JSON %s at byte %d", wrong.Value, wrong.Offset)
		}
		return bad("is not a list of prompts: %v", err)
	}
	for i, x := range list {
		var p segment.Prompts
		for _, v := range x.Points {
			if len(v) != 2 && (len(v) != 3 || v[2] != 0 && v[2] != 1) {
				return bad("prompt %d: point %v is not [x,y], [x,y,0] (background) or [x,y,1] (foreground)", i, v)
			}
			p.Points = append(p.Points, segment.Point{X: v[0], Y: v[1], Foreground: len(v) == 2 || v[2] == 1})
		}
		if x.Box != nil {
			if len(x.Box) != 4 {
				return bad("prompt %d: box %v is not [x0,y0,x1,y1]", i, x.Box)
			}
			p.Box = &segment.Box{X0: x.Box[0], Y0: x.Box[1], X1: x.Box[2], Y1: x.Box[3]}
		}
		if len(p.Points) == 0 && p.Box == nil {
			return bad("prompt %d has neither points nor a box", i)
		}
		out = append(out, p)
	}
	if len(out) == 0 {
		return bad("has no prompts")
	}
	return out, nil
}
