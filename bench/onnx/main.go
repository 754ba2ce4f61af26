// Onnx compiles and runs ONNX models whose outputs are known: the node tests of ONNX, which nodes.py writes, and
// architectures of PyTorch, which models.py exports. It prints what passed, what was refused and for which reason, and
// what failed.
//
//	go run ./bench/onnx [-only REGEXP] [-backend NAME] DIR
//
// With -ranges and -serve it prints sizes of one model and runs its artifact, for speed.py.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

func main() {
	log.SetFlags(0)
	only := flag.String("only", "", "run only the tests whose names match")
	backend := flag.String("backend", "cpu", "the backend to run on")
	parallel := flag.Int("parallel", 4, "how many tests run at a time")
	served := flag.String("serve", "", "an artifact: run it with the inputs of DIR, as speed.py says")
	ranges := flag.Bool("ranges", false, "print the --size of each open size that the inputs of DIR need")
	threads := flag.Int("threads", 0, "threads of the backend with -serve; 0 means all")
	verbose := flag.Bool("v", false, "print every test")
	flag.Parse()
	switch {
	case *served != "":
		if err := serve(context.Background(), *served, flag.Arg(0), *backend, *threads); err != nil {
			log.Fatal(err)
		}
		return
	case *ranges:
		if err := printRanges(flag.Arg(0)); err != nil {
			log.Fatal(err)
		}
		return
	}
	pattern := regexp.MustCompile(*only)
	models, err := filepath.Glob(filepath.Join(flag.Arg(0), "*", "model.onnx"))
	if err != nil {
		log.Fatal(err)
	}
	count := map[string]int{}
	reasons := map[string][]string{}
	type outcome struct{ name, verdict, why string }
	outcomes := make([]outcome, len(models))
	var group errgroup.Group
	group.SetLimit(*parallel)
	for i, model := range models {
		dir := filepath.Dir(model)
		name := filepath.Base(dir)
		if !pattern.MatchString(name) {
			continue
		}
		group.Go(func() error {
			verdict, why := (&test{dir: dir, backend: *backend}).run(context.Background())
			outcomes[i] = outcome{name, verdict, why}
			if *verbose {
				fmt.Println(verdict, name, why)
			}
			return nil
		})
	}
	_ = group.Wait() // no test returns an error
	for _, o := range outcomes {
		if o.verdict == "" {
			continue
		}
		count[o.verdict]++
		if o.why != "" {
			reasons[o.verdict+": "+o.why] = append(reasons[o.verdict+": "+o.why], o.name)
		}
	}
	var keys []string
	for k := range reasons {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int {
		if d := len(reasons[b]) - len(reasons[a]); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	for _, k := range keys {
		l := reasons[k]
		if len(l) > 6 {
			l = append(slices.Clone(l[:6]), "...")
		}
		fmt.Printf("%4d %s (%s)\n", len(reasons[k]), k, strings.Join(l, " "))
	}
	fmt.Println(count)
}
