package text_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/text"
)

// llama is an artifact, llama.rlx, that rlxc has made of the demo's checkpoint.
var llama = rlxtest.Llama

// A Generator continues a prompt. Each piece of text is printed as it is generated. Without Options.Sampling, tokens
// are drawn as the artifact suggests.
func Example() {
	ctx := context.Background()
	session, err := rlx.Load(ctx, llama(), "cpu")
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	g, err := text.NewGenerator(ctx, session)
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	prompt, err := g.Encode("ROMEO:")
	if err != nil {
		log.Fatal(err)
	}
	for token, err := range g.Stream(ctx, prompt, text.Options{Tokens: 200, Stop: []string{"\n\n"}}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(token.Text)
	}
	fmt.Println()
	// Output: I'll not be born to you.
}

// A message may have images, if the model takes some.
func ExampleEncodeMessages() {
	ctx := context.Background()
	session, err := rlx.Load(ctx, "qwen3vl.rlx", "cpu")
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	file, err := os.Open("photo.jpg")
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	img, err := text.DecodeImage(file)
	if err != nil {
		log.Fatal(err)
	}
	photo, err := text.NewImage(session.Model(), img)
	if err != nil {
		log.Fatal(err)
	}
	prompt, err := text.EncodeMessages(session.Model(), []text.Message{
		{Role: "user", Parts: []text.Part{{Image: photo}, {Text: "What is this?"}}},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	g, err := text.NewGenerator(ctx, session)
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	result, err := g.Generate(ctx, prompt.IDs, text.Options{Images: prompt.Images})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Text)
}

// An option replaces the artifact's default. Start from the defaults to change one of them.
func ExampleGenerator_Generate() {
	ctx := context.Background()
	session, err := rlx.Load(ctx, llama(), "cpu")
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	g, err := text.NewGenerator(ctx, session)
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	prompt, err := g.Encode("ROMEO:")
	if err != nil {
		log.Fatal(err)
	}
	sampling := g.Facts().Sampling
	sampling.Temperature = 0 // always the most probable token
	result, err := g.Generate(ctx, prompt, text.Options{Tokens: 8, Sampling: &sampling})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%q, ended by %s\n", result.Text, result.Stop)
	// Output: " I'll not be born to you", ended by length
}
