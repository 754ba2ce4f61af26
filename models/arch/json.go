package arch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
)

// JSONError returns an error of encoding/json in terms of JSON: "top_k is a string; want a whole number". The package's
// own text for a value of the wrong type names types of Go.
func JSONError(err error) error {
	wrong := (*json.UnmarshalTypeError)(nil)
	switch {
	case err == io.EOF:
		return errors.New("it is empty")
	case !errors.As(err, &wrong):
		return err
	}
	found := map[string]string{"array": "an array", "object": "an object", "string": "a string",
		"bool": "true or false"}[wrong.Value]
	if found == "" {
		found = "the " + wrong.Value // "number 1.5", or "number" if its digits do not matter
		if wrong.Value == "number" {
			found = "a number"
		}
	}
	what := "the value"
	if wrong.Field != "" {
		what = wrong.Field
	}
	return fmt.Errorf("%s is %s; want %s", what, found, jsonName(wrong.Type))
}

// jsonName names the JSON values that become a type of Go.
func jsonName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return jsonName(t.Elem())
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	return "a whole number"
}
