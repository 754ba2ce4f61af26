// Package campaign runs the bodies of fuzz tests without the fuzzer: from a seed, on all processors, and without
// instrumentation, which makes it 100 times as fast for small inputs. A fuzz test needs two changes for it:
//
//	func FuzzParse(t *testing.F) {
//		f := campaign.New(t)
//		f.Add([]byte("..."))
//		f.Fuzz(func(t testing.TB, b []byte) { ... })
//	}
//
// It stays a fuzz test, with the same seeds, unless the variable RLX_CAMPAIGN names a state file. Then it makes inputs
// for RLX_CAMPAIGN_TIME or until SIGINT or SIGTERM, continues where the file says that an earlier campaign ended, and
// adds what it did to the file. RLX_CAMPAIGN_SEED repeats the input with one number. Command bench/campaign runs many
// tests this way.
package campaign

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"os/signal"
	"reflect"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// The names of the variables that start a campaign.
const (
	EnvState = "RLX_CAMPAIGN"
	EnvTime  = "RLX_CAMPAIGN_TIME"
	EnvSeed  = "RLX_CAMPAIGN_SEED"
)

// State has the totals of the campaigns of one test so far. A state file has one State for each test, by names such as
// "format.FuzzWalk".
type State struct {
	Next    uint64  `json:"next"` // the first input that was not tried; the inputs before it were
	Runs    uint64  `json:"runs"`
	Seconds float64 `json:"seconds"`
	Finds   []Find  `json:"finds,omitempty"`
	Slow    []Find  `json:"slow,omitempty"` // inputs that took longer than a second, each of six times
}

// Find is an input that failed the test.
type Find struct {
	Seed  uint64   `json:"seed"`
	What  string   `json:"what"`
	Input []string `json:"input"` // the arguments, as Go syntax
}

const (
	maxFinds = 20 // a campaign of a test ends after so many
	maxInput = 64 << 10
	block    = 32 // inputs that a worker takes at a time
	slow     = time.Second
)

// F is a fuzz test that can also run as a campaign.
type F struct {
	*testing.F
	seeds [][]any
}

// New returns f as a test that can run as a campaign.
func New(f *testing.F) *F { return &F{F: f} }

// Add adds arguments to the seeds, from which the other inputs are made.
func (f *F) Add(args ...any) {
	f.F.Add(args...)
	f.seeds = append(f.seeds, args)
}

// Fuzz is like testing.F's method, but the body's first parameter is a testing.TB. The others must be of type []byte,
// string, uint8 or uint64. In a campaign, a body must not keep its arguments; and a single uint64 is the number of the
// input, as the body makes its input from it.
func (f *F) Fuzz(body any) {
	f.Helper()
	v := reflect.ValueOf(body)
	if path := os.Getenv(EnvState); path != "" {
		f.campaign(path, v)
		return
	}
	in := []reflect.Type{reflect.TypeFor[*testing.T]()}
	for i := 1; i < v.Type().NumIn(); i++ {
		in = append(in, v.Type().In(i))
	}
	f.F.Fuzz(reflect.MakeFunc(reflect.FuncOf(in, nil, false), v.Call).Interface())
}

// name returns the test's name in a state file.
func (f *F) name() string {
	pkg := "test"
	if b, ok := debug.ReadBuildInfo(); ok {
		pkg = strings.TrimSuffix(strings.TrimPrefix(b.Path, "github.com/rlx-go/rlx/"), ".test")
	}
	return pkg + "." + f.Name()
}

func (f *F) campaign(path string, body reflect.Value) {
	all, err := Read(path)
	if err != nil {
		f.Fatal(err)
	}
	run := &run{F: f, body: body, name: f.name()}
	switch f := body.Interface().(type) { // much faster than calls by reflection
	case func(testing.TB, []byte):
		run.fast = func(t testing.TB, arg any) { f(t, arg.([]byte)) }
	case func(testing.TB, uint64):
		run.fast = func(t testing.TB, arg any) { f(t, arg.(uint64)) }
	}
	if text := os.Getenv(EnvSeed); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			f.Fatal(EnvSeed, err)
		}
		if find := run.try(newMaker(run), seed); find != nil {
			f.Fatalf("input %d: %s\n%s", seed, find.What, strings.Join(find.Input, "\n"))
		}
		f.SkipNow()
	}
	limit, err := time.ParseDuration(os.Getenv(EnvTime))
	if err != nil {
		f.Fatal(EnvTime, err)
	}
	s := all[run.name]
	if s == nil {
		s = &State{}
		all[run.name] = s
	}
	run.next.Store(s.Next)
	if os.Getenv("GOGC") == "" {
		// Inputs live briefly and little else does, so that collections find nothing to keep: with 400, twice as many
		// inputs a second on 16 processors.
		debug.SetGCPercent(2000)
	}
	start, from := time.Now(), s.Next
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() { run.work(ctx) })
	}
	wg.Wait()
	s.Next = run.next.Load()
	s.Runs += s.Next - from
	s.Seconds += time.Since(start).Seconds()
	s.Finds = append(s.Finds, run.finds...)
	s.Slow = append(s.Slow, run.slow...)
	if err := all.Write(path); err != nil {
		f.Fatal(err)
	}
	for _, x := range run.finds {
		f.Errorf("input %d: %s", x.Seed, x.What)
	}
	for _, x := range run.slow {
		f.Errorf("input %d is slow: %s", x.Seed, x.What)
	}
	if !f.Failed() {
		f.SkipNow() // package testing wants a call of Fuzz, or this
	}
}

// States is the content of a state file.
type States map[string]*State

// Read reads a state file. A file that does not exist is empty.
func Read(path string) (States, error) {
	s := States{}
	b, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return s, nil
	}
	if err == nil && len(b) > 0 {
		err = json.Unmarshal(b, &s)
	}
	return s, err
}

// Write writes a state file.
func (s States) Write(path string) error {
	b, err := json.MarshalIndent(s, "", "\t")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", append(b, '\n'), 0o666); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// run is one campaign of one test.
type run struct {
	*F
	body reflect.Value
	fast func(testing.TB, any) // body, if its type is one of a few
	name string
	next atomic.Uint64

	mu          sync.Mutex
	finds, slow []Find
}

// hash makes the inputs of each test differ.
func (r *run) hash() uint64 {
	h := fnv.New64a()
	h.Write([]byte(r.name))
	return h.Sum64()
}

func (r *run) work(ctx context.Context) {
	m := newMaker(r)
	for now := time.Now(); ctx.Err() == nil; {
		r.mu.Lock()
		enough := len(r.finds)+len(r.slow) >= maxFinds
		r.mu.Unlock()
		if enough {
			return
		}
		first := r.next.Add(block) - block
		for seed := first; seed < first+block; seed++ {
			if find := r.try(m, seed); find != nil {
				r.mu.Lock()
				r.finds = append(r.finds, *find)
				r.mu.Unlock()
			}
		}
		begin := now
		if now = time.Now(); now.Sub(begin) > slow {
			r.repeat(m, first)
		}
	}
}

// repeat looks for the slow inputs of a block that took long, which may also be due to a busy machine.
func (r *run) repeat(m *maker, first uint64) {
	for seed := first; seed < first+block; seed++ {
		d := time.Hour
		for try := 0; try < 5 && d > slow; try++ {
			begin := time.Now()
			r.try(m, seed)
			d = min(d, time.Since(begin))
		}
		if d > slow {
			r.mu.Lock()
			r.slow = append(r.slow, Find{Seed: seed, What: d.String(), Input: text(m.args)})
			r.mu.Unlock()
		}
	}
}

// try runs the body on one input.
func (r *run) try(m *maker, seed uint64) (find *Find) {
	t := &tb{TB: r.F.F}
	defer func() {
		x := recover()
		for i := len(t.cleanups) - 1; i >= 0; i-- {
			t.cleanups[i]()
		}
		if t.dir != "" {
			os.RemoveAll(t.dir)
		}
		switch x := x.(type) {
		case nil, stop:
		default:
			t.note(fmt.Sprintf("panic: %v\n%s", x, debug.Stack()))
		}
		if t.failed != nil {
			find = &Find{Seed: seed, What: strings.Join(t.failed, "\n"), Input: text(m.args)}
		}
	}()
	m.make(seed)
	if r.fast != nil {
		r.fast(t, m.args[0])
		return nil
	}
	in := []reflect.Value{reflect.ValueOf(t)}
	for _, a := range m.args {
		in = append(in, reflect.ValueOf(a))
	}
	r.body.Call(in)
	return nil
}

func text(args []any) (out []string) {
	for _, a := range args {
		out = append(out, fmt.Sprintf("%#v", a))
		if b, ok := a.([]byte); ok {
			out[len(out)-1] = fmt.Sprintf("[]byte(%q)", b)
		}
	}
	return out
}

// tb is the testing.TB of one input. It turns failures into a Find.
type tb struct {
	testing.TB
	failed   []string
	cleanups []func()
	dir      string
}

// stop is the panic that ends a body.
type stop struct{}

func (t *tb) note(s string) { t.failed = append(t.failed, s) }

func (t *tb) Helper()                   {}
func (t *tb) Log(...any)                {}
func (t *tb) Logf(string, ...any)       {}
func (t *tb) Failed() bool              { return t.failed != nil }
func (t *tb) Cleanup(f func())          { t.cleanups = append(t.cleanups, f) }
func (t *tb) Fail()                     { t.note("failed") }
func (t *tb) FailNow()                  { t.note("failed"); panic(stop{}) }
func (t *tb) Error(args ...any)         { t.note(fmt.Sprintln(args...)) }
func (t *tb) Errorf(f string, a ...any) { t.note(fmt.Sprintf(f, a...)) }
func (t *tb) Fatal(args ...any)         { t.note(fmt.Sprintln(args...)); panic(stop{}) }
func (t *tb) Fatalf(f string, a ...any) { t.note(fmt.Sprintf(f, a...)); panic(stop{}) }
func (t *tb) Skip(...any)               { panic(stop{}) }
func (t *tb) Skipf(string, ...any)      { panic(stop{}) }
func (t *tb) SkipNow()                  { panic(stop{}) }

func (t *tb) TempDir() string {
	if t.dir == "" {
		dir, err := os.MkdirTemp("", "campaign")
		if err != nil {
			panic(err)
		}
		t.dir = dir
	}
	return t.dir
}
