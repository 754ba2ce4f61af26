package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/npy"
)

// debugFlags are flags that request diagnostic output of a run.
type debugFlags struct {
	profile, check, checkNaN, checkInf, stats bool
	capsule                                   capsuleFlags
	trace                                     string   // file of --trace
	messages                                  string   // file of --log-protocol
	dumps                                     cli.List // GLOB=DIR values of --dump-tensors
}

func (d *debugFlags) declare(fs *cli.FlagSet) {
	fs.Group("Looking inside")
	fs.BoolVar(&d.profile, "profile", false,
		"print the time per kind of op, with GFLOP/s and GB/s; on cpu each step then runs by itself, which takes a little longer")
	fs.StringVar(
		&d.trace, "trace", "", "`FILE` write a trace of load and steps, for ui.perfetto.dev or chrome://tracing")
	fs.StringVar(&d.messages, "log-protocol", "", logProtocolHelp)
	fs.BoolVar(&d.checkNaN, "check-nan", false,
		"fail if a step's result has a NaN: lists the first three such values, and what made the first NaN")
	fs.BoolVar(&d.checkInf, "check-inf", false,
		"fail if a step makes an infinity of finite numbers, likewise; infinities that the model has on purpose do not count")
	fs.BoolVar(&d.stats, "stats", false,
		"print, for each input and each step's result, its range, mean absolute value, share of zeros, NaN and Inf")
	fs.BoolVar(&d.check, "check", false,
		"compare each step that the backend runs with the reference definition of its op (very slow); rlxc --check compares the steps with the model")
	d.capsule.declare(fs)
	fs.ListVarP(&d.dumps, "dump-tensors", "",
		"`GLOB=DIR` write the results of steps whose name or op matches GLOB to DIR, as METHOD.STEP.NAME.npy (repeatable)")
}

// any reports whether the flags make a run useful that has no outputs.
func (d *debugFlags) any() bool {
	return d.profile || d.checkNaN || d.checkInf || d.stats || d.check || d.trace != "" || d.messages != "" ||
		d.capsule.path != "" || len(d.dumps.Values) > 0
}

// prepare checks the values and makes the directories of --dump-tensors.
func (d *debugFlags) prepare() error {
	if d.trace == "-" {
		return cli.Usagef("--trace -", "a trace cannot go to stdout").WithHint("for example --trace trace.json")
	}
	if err := d.capsule.check(); err != nil {
		return err
	}
	for _, v := range d.dumps.Values {
		glob, dir, ok := strings.Cut(v, "=")
		if _, err := path.Match(glob, ""); !ok || dir == "" || err != nil {
			return cli.Usagef("--dump-tensors "+v, "is not GLOB=DIR with a pattern such as 'encoder.*'")
		}
		if err := os.Mkdir(dir, 0o777); err != nil && !os.IsExist(err) {
			return cli.Usagef("--dump-tensors "+v, "cannot create the directory: %w", unpath(err))
		}
		if st, err := os.Stat(dir); err != nil || !st.IsDir() {
			return cli.Usagef("--dump-tensors "+v, "%s exists and is not a directory", dir)
		}
	}
	return nil
}

// matches reports whether a glob of --dump-tensors matches a value, either by its name, such as
// image_encoder.blocks.3.mlp, or by its op, such as softmax.
func matches(glob string, v rlx.StepValue) bool {
	byName, _ := path.Match(glob, v.Name)
	byOp, _ := path.Match(glob, v.Op)
	return byName || byOp
}

// folders returns the folders of --dump-tensors.
func (d *debugFlags) folders() (list []string) {
	for _, v := range d.dumps.Values {
		if _, dir, ok := strings.Cut(v, "="); ok && dir != "" {
			list = append(list, dir)
		}
	}
	return list
}

// checkGlobs refuses a pattern of --dump-tensors that matches no step of the methods on any target. Otherwise a long
// run could end with an empty directory.
func (d *debugFlags) checkGlobs(methods []*rlx.Method) error {
	for _, v := range d.dumps.Values {
		glob, _, _ := strings.Cut(v, "=")
		found := false
		var all, names, ops []string
		for _, m := range methods {
			all = append(all, m.Name)
			for _, s := range m.Schedules {
				for _, v := range s.Values() {
					found = found || matches(glob, v)
					if !strings.HasPrefix(v.Name, "%") && !slices.Contains(names, v.Name) {
						names = append(names, v.Name)
					}
					if !slices.Contains(ops, v.Op) {
						ops = append(ops, v.Op)
					}
				}
			}
		}
		if !found {
			if len(names) > 3 {
				names = append(names[:3:3], "and so on")
			}
			slices.Sort(ops)
			return cli.Usagef("--dump-tensors "+v, "matches no step of %s; names are %s; ops are %s",
				strings.Join(all, " and "),
				strings.Join(names, ", "), strings.Join(ops, ", "))
		}
	}
	return nil
}

// watch adds the checks that the flags request to a run.
func (d *debugFlags) watch(ctx context.Context, r *rlx.Request) {
	r.Profile, r.Check = r.Profile || d.profile || d.trace != "", d.check
	if len(d.dumps.Values) == 0 {
		return
	}
	method := r.Method
	dirs := func(v rlx.StepValue) (out []string) {
		for _, arg := range d.dumps.Values {
			if glob, dir, _ := strings.Cut(arg, "="); matches(glob, v) {
				out = append(out, dir)
			}
		}
		return out
	}
	r.Select = func(v rlx.StepValue) bool { return len(dirs(v)) > 0 }
	r.Observe = func(v rlx.StepValue, t rlx.Tensor) error {
		for _, dir := range dirs(v) {
			name := fmt.Sprintf("%s.%05d.%s.npy", cli.FileName(method), v.Step, cli.FileName(v.Name))
			if err := npy.WriteFile(ctx, filepath.Join(dir, name), writable(ofModel(t))); err != nil {
				return err
			}
		}
		return nil
	}
}

// writable returns t in an element type that .npy supports. It converts bf16 to f32, which is exact.
func writable(t tensor.Tensor) tensor.Tensor {
	if t.DType != dtype.BF16 {
		return t
	}
	a := t.Array()
	a.DType = dtype.F32
	return a.Tensor()
}
