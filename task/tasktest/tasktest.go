// Package tasktest tests the fields of a kind of task. The test of every kind calls it.
package tasktest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/rlx-go/rlx/task"
)

// Fields checks the fields of a registered kind: their keys are sorted, include every exported field of the
// description, and equal the keys in JSON.
func Fields(t *testing.T, kind string) {
	t.Helper()
	full, back := Full(t, kind), empty(t, kind)
	if got := full.Kind(); got != kind {
		t.Errorf("it calls itself %q, and is registered as %q", got, kind)
	}
	keys(t, full.Fields(), encoded(t, full), "")
	move(back.Fields(), full.Fields())
	if !reflect.DeepEqual(back, full) {
		t.Errorf("%s was read back as %s", encoded(t, full), encoded(t, back))
	}
}

// Full returns a description of a kind in which every value is different.
func Full(t *testing.T, kind string) task.Task {
	t.Helper()
	x, n := empty(t, kind), 0
	fill(reflect.ValueOf(x).Elem(), &n)
	return x
}

func empty(t *testing.T, kind string) task.Task {
	t.Helper()
	x, err := task.New(kind)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func encoded(t *testing.T, v any) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// fill sets all fields of v to different values. n counts them.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), n)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.String:
		v.SetString(fmt.Sprint("s", *n))
	case reflect.Float64:
		v.SetFloat(float64(*n) + 0.5)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8:
		v.SetUint(uint64(*n % 256))
	default:
		v.SetInt(int64(*n))
	}
}

// keys compares the keys of fields with those of a JSON object.
func keys(t *testing.T, fields []task.Field, object json.RawMessage, under string) {
	t.Helper()
	var values map[string]json.RawMessage
	if err := json.Unmarshal(object, &values); err != nil {
		t.Fatalf("%s: %v", under, err)
	}
	if len(values) != len(fields) {
		t.Errorf("%q has %d fields; JSON has %d", under, len(fields), len(values))
	}
	last := ""
	for _, f := range fields {
		if f.Key <= last {
			t.Errorf("key %s%s comes after %s", under, f.Key, last)
		}
		last = f.Key
		value, ok := values[f.Key]
		if !ok {
			t.Errorf("JSON has no key %s%s", under, f.Key)
		} else if sub, ok := f.Value.([]task.Field); ok {
			keys(t, sub, value, under+f.Key+".")
		}
	}
}

// move copies the values of the fields of one description to those of another.
func move(to, from []task.Field) {
	for i, f := range from {
		switch v := f.Value.(type) {
		case []task.Field:
			move(to[i].Value.([]task.Field), v)
		case []float64:
			copy(to[i].Value.([]float64), v)
		default:
			reflect.ValueOf(to[i].Value).Elem().Set(reflect.ValueOf(v).Elem())
		}
	}
}
