package rlx_test

import (
	"context"
	"fmt"
	"image/png"
	"log"
	"os"
	"path/filepath"

	"github.com/rlx-go/rlx"
)

// segment writes the mask of the object at (x,y) in a photo.
func segment(ctx context.Context, artifact string, backend rlx.Backend, photo string, x, y float64, mask string) error {
	model, err := rlx.Open(ctx, artifact, rlx.OpenOptions{})
	if err != nil {
		return err
	}
	defer model.Close()
	session, err := model.NewSession(ctx, rlx.Options{Backend: backend})
	if err != nil {
		return err
	}
	defer session.Close()

	in, err := os.Open(photo)
	if err != nil {
		return err
	}
	defer in.Close()
	img, err := rlx.DecodeImage(in)
	if err != nil {
		return err
	}
	encoded, err := session.EncodeImage(ctx, img)
	if err != nil {
		return err
	}
	prompts := rlx.Prompts{Points: []rlx.Point{{X: x, Y: y, Foreground: true}}}
	masks, err := encoded.Masks(ctx, prompts, rlx.MaskBest)
	if err != nil {
		return err
	}
	out, err := os.Create(mask)
	if err != nil {
		return err
	}
	if err := png.Encode(out, masks[0].Image); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

// This program does what the demo of the command rlxrun does: it finds the object at a point of a photo.
func Example_segment() {
	mask := filepath.Join(os.TempDir(), fmt.Sprintf("rlx-mask-%d.png", os.Getpid()))
	defer os.Remove(mask)
	// A program would call rlx.FindBackend("cpu", "/opt/rlx/bin") in place of cpu(), and open a file that rlxc has made.
	if err := segment(context.Background(), demoModel(), cpu(), "demo/scene1.png", 128, 128, mask); err != nil {
		log.Fatal(err)
	}
	fmt.Println("the reference's mask:", sameImage(mask, "demo/scene1.mask.png"))
	// Output: the reference's mask: true
}
