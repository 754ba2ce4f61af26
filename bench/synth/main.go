// Command synth writes deterministic tensors: a checkpoint from a manifest, or one input as an npy file.
//
//	go run ./bench/synth -manifest testdata/goldens/sam_tiny/manifest.json -o model.safetensors [-dtype F32|F16|BF16]
//	go run ./bench/synth -manifest testdata/goldens/sam_vit_b/manifest.json \
//	    -encoder sam_vit_h -o sam_vit_h.safetensors
//	go run ./bench/synth -name sam_tiny.image -shape 1,3,128,128 -scale 2 -o image.npy
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/internal/synth"
)

func main() {
	manifest := flag.String("manifest", "", "manifest of a checkpoint")
	encoder := flag.String(
		"encoder", "", "encoder of SAM that replaces the one in the manifest of sam_vit_b, such as sam_vit_h")
	out := flag.String("o", "", "file to write")
	elem := flag.String("dtype", "F32", "element type of a checkpoint: F32, F16 or BF16")
	name := flag.String("name", "", "name of a single input")
	shape := flag.String("shape", "", "shape of the input, comma separated")
	scale := flag.Float64("scale", 1, "scale of the input's values")
	shift := flag.Float64("shift", 0, "shift of the input's values")
	flag.Parse()
	if err := run(*manifest, *encoder, *out, *elem, *name, *shape, *scale, *shift); err != nil {
		fmt.Fprintln(os.Stderr, "synth:", err)
		os.Exit(1)
	}
}

func run(manifest, encoder, out, elem, name, shape string, scale, shift float64) error {
	switch {
	case out == "":
		return errors.New("-o is missing; it names the file to write")
	case (manifest == "") == (name == ""):
		return errors.New("give either -manifest or -name")
	case name != "":
		e := synth.Entry{Name: name, Scale: scale, Shift: shift}
		for part := range strings.SplitSeq(shape, ",") {
			d, err := strconv.ParseUint(strings.TrimSpace(part), 10, 31)
			if err != nil {
				return fmt.Errorf("-shape: %w", err)
			}
			e.Shape = append(e.Shape, int(d))
		}
		return synth.WriteNpy(out, e)
	}
	es, err := synth.ReadManifest(manifest)
	if err != nil {
		return err
	}
	if encoder != "" {
		e, err := synth.FindEncoder(encoder)
		if err != nil {
			return fmt.Errorf("-encoder: %w", err)
		}
		es = e.Manifest(es)
	}
	d, ok := dtype.Parse(strings.ToLower(elem))
	if !ok {
		return fmt.Errorf("-dtype is %q; want F32, F16 or BF16", elem)
	}
	return synth.Write(out, es, d)
}
