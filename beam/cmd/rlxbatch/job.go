package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/metrics"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/fileio"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/textio"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	rlxbeam "github.com/rlx-go/rlx/beam"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/maskfiles"
	"github.com/rlx-go/rlx/segment"
)

// A job is what the flags ask for.
type job struct {
	flags *flag.FlagSet
	own   map[string]bool // flags that are not Beam's
	model rlxbeam.Model

	input, text, output string
	points, mask        string
	objects             segment.EverythingOptions
	objectMasks, fresh  bool
	generate            rlxbeam.GenerateOptions
	embed               bool
	pooling             string
	shards              int
}

const failuresName = "failures"

func newJob(f *flag.FlagSet) *job {
	j := &job{flags: f, own: map[string]bool{"verbose": true}, objects: rlxbeam.DefaultObjects()}
	beams := map[string]bool{}
	f.VisitAll(func(x *flag.Flag) { beams[x.Name] = true })
	f.StringVar(&j.input, "input", "", "images: a folder or a `PATTERN`, in which ** stands for any folders")
	f.StringVar(&j.text, "text", "", "texts: a `FILE` or pattern of lines, JSON objects with id and prompt, or plain")
	f.StringVar(&j.output, "output", "", "`FOLDER` for the results, which all workers share")
	f.StringVar(&j.points, "points-file", "", "`FILE` of prompts for each image, as for rlxrun; without it, all objects")
	f.StringVar(&j.mask, "mask", string(segment.Best), "`WHICH` masks of a prompt: best, all or a number")
	f.IntVar(&j.objects.Side, "grid", j.objects.Side, "points in each direction to look for all objects, `N`")
	f.Float64Var(&j.objects.MinIoU, "min-iou", j.objects.MinIoU, "lowest predicted `QUALITY` of an object")
	f.Float64Var(&j.objects.MinStability, "min-stability", j.objects.MinStability, "lowest `STABILITY` of an object")
	f.BoolVar(&j.objectMasks, "object-masks", false, "write a picture for each object")
	f.BoolVar(&j.fresh, "fresh", false, "compute images again whose masks are there")
	f.IntVar(&j.generate.Tokens, "tokens", 128, "maximum number of tokens that continue a text, `N`; 0 means no limit")
	f.Uint64Var(&j.generate.Seed, "seed", 0, "`SEED` with which tokens are drawn")
	f.BoolVar(&j.generate.Chat, "chat", false, "texts are what a user says in a conversation")
	f.BoolVar(&j.embed, "embed", false, "compute a vector for each text")
	f.StringVar(&j.pooling, "pooling", "mean", "`KIND` of vector: mean, last or cls")
	f.IntVar(&j.shards, "shards", 1, "number of files with the results of texts, `N`")
	f.StringVar(&j.model.Backend, "backend", "cpu", "`NAME` of the backend that runs the model")
	f.StringVar(&j.model.Device, "device", "", "`ID` of the backend's device")
	f.StringVar(&j.model.Precision, "precision", "", "`PRECISION` of products, as for rlxrun")
	f.IntVar(&j.model.Threads, "threads", 0, "threads of each worker's backend, `N`; 0 means one for each processor")
	f.VisitAll(func(x *flag.Flag) {
		if !beams[x.Name] {
			j.own[x.Name] = true
		}
	})
	return j
}

// build makes the pipeline.
func (j *job) build(p *beam.Pipeline) error {
	switch {
	case j.model.Path == "":
		return errors.New("no model is given; for example rlxbatch sam.rlx --input 'images/**' --output masks")
	case (j.input == "") == (j.text == ""):
		return errors.New("--input and --text: give one of them")
	case j.output == "":
		return errors.New("--output: is missing; it names the folder for the results")
	case strings.Contains(j.output, "://"):
		return diag.New(diag.Usage, "--output", "%s is not a folder of the file system; mount it on the workers",
			j.output)
	}
	if err := j.checkDataflow(); err != nil {
		return err
	}
	j.model.Path, j.output = absolute(j.model.Path), absolute(j.output)
	old := filepath.Join(j.output, failuresName+".jsonl")
	if !j.dryRun() {
		if err := os.Remove(old); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	var failed []beam.PCollection
	s := p.Root()
	if j.input != "" {
		o, err := j.segmentOptions()
		if err != nil {
			return err
		}
		images, unread := j.images(s)
		found, bad := rlxbeam.Segment(s, j.model, o, images)
		rlxbeam.WriteFolders(s, j.output, found)
		failed = append(unread, bad)
	} else {
		failed = j.texts(s)
	}
	all := beam.Flatten(s, failed...)
	rlxbeam.WriteLines(s, strings.TrimSuffix(old, ".jsonl"), ".jsonl", 1, rlxbeam.FailureLines(s, all))
	return nil
}

// dryRun reports whether Beam only prints the job.
func (j *job) dryRun() bool { return j.value("dry_run") == "true" }

// value returns the value of a flag, such as one of Beam.
func (j *job) value(name string) string {
	if f := j.flags.Lookup(name); f != nil {
		return f.Value.String()
	}
	return ""
}

// checkDataflow reports what --runner dataflow lacks. Beam would find it after uploads, or never: with an image that
// mounts nothing, the results would be on disks that end with the job.
func (j *job) checkDataflow() error {
	if r := strings.ToLower(j.value("runner")); r != "dataflow" && r != "dataflowrunner" {
		return nil
	}
	if env := j.value("environment_type"); env != "" && !strings.EqualFold(env, "DOCKER") {
		return diag.New(diag.Usage, "--environment_type", "is %s; leave it out, as Dataflow starts workers in containers",
			env)
	}
	for _, name := range []string{"sdk_container_image", "worker_harness_container_image", "environment_config"} {
		if j.value(name) != "" {
			return nil
		}
	}
	return diag.New(diag.Usage, "--sdk_container_image", "is missing; with --runner dataflow it names an image of "+
		"Beam's Go SDK that also has the backend and the model, and mounts the folder of --output")
}

func (j *job) segmentOptions() (o rlxbeam.SegmentOptions, err error) {
	o = rlxbeam.SegmentOptions{Choice: j.mask, Everything: j.points == "", Objects: j.objects,
		ObjectMasks: j.objectMasks}
	if !j.fresh {
		o.Done = j.output
	}
	if j.points != "" {
		o.Prompts, err = maskfiles.ReadPrompts(j.points)
	}
	return o, err
}

// images returns the images of --input, and those that cannot be read.
func (j *job) images(s beam.Scope) (images beam.PCollection, failed []beam.PCollection) {
	if strings.Contains(j.input, "://") {
		fixed, _ := split(j.input)
		return rlxbeam.ImagesOf(s, fixed, fileio.MatchFiles(s, j.input)), nil
	}
	folder, pattern := split(j.input)
	images, unread := rlxbeam.ReadImages(s, absolute(folder), pattern)
	return images, []beam.PCollection{unread}
}

// split divides a pattern into the folder before its first part with a wildcard, and the rest. A pattern without one is
// a folder, and means all images in it.
func split(input string) (folder, pattern string) {
	parts := strings.Split(filepath.ToSlash(input), "/")
	for i, part := range parts {
		if strings.ContainsAny(part, "*?[") {
			folder = strings.Join(parts[:i], "/")
			if folder == "" && i > 0 {
				folder = "/"
			} else if folder == "" {
				folder = "."
			}
			return folder, strings.Join(parts[i:], "/")
		}
	}
	return input, "*"
}

// texts continues or embeds the texts of --text.
func (j *job) texts(s beam.Scope) (failed []beam.PCollection) {
	lines := beam.Reshuffle(s, textio.Read(s, absolute(j.text)))
	texts, wrong := beam.ParDo2(s, textOf, lines)
	var out, bad beam.PCollection
	if j.embed {
		out, bad = rlxbeam.Embed(s, j.model, rlxbeam.EmbedOptions{Pooling: j.pooling}, texts)
		out = beam.ParDo(s, vectorLine, out)
	} else {
		out, bad = rlxbeam.Generate(s, j.model, j.generate, texts)
		out = beam.ParDo(s, textLine, out)
	}
	rlxbeam.WriteLines(s, filepath.Join(j.output, "results"), ".jsonl", j.shards, out)
	return []beam.PCollection{wrong, bad}
}

// textOf parses a line: a JSON object with id and prompt, or a plain text, which is named by its digest.
func textOf(line string, emit func(rlxbeam.Text), fail func(rlxbeam.Failure)) {
	if strings.TrimSpace(line) == "" {
		return
	}
	sum := sha256.Sum256([]byte(line))
	in := struct {
		ID     any
		Prompt *string
	}{ID: hex.EncodeToString(sum[:8])}
	if !strings.HasPrefix(line, "{") {
		in.Prompt = &line
	} else if err := json.Unmarshal([]byte(line), &in); err != nil || in.Prompt == nil || in.ID == nil {
		fail(rlxbeam.Failure{Name: hex.EncodeToString(sum[:8]), Kind: "input",
			Error: `is not a JSON object with prompt and id, such as {"id": "a", "prompt": "Once upon"}`})
		return
	}
	emit(rlxbeam.Text{Name: fmt.Sprint(in.ID), Text: *in.Prompt})
}

func textLine(c rlxbeam.Continuation) (rlxbeam.Line, error) {
	b, err := json.Marshal(struct {
		ID     string `json:"id"`
		Text   string `json:"text"`
		Stop   string `json:"stop"`
		Prompt int    `json:"prompt_tokens"`
		Tokens int    `json:"tokens"`
	}{c.Name, c.Text, c.Stop, c.Prompt, c.Tokens})
	return rlxbeam.Line{Key: c.Name, Text: string(b)}, err
}

func vectorLine(v rlxbeam.Vector) (rlxbeam.Line, error) {
	b, err := json.Marshal(struct {
		ID     string    `json:"id"`
		Vector []float32 `json:"embedding"`
	}{v.Name, v.Values})
	return rlxbeam.Line{Key: v.Name, Text: string(b)}, err
}

// summary counts what was done. The error is errInputs if inputs failed.
func (j *job) summary(r beam.PipelineResult) (string, error) {
	count := map[string]int64{}
	all := r.Metrics().Query(func(m metrics.SingleResult) bool { return m.Namespace() == "rlx" })
	for _, c := range all.Counters() {
		count[c.Name()] += c.Result()
	}
	path := filepath.Join(j.output, failuresName+".jsonl")
	lines, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	failed := strings.Count(string(lines), "\n")
	note := fmt.Sprintf("%d done, %d done before, %d failed; %d sessions started, %d lost", count["results"],
		count["skipped"], failed, count["sessions"], count["sessions_lost"])
	if failed > 0 {
		return note + "\nfailures: " + path, errInputs
	}
	return note, nil
}

func init() {
	register.Function3x0(textOf)
	register.Function1x2(textLine)
	register.Function1x2(vectorLine)
	register.Emitter1[rlxbeam.Text]()
}
