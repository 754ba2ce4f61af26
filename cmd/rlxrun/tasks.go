package main

import (
	"context"
	"slices"
	"strings"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/coco"
	"github.com/rlx-go/rlx/internal/imaging"
	"github.com/rlx-go/rlx/task"
)

// A taskKind holds the flags, texts and jobs that a kind of task adds to the command run. Each kind registers itself,
// in its own file.
type taskKind struct {
	name     string        // kind of task in artifacts
	takes    string        // what its flags specify, such as "images"
	usage    string        // its main flags, such as "--image with --point or --box"
	example  string        // example of these flags, such as "--image photo.jpg --point 120,80 -o mask.png"
	examples []cli.Example // for --help
	flags    func(*imageFlag) taskFlags
	several  bool // --image may be given several times
}

// taskFlags are the flags of a kind of task on one command line.
type taskFlags interface {
	declare(fs *cli.FlagSet)
	settle() error                                    // refuses values that are wrong for every artifact
	given() []string                                  // flags that were used
	job(ctx context.Context, s *session) (job, error) // the job, if the artifact declares the task
	help(m *rlx.Model) string                         // help text for such an artifact
}

var taskKinds []taskKind

func registerTask(k taskKind) struct{} {
	taskKinds = append(taskKinds, k)
	slices.SortFunc(taskKinds, func(a, b taskKind) int { return strings.Compare(a.name, b.name) })
	return struct{}{}
}

// taskUse is a kind of task on one command line.
type taskUse struct {
	taskKind
	flags taskFlags
}

// taskUses returns a taskUse for each kind.
func taskUses(im *imageFlag) (out []taskUse) {
	for _, k := range taskKinds {
		out = append(out, taskUse{k, k.flags(im)})
	}
	return out
}

// imageFlag is --image, which several kinds of task share, with the flags of those that find masks.
type imageFlag struct {
	values cli.List
	path   string // the first of values, and the only one for most kinds
	masks  maskFlags
}

// maskFlags are the flags that the kinds of task share that find masks in images.
type maskFlags struct {
	image       string // path of --image
	folder      string // value of --images: a folder or a pattern
	box         cli.List
	objectMasks bool
	coco        string
}

func (f *maskFlags) declare(fs *cli.FlagSet) {
	fs.Group("Masks of objects (artifacts that declare the task " + task.KindSegment + " or " + task.KindConcepts + ")")
	fs.ListVarP(&f.box, "box", "",
		"`X0,Y0,X1,Y1[:0|1]` a box around the object. Of task "+task.KindConcepts+": around an example of what to find or, with :0, of what not to find (repeatable); with --mask best, around one object")
	fs.StringVar(
		&f.folder, "images", "",
		"`DIR|GLOB` many images; -o names a folder, which gets a folder per image. Images that are already done are skipped")
	fs.BoolVar(&f.objectMasks, "object-masks", false,
		"where all objects are found: also write the mask of each, called by its label: 1.png, 2.png and so on")
	fs.StringVar(&f.coco, "coco", coco.RLE,
		"`rle|counts|polygons` with -o coco=FILE.json: masks as run lengths in pycocotools' text, as numbers, or as outlines, without holes")
}

// given lists the flags that were used.
func (f *maskFlags) given() (out []string) {
	for name, used := range map[string]bool{"--image": f.image != "", "--images": f.folder != "",
		"--box": len(f.box.Values) > 0, "--object-masks": f.objectMasks, "--coco": f.coco != "" && f.coco != coco.RLE} {
		if used {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func (f *imageFlag) declare(fs *cli.FlagSet) {
	fs.Group("Image input (artifacts whose task takes images)")
	fs.ListVarP(&f.values, "image", "",
		"`FILE` an image of any size: "+imaging.Formats+"; - is stdin (repeatable with language models)")
	f.masks.declare(fs)
}

// settle refuses a form of masks that is not known.
func (f *imageFlag) settle() error {
	if len(f.values.Values) > 0 {
		f.path = f.values.Values[0]
	}
	f.masks.image = f.path
	return checkCOCO(f.masks.coco)
}

// one refuses a second --image.
func (f *imageFlag) one() error {
	if n := len(f.values.Values); n > 1 {
		return cli.Usagef("--image", "is given %d times; allowed is one", n)
	}
	return nil
}

func (f *imageFlag) given() []string {
	if f.path == "" {
		return nil
	}
	return []string{"--image"}
}

// useOf returns the kind of task that the model declares. ok is false if it declares no task. If a model takes both
// texts and clicks, flags for clicks select the task for clicks.
func useOf(uses []taskUse, m *rlx.Model) (u taskUse, ok bool) {
	kind := m.Facts().Task
	if f := segmentUse(uses); kind == task.KindConcepts && task.Clicks(m.Task()) != nil && len(f.clicks()) > 0 {
		kind = task.KindSegment
	}
	i := slices.IndexFunc(uses, func(u taskUse) bool { return u.name == kind })
	if i < 0 {
		return u, false
	}
	return uses[i], true
}

// segmentUse returns the flags of the task "segment".
func segmentUse(uses []taskUse) *segmentFlags {
	i := slices.IndexFunc(uses, func(u taskUse) bool { return u.name == task.KindSegment })
	return uses[i].flags.(*segmentFlags)
}

// taskExamples returns the examples of all kinds. Kinds are registered by file name. In reverse order, the kinds that
// most people use come first; "rlxrun --help" shows the first example.
func taskExamples() (out []cli.Example) {
	for _, k := range slices.Backward(taskKinds) {
		out = append(out, k.examples...)
	}
	return out
}

func taskNames() string {
	var n []string
	for _, k := range taskKinds {
		n = append(n, k.name)
	}
	return strings.Join(n, ", ")
}
