package rlx_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/rlx-go/rlx"
)

// complete writes a model's continuation of a text.
func complete(ctx context.Context, artifact string, backend rlx.Backend, prompt string, out io.Writer) error {
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
	g, err := session.NewGenerator(ctx)
	if err != nil {
		return err
	}
	ids, err := g.Encode(prompt)
	if err != nil {
		return err
	}
	for token, err := range g.Stream(ctx, ids, rlx.TextOptions{Tokens: 200, Sampling: g.Task.Sampling, Stop: []string{"\n\n"}}) {
		if err != nil {
			return err
		}
		io.WriteString(out, token.Text)
	}
	return nil
}

// This program does what the demo of a language model does: it continues a text and prints each piece as it is generated.
func Example_text() {
	// A program would call rlx.FindBackend("cpu", "/opt/rlx/bin") in place of cpu(), and open a file that rlxc has made.
	if err := complete(context.Background(), demoLlama(), cpu(), "ROMEO:", os.Stdout); err != nil {
		log.Fatal(err)
	}
	fmt.Println()
	// Output: I'll not be born to you.
}
