//go:build unix

package main

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestTrainKilled kills a training at a random time, with a signal that it cannot handle, as often as its checkpoint
// grows. The same command then goes on, and saves the same bits as a training that nothing interrupts.
func TestTrainKilled(t *testing.T) {
	model, err := artifact()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	compile := exec.Command(filepath.Join(filepath.Dir(model), "rlxc"), "../../demo/llama", "--target", "cpu",
		"--train", "lora=2", "--train-tokens", "16", "-o", filepath.Join(dir, "t.rlx"))
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text := strings.Repeat("Some words that are trained on, and some others. ", 40)
	if err := os.WriteFile(filepath.Join(dir, "text.txt"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	start := func(flags string) *exec.Cmd {
		args := "train t.rlx -b cpu --text text.txt -n 12 --checkpoint-every 1 " + flags
		cmd := exec.Command(filepath.Join(filepath.Dir(model), "rlxrun"), strings.Fields(args)...)
		cmd.Dir, cmd.Stderr = dir, os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	if err := start("--save whole.safetensors").Wait(); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	checkpoint := filepath.Join(dir, "c.ckpt")
	for range 3 {
		cmd := start("--checkpoint c.ckpt --resume --save killed.safetensors")
		before, _ := os.Stat(checkpoint)
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait(); close(ended) }()
		for waiting := true; waiting; { // until there is a new checkpoint
			select {
			case err := <-ended:
				if err != nil {
					t.Fatal(err)
				}
				waiting = false
			case <-time.After(time.Millisecond):
				now, err := os.Stat(checkpoint)
				waiting = err != nil || before != nil && os.SameFile(before, now)
			}
		}
		time.Sleep(time.Duration(rng.IntN(50)) * time.Millisecond)
		cmd.Process.Kill() // it may have ended
		<-ended
	}
	if err := start("--checkpoint c.ckpt --resume --save killed.safetensors").Wait(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(dir, "whole.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	killed, err := os.ReadFile(filepath.Join(dir, "killed.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(whole, killed) {
		t.Error("a training that was killed and went on gives other bits")
	}
}
