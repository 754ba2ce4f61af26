// Command check runs OpenAI's client for Go against the server at a URL, which `rlxrun serve` prints.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

func main() {
	if err := check(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "go:", err)
		os.Exit(1)
	}
	fmt.Println("go: ok")
}

func check(ctx context.Context, url string) error {
	client := openai.NewClient(option.WithBaseURL(url), option.WithAPIKey("none"), option.WithMaxRetries(0))
	models, err := client.Models.List(ctx)
	if err != nil {
		return err
	}
	ask := openai.ChatCompletionNewParams{Model: models.Data[0].ID, MaxTokens: openai.Int(12),
		Temperature: openai.Float(0),
		Messages:    []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hello")}}
	whole, err := client.Chat.Completions.New(ctx, ask)
	if err != nil {
		return err
	}
	stream := client.Chat.Completions.NewStreaming(ctx, ask)
	all := openai.ChatCompletionAccumulator{}
	for stream.Next() {
		all.AddChunk(stream.Current())
	}
	if stream.Err() != nil || all.Choices[0].Message.Content != whole.Choices[0].Message.Content {
		return fmt.Errorf("stream %q, %v; whole %q", all.Choices[0].Message.Content, stream.Err(),
			whole.Choices[0].Message.Content)
	}
	vector, err := client.Embeddings.New(ctx, openai.EmbeddingNewParams{Model: models.Data[0].ID,
		Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String("Hello")}})
	if err != nil || len(vector.Data) != 1 || len(vector.Data[0].Embedding) == 0 {
		return fmt.Errorf("embedding: %v, %w", vector, err)
	}
	ask.N = openai.Int(0)
	var failure *openai.Error
	if _, err := client.Chat.Completions.New(ctx, ask); !errors.As(err, &failure) || failure.Param != "n" {
		return fmt.Errorf("no choices: %v", err)
	}
	return nil
}
