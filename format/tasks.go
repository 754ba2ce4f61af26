package format

import (
	"bytes"
	"cmp"
	"math"
	"reflect"
	"slices"

	"github.com/rlx-go/rlx/task"
)

// A task is {"kind": NAME, NAME: {...}}: the field with its description is named after the kind. Keys ascend, so the
// description comes first if NAME < "kind". An artifact has at most one task.
const kindKey = "kind"

func encodeTasks(e *encoder, t task.Task) {
	if t == nil {
		e.list(0)
		return
	}
	e.list(1)
	e.object(2)
	name := t.Kind()
	if name > kindKey {
		e.keyStr(kindKey, name)
	}
	e.key(name)
	encodeFields(e, t.Fields())
	if name < kindKey {
		e.keyStr(kindKey, name)
	}
}

func decodeTasks(d *decoder) task.Task {
	if d.list(1, "tasks") == 0 {
		return nil
	}
	d.object(2, "task")
	name := d.str(MaxName, "a field's name")
	before := name != kindKey
	if !before {
		name = d.str(MaxName, kindKey)
	}
	if d.err != nil {
		return nil
	}
	t, err := task.New(name)
	if err != nil {
		d.fail("%w", err)
		return nil
	}
	if !before {
		d.key(name)
	}
	decodeFields(d, t.Fields())
	if before {
		if again := d.keyStr(kindKey, MaxName); d.err == nil && again != name {
			d.fail("kind %.40q of a task %q", again, name)
		}
	}
	return t
}

func encodeFields(e *encoder, fields []task.Field) {
	fields = slices.DeleteFunc(slices.Clone(fields), leftOut)
	e.object(len(fields))
	for _, f := range fields {
		e.key(f.Key)
		switch v := f.Value.(type) {
		case *bool:
			e.boolean(*v)
		case *int:
			e.integer(int64(*v))
		case *int32:
			e.integer(int64(*v))
		case *float64:
			e.float(*v)
		case *string:
			e.str(*v)
		case *[]byte:
			e.bytes(*v)
		case *[]int:
			encodeList(e, *v, func(n int) { e.integer(int64(n)) })
		case *[]string:
			encodeList(e, *v, e.str)
		case []float64:
			encodeList(e, v, e.float)
		case []task.Field:
			encodeFields(e, v)
		default:
			panic("BUG: field " + f.Key + " has a type that tasks do not have")
		}
	}
}

// leftOut reports whether a field is omitted: it was added to the format later and is empty. Older artifacts then keep
// their encoding.
func leftOut(f task.Field) bool { return f.Added && isZero(f) }

func isZero(f task.Field) bool {
	switch v := f.Value.(type) {
	case []task.Field:
		return !slices.ContainsFunc(v, func(f task.Field) bool { return !isZero(f) })
	case []float64:
		return !slices.ContainsFunc(v, func(x float64) bool { return x != 0 })
	}
	return reflect.ValueOf(f.Value).Elem().IsZero()
}

func decodeFields(d *decoder, fields []task.Field) {
	least := len(fields)
	for _, f := range fields {
		if f.Added {
			least--
		}
	}
	there := d.objectOf(least, len(fields), "task")
	missing := len(fields) - there
	key, read := "", false // the name of the next field, once read
	for _, f := range fields {
		if d.err != nil {
			return
		}
		if !read && there > 0 {
			key, read = d.str(MaxName, "a field's name"), true
			there--
		}
		if f.Added && missing > 0 && (!read || key != f.Key) {
			missing--
			continue
		}
		if d.err == nil && key != f.Key {
			d.fail("field %.40q; want %q", key, f.Key)
		}
		read = false
		decodeField(d, f)
		if d.err == nil && leftOut(f) {
			d.fail("field %q is present but has no value; leave it out", f.Key)
		}
	}
}

// decodeField reads the value of a field.
func decodeField(d *decoder, f task.Field) {
	limit := cmp.Or(f.Max, MaxName)
	integer := func() int { return int(d.integer(math.MinInt32, math.MaxInt32, f.Key)) }
	switch v := f.Value.(type) {
	case *bool:
		*v = d.boolean(f.Key)
	case *int:
		*v = integer()
	case *int32:
		*v = int32(integer())
	case *float64:
		*v = d.float(f.Key)
	case *string:
		*v = d.str(limit, f.Key)
	case *[]byte:
		*v = bytes.Clone(d.bytes(limit, f.Key))
	case *[]int:
		*v = decodeList(d, limit, 1, f.Key, integer)
	case *[]string:
		*v = decodeList(d, limit, 1, f.Key, func() string { return d.str(MaxName, f.Key) })
	case []float64:
		d.tuple(len(v), f.Key)
		for i := range v {
			v[i] = d.float(f.Key)
		}
	case []task.Field:
		decodeFields(d, v)
	default:
		panic("BUG: field " + f.Key + " has a type that tasks do not have")
	}
}

func encodeList[T any](e *encoder, list []T, item func(T)) {
	e.list(len(list))
	for _, x := range list {
		item(x)
	}
}

// checkTask is the part of check 27 that compares the task with the methods and attachments that it names.
func checkTask(m *Meta, dir *Directory) error {
	if m.Task == nil {
		return nil
	}
	if err := m.Task.Validate(); err != nil {
		return err
	}
	methods := make(task.Methods, len(m.Methods))
	for i, x := range m.Methods {
		methods[i] = task.Method(x)
	}
	if err := m.Task.Check(methods); err != nil {
		return fail(27, KindMeta.String(), -1, "%w", err)
	}
	if a, ok := m.Task.(task.Attached); ok {
		for _, name := range a.Attachments() {
			if t, ok := dir.Find(name); !ok || !t.Attachment() {
				return fail(27, KindMeta.String(), -1,
					"the task uses attachment %.80q; the artifact has no weight u8[n] of that name", name)
			}
		}
	}
	return nil
}
