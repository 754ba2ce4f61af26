package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/capsule"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/ctxio"
	"github.com/rlx-go/rlx/internal/regular"
)

// replayFlags are the flags of `rlxrun replay`.
type replayFlags struct {
	model string
	host  hostFlags
	debug debugFlags
}

func replayCommand() *cli.Command {
	return &cli.Command{
		Name: "replay", Args: "FILE [flags]", Short: "repeat a run that failed, from its capsule",
		Long: `Runs the method of a capsule, which --capsule wrote when a run failed, on the inputs and the state of that run: on the backend and in the precision
that it had, unless flags say otherwise. A wrong answer that was found by a check is looked for again. Ends like that run, if it fails again. Weights that the
capsule lacks are taken from the model that --model names, or made up.`,
		Examples: []cli.Example{
			{About: "keep what is needed to repeat a failure",
				Line: "rlxrun model.rlx -b npu --random 1 -o y.npy --capsule run.capsule"},
			{About: "repeat it", Line: "rlxrun replay run.capsule"},
			{About: "on another backend, with the weights of the model",
				Line: "rlxrun replay run.capsule -b cpu --model model.rlx"},
		},
		Setup: func(fs *cli.FlagSet) cli.Run {
			var f replayFlags
			fs.Group("The run")
			fs.StringVar(&f.model, "model", "", "`FILE` the artifact that the capsule was made of, for its weights")
			f.host.declare(fs)
			f.debug.declare(fs)
			return func(ctx context.Context, env *cli.Env, args []string) error {
				if len(args) != 1 {
					return cli.Usagef("FILE", "%d files are named; want one capsule", len(args))
				}
				return f.replay(ctx, env, args[0], fs)
			}
		},
	}
}

// replay repeats the run of a capsule.
func (f *replayFlags) replay(ctx context.Context, env *cli.Env, path string, fs *cli.FlagSet) error {
	c, closing, err := openCapsule(ctx, path)
	if err != nil {
		return err
	}
	defer closing()
	if f.host.backend == "" && f.host.device == "" {
		f.host.backend = c.Backend.Name
		if c.Backend.Type == rlx.SoftwareDevice {
			f.host.device = rlx.SoftwareDevice
		}
	}
	if f.host.precision == "" {
		f.host.precision = c.Precision
	}
	if !fs.Changed("threads") && c.Threads > 0 {
		f.host.threads = fmt.Sprint(c.Threads)
	}
	switch diag.Code(c.Error.Code) { // the checks that find wrong answers
	case code.NaN:
		f.debug.checkNaN = true
	case code.Inf:
		f.debug.checkInf = true
	case code.Check, code.Differs:
		f.debug.check = true
	}
	o, err := f.host.options(env)
	if err != nil {
		return err
	}
	if err := o.Memory.Fits("weights", c.WeightBytes()); err != nil { // a small capsule may ask for many
		return err
	}
	dir, err := os.MkdirTemp("", "rlx-replay")
	if err != nil {
		return diag.New(code.OfWrite(err), "the artifact of the capsule", "cannot be written: %w", unpath(err))
	}
	defer os.RemoveAll(dir)
	artifact := filepath.Join(dir, "capsule.rlx")
	if err := f.unpack(ctx, c, artifact); err != nil {
		return err
	}
	f.announce(env, c)
	err = inSession(ctx, env, []string{artifact}, &f.host, &f.debug, func(ctx context.Context, s *session) error {
		return s.replay(ctx, c, dir)
	})
	switch again, _ := diag.CodeOf(err); {
	case err == nil:
		env.Notef("the run succeeds here; it failed with: %s (%s)", c.Error.Message, c.Error.Code)
	case string(again) == c.Error.Code:
		env.Notef("the run fails again, with the code that it had (%s)", string(again))
	default:
		env.Notef("the run fails in another way; it failed with: %s (%s)", c.Error.Message, c.Error.Code)
	}
	return err
}

// openCapsule opens and verifies a capsule.
func openCapsule(ctx context.Context, path string) (*capsule.File, func() error, error) {
	r, st, err := regular.Open(path)
	if err != nil {
		return nil, nil, diag.New(code.Capsule, path, "%w", err)
	}
	c, err := ctxio.Do(ctx, path, func() (*capsule.File, error) { return capsule.Read(ctx, path, r, st.Size()) }, nil)
	if err != nil {
		r.Close()
		return nil, nil, err
	}
	return c, r.Close, nil
}

// unpack writes the artifact of a capsule.
func (f *replayFlags) unpack(ctx context.Context, c *capsule.File, path string) error {
	if f.model == "" || c.Weights {
		return c.WriteArtifact(ctx, path, nil)
	}
	v, err := ctxio.Do(ctx, f.model, func() (*format.Verified, error) {
		return format.Open(f.model, format.Policy{})
	}, nil)
	if err != nil {
		return err
	}
	defer v.Close()
	return c.WriteArtifact(ctx, path, v)
}

// announce prints the contents of the capsule.
func (f *replayFlags) announce(env *cli.Env, c *capsule.File) {
	weights := "its weights"
	switch {
	case c.Weights || !c.Weighted():
	case f.model != "":
		weights = "the weights of " + f.model
	default:
		weights = "made-up weights; --model FILE takes those of the model"
	}
	env.Notef("%s of %s for %s, with %s", c.Method, c.Model, c.Target, weights)
	at := ""
	if c.LastStep != "" {
		at = "; its last step was " + c.LastStep
	}
	env.Notef("it ran on %s %s:%s %s by %s%s", c.Backend.Name, c.Backend.Version, c.Backend.Device, c.Backend.Product,
		c.Host, at)
}

// replay runs the method of a capsule in a session of its artifact.
func (s *session) replay(ctx context.Context, c *capsule.File, dir string) error {
	if err := s.need("inputs", c.Bytes()); err != nil {
		return err
	}
	m := s.model.Methods()[0]
	in, err := c.ReadInputs()
	if err != nil {
		return err
	}
	j := &methodJob{method: m, in: map[string]rlx.Tensor{}}
	for name, t := range in {
		j.in[name] = forModel(t)
	}
	if err := s.ready(ctx, nil, nil, m); err != nil {
		return err
	}
	if m.Stateful {
		states, err := c.ReadStates()
		if err != nil {
			return err
		}
		s.files.from = filepath.Join(dir, "state.safetensors")
		var w files
		err = errors.Join(w.add(ctx, s.files.from, func(to io.Writer) error {
			return capsule.WriteState(ctx, to, s.model.Facts().Identity, states)
		}), w.commit())
		if err != nil {
			return err
		}
	}
	products, err := j.run(ctx, s)
	if err != nil {
		return err
	}
	var w files
	defer w.abort()
	sum := s.summarise(j, nil, products)
	if err := s.addTrace(ctx, &w); err != nil {
		return err
	}
	if err := w.commit(); err != nil {
		return err
	}
	return sum.print(s.env, j)
}
