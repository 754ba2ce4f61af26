package format

import (
	"math"

	"github.com/rlx-go/rlx/core/task"
)

// A task is {"kind": NAME, "segment": {...}}: the second field is named after the kind. This version knows one kind, and
// at most one task for an artifact.

// taskField is one field of a task: its key and where its value is, a *int, *int32, *string, *float64 or *[3]float64.
type taskField struct {
	key   string
	value any
}

// segmentFields are in the order of their keys; labels stand in for the five of task.Labels.
func segmentFields(s *task.Segment) []taskField {
	return []taskField{
		{"best_first", &s.BestFirst}, {"best_last", &s.BestLast}, {"embedding", &s.Embedding},
		{"embedding_input", &s.EmbeddingInput}, {"image_input", &s.ImageInput}, {"image_method", &s.ImageMethod},
		{"iou_output", &s.IoUOutput}, {"labels", []taskField{
			{"background", &s.Labels.Background}, {"box_end", &s.Labels.BoxEnd}, {"box_start", &s.Labels.BoxStart},
			{"foreground", &s.Labels.Foreground}, {"pad", &s.Labels.Pad},
		}},
		{"labels_input", &s.LabelsInput}, {"masks_output", &s.MasksOutput}, {"max_points", &s.MaxPoints},
		{"mean", &s.Mean}, {"pad", &s.Pad}, {"points_input", &s.PointsInput}, {"prompt_method", &s.PromptMethod},
		{"resize", &s.Resize}, {"size", &s.Size}, {"std", &s.Std}, {"threshold", &s.Threshold}, {"tokens", &s.Tokens},
	}
}

func encodeTasks(e *encoder, s *task.Segment) {
	if s == nil {
		e.list(0)
		return
	}
	e.list(1)
	e.object(2)
	e.keyStr("kind", task.SegmentName)
	e.key(task.SegmentName)
	encodeFields(e, segmentFields(s))
}

func decodeTasks(d *decoder) *task.Segment {
	if d.list(1, "tasks") == 0 {
		return nil
	}
	s := &task.Segment{}
	d.object(2, "task")
	if kind := d.keyStr("kind", MaxName); d.err == nil && kind != task.SegmentName {
		d.fail("task %.40q; this version knows %q", kind, task.SegmentName)
	}
	d.key(task.SegmentName)
	decodeFields(d, segmentFields(s))
	return s
}

func encodeFields(e *encoder, fields []taskField) {
	e.object(len(fields))
	for _, f := range fields {
		e.key(f.key)
		switch v := f.value.(type) {
		case *int:
			e.integer(int64(*v))
		case *int32:
			e.integer(int64(*v))
		case *string:
			e.str(*v)
		case *float64:
			e.float(*v)
		case *[3]float64:
			e.list(3)
			for _, x := range v {
				e.float(x)
			}
		case []taskField:
			encodeFields(e, v)
		default:
			panic("BUG: field " + f.key + " has a type that tasks do not have")
		}
	}
}

func decodeFields(d *decoder, fields []taskField) {
	d.object(len(fields), "task")
	for _, f := range fields {
		d.key(f.key)
		switch v := f.value.(type) {
		case *int:
			*v = int(d.integer(math.MinInt32, math.MaxInt32, f.key))
		case *int32:
			*v = int32(d.integer(math.MinInt32, math.MaxInt32, f.key))
		case *string:
			*v = d.str(MaxName, f.key)
		case *float64:
			*v = d.float(f.key)
		case *[3]float64:
			d.tuple(3, f.key)
			for i := range v {
				v[i] = d.float(f.key)
			}
		case []taskField:
			decodeFields(d, v)
		default:
			panic("BUG: field " + f.key + " has a type that tasks do not have")
		}
	}
}
