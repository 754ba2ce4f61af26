package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/imaging"
)

// oneSource checks that images come from one of --image and --images. example has flags with an image.
func (f *maskFlags) oneSource(example string) error {
	switch {
	case f.folder != "" && f.image != "":
		return cli.Usagef("--images", "cannot be combined with --image")
	case f.folder == "" && f.image == "":
		return cli.Usagef("--image", "is missing").WithHint("for example %s", example)
	}
	return nil
}

// images lists the files of --image or --images.
func (f *maskFlags) images() ([]string, error) {
	if f.folder == "" {
		return []string{f.image}, nil
	}
	return imagesOf(f.folder)
}

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
