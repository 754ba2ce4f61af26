package segment_test

import (
	"context"
	"fmt"
	"image/png"
	"log"
	"os"
	"path/filepath"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/segment"
)

// sam is an artifact, sam.rlx, that rlxc has made of the demo's checkpoint.
var sam = rlxtest.SAM

// A point on an object gives its mask.
func Example() {
	ctx := context.Background()
	session, err := rlx.Load(ctx, sam(), "cpu")
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	segmenter, err := segment.New(session)
	if err != nil {
		log.Fatal(err)
	}

	in, err := os.Open("../demo/scene1.png")
	if err != nil {
		log.Fatal(err)
	}
	defer in.Close()
	photo, err := segment.DecodeImage(in)
	if err != nil {
		log.Fatal(err)
	}
	img, err := segmenter.Encode(ctx, photo)
	if err != nil {
		log.Fatal(err)
	}
	prompts := segment.Prompts{Points: []segment.Point{{X: 128, Y: 128, Foreground: true}}}
	masks, err := img.Masks(ctx, prompts, segment.Best)
	if err != nil {
		log.Fatal(err)
	}

	path := filepath.Join(os.TempDir(), fmt.Sprintf("rlx-mask-%d.png", os.Getpid()))
	defer os.Remove(path)
	out, err := os.Create(path)
	if err != nil {
		log.Fatal(err)
	}
	defer out.Close()
	if err := png.Encode(out, masks[0].Image); err != nil {
		log.Fatal(err)
	}
	fmt.Println("the reference's mask:", sameImage(path, "../demo/scene1.mask.png"))
	// Output: the reference's mask: true
}

// Everything finds all objects of an image.
func ExampleImage_Everything() {
	ctx := context.Background()
	session, err := rlx.Load(ctx, sam(), "cpu")
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	segmenter, err := segment.New(session)
	if err != nil {
		log.Fatal(err)
	}
	img, err := segmenter.Encode(ctx, mustDecode("../demo/scene1.png"))
	if err != nil {
		log.Fatal(err)
	}
	all, err := img.Everything(ctx, segment.EverythingOptions{Side: 8})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(all.Regions), "objects")
	// Output: 3 objects
}
