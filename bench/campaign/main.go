// Command campaign runs fuzz tests as campaigns: one after another on all processors, each for a share of the time. It
// keeps what they did in a file, so that the next call continues, and prints the totals. SIGINT and SIGTERM end it
// early; nothing is lost.
//
//	go run ./bench/campaign -build bin/campaign        # the tests as static binaries, and this command
//	bin/campaign/campaign -time 280s -state state.json # needs only that folder
//
// A find is printed with its number, and its input is in the file. "campaign -seed NUMBER -only TEST" repeats it. Every
// find becomes a seed of its test, or a test of its own. See package internal/campaign.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rlx-go/rlx/internal/campaign"
)

// target is a fuzz test, with the row of the test matrix that it counts for and its share of the time.
type target struct {
	row, pkg, test string
	share          int
}

var targets = []target{
	{"T1", "format", "FuzzWalk", 24},
	{"T1", "format", "FuzzDecodeMeta", 2},
	{"T1", "format", "FuzzDecodeGraph", 2},
	{"T1", "format", "FuzzDecodePlan", 2},
	{"T1", "format", "FuzzDecodeSched", 2},
	{"T1", "format", "FuzzDecodeTensors", 2},
	{"T1", "format", "FuzzDecodeProgram", 3},
	{"T2", "format", "FuzzContents", 14},
	{"T2", "format", "FuzzVerify", 1},
	{"T2", "format", "FuzzSections", 1},
	{"T4", "internal/safetensors", "FuzzParse", 8},
	{"T4", "internal/gguf", "FuzzParse", 10},
	{"T4", "models/weights", "FuzzIndex", 8},
	{"T4", "models/arch", "FuzzConfig", 4},
	{"T4", "models/gguf", "FuzzOpen", 2},
	{"T5", "plugins/rpc/host", "FuzzHandshake", 2},
	{"T5", "plugins/rpc/internal/wire", "FuzzWireError", 1},
	{"T5", "plugins/rpc/internal/wire", "FuzzInfo", 1},
	{"T5", "plugins/rpc/host", "FuzzLogLine", 1},
	{"T5", "plugins/rpc/host", "FuzzReplies", 5},
	{"T5", "plugins/rpc/host", "FuzzRunReplies", 3},
	{"T5", "plugins/rpc/host", "FuzzStateReplies", 2},
	{"T5", "plugins/rpc/internal/server", "FuzzStates", 3},
	{"T5", "plugins/rpc/internal/server", "FuzzServer", 6},
	{"T5", "plugins/rpc/internal/server", "FuzzDirect", 6},
	{"T5", "plugins/rpc/internal/wire", "FuzzDirect", 5},
	{"T27", "plugins/cpu/backend", "FuzzRandom", 40},
}

func (x target) name() string { return x.pkg + "." + x.test }

// binary returns the file name of the package's tests.
func (x target) binary() string { return strings.ReplaceAll(x.pkg, "/", "_") + ".test" }

func main() {
	out := flag.String("build", "", "build the tests and this command into `FOLDER`, and end")
	total := flag.Duration("time", time.Minute, "time for all tests together")
	state := flag.String("state", "", "`FILE` that keeps what the campaigns did")
	only := flag.String("only", "", "`REGEXP` of whole rows or tests to run, such as T4 or format.FuzzWalk")
	first := flag.Uint64("first", 0, "`NUMBER` of the first input of tests that the state file does not have")
	seed := flag.String("seed", "", "run only the input with this `NUMBER`, of the test that -only names")
	flag.Parse()
	var err error
	switch {
	case flag.NArg() > 0:
		err = fmt.Errorf("want no arguments, have %q", flag.Args())
	case *out != "":
		err = build(*out)
	case *state == "" && *seed == "":
		err = fmt.Errorf("-state names no file")
	default:
		err = run(*total, *state, *only, *seed, *first)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "campaign:", err)
		os.Exit(1)
	}
}

// build makes a folder that a machine without Go can run.
func build(folder string) error {
	made := map[string]bool{}
	command := func(args ...string) error {
		cmd := exec.Command("go", args...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		return cmd.Run()
	}
	for _, x := range targets {
		if made[x.pkg] {
			continue
		}
		made[x.pkg] = true
		if err := command("test", "-c", "-vet=off", "-trimpath", "-ldflags=-s -w", "-o",
			filepath.Join(folder, x.binary()), "./"+x.pkg); err != nil {
			return err
		}
	}
	return command("build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(folder, "campaign"), "./bench/campaign")
}

// begin makes the tests that the state file does not have start with the given input.
func begin(state string, list []target, first uint64) error {
	if first == 0 || state == os.DevNull {
		return nil
	}
	all, err := campaign.Read(state)
	if err != nil {
		return err
	}
	for _, x := range list {
		if all[x.name()] == nil {
			all[x.name()] = &campaign.State{Next: first}
		}
	}
	return all.Write(state)
}

func run(total time.Duration, state, only, seed string, first uint64) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	want, err := regexp.Compile("^(?:" + only + ")$")
	if err != nil {
		return err
	}
	if state != "" {
		if state, err = filepath.Abs(state); err != nil {
			return err
		}
	} else {
		state = os.DevNull
	}
	list := slices.DeleteFunc(slices.Clone(targets), func(x target) bool {
		return only != "" && !want.MatchString(x.row) && !want.MatchString(x.name())
	})
	if err := begin(state, list, first); err != nil {
		return err
	}
	shares := 0
	for _, x := range list {
		shares += x.share
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	failed := 0
	for _, x := range list {
		if ctx.Err() != nil {
			break
		}
		cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(self), x.binary()), "-test.run=^"+x.test+"$",
			"-test.timeout=0", "-test.v")
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		if info, err := os.Stat(filepath.FromSlash(x.pkg)); err == nil && info.IsDir() {
			cmd.Dir = filepath.FromSlash(x.pkg) // for seeds from files
		}
		share := total * time.Duration(x.share) / time.Duration(shares)
		cmd.Env = append(os.Environ(), campaign.EnvState+"="+state, campaign.EnvTime+"="+share.String(),
			campaign.EnvSeed+"="+seed)
		// after a signal, the test has written its state and ends with success
		if out, err := cmd.CombinedOutput(); err != nil && !errors.Is(err, context.Canceled) {
			failed++
			fmt.Printf("%s %s: %v\n%s\n", x.row, x.name(), err, out[:min(len(out), 4000)])
		} else if bytes.Contains(out, []byte("PASS: "+x.test)) { // a campaign ends as skipped
			failed++
			fmt.Printf("%s %s: ran its seeds only, because it is not a campaign\n", x.row, x.name())
		}
	}
	if seed != "" {
		return nil
	}
	if err := report(state); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d tests found something", failed)
	}
	return nil
}

// report prints the totals of all campaigns of a file.
func report(path string) error {
	states, err := campaign.Read(path)
	if err != nil {
		return err
	}
	rows := map[string]uint64{}
	for _, x := range targets {
		s := states[x.name()]
		if s == nil {
			continue
		}
		rows[x.row] += s.Runs
		fmt.Printf("%-4s %-36s %14d inputs %12.0f a second %4d finds %4d slow\n", x.row, x.name(), s.Runs,
			float64(s.Runs)/s.Seconds, len(s.Finds), len(s.Slow))
	}
	for _, row := range slices.Sorted(maps.Keys(rows)) {
		fmt.Printf("%-4s %14d inputs\n", row, rows[row])
	}
	return nil
}
