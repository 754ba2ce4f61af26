package compile_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/rlx-go/rlx/compile"
)

// One call turns a checkpoint into an artifact.
func ExampleCheckpoint() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	r, err := compile.Checkpoint(context.Background(), "../demo/sam-nano.safetensors", compile.Options{
		Output:  filepath.Join(dir, "sam.rlx"),
		Targets: []string{"cpu"},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range r.Programs {
		fmt.Println(p.Method, "for", p.Target)
	}
	// Output:
	// encode for cpu
	// decode for cpu
	// decode_batch for cpu
}

// In steps, a program can look at the model before it compiles it, and at the programs before it writes them.
func ExampleLoad() {
	ctx := context.Background()
	m, err := compile.Load(ctx, "../demo/sam-nano.safetensors", compile.Options{Targets: []string{"cpu"}, DType: "f16"})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	fmt.Println(m.Name, "is of the family", m.Arch)
	for _, f := range m.Facts[1:3] {
		fmt.Println(f.Name, f.Value)
	}
	r, err := m.Compile(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(r.Programs), "programs,", r.WeightsBytes>>10, "KiB of weights")
	// Output:
	// sam-nano is of the family sam
	// image 256 px, patch 8, 32x32 tokens
	// encoder 6 blocks of width 192, 6 heads, MLP 768
	// 3 programs, 9000 KiB of weights
}
