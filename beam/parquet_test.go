package rlxbeam_test

import (
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/parquetio"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	rlxbeam "github.com/rlx-go/rlx/beam"
	"github.com/rlx-go/rlx/internal/rlxtest"
)

// A textRow is a row of a Parquet file with texts.
type textRow struct {
	Name string `parquet:"name=name, type=BYTE_ARRAY, convertedtype=UTF8"`
	Text string `parquet:"name=text, type=BYTE_ARRAY"`
}

// A vectorRow is a row of a Parquet file with vectors.
type vectorRow struct {
	Name   string    `parquet:"name=name, type=BYTE_ARRAY, convertedtype=UTF8"`
	Values []float32 `parquet:"name=values, type=LIST, valuetype=FLOAT"`
}

func rowOf(t rlxbeam.Text) textRow          { return textRow{t.Name, t.Text} }
func textOf(r textRow) rlxbeam.Text         { return rlxbeam.Text{Name: r.Name, Text: r.Text} }
func vectorOf(v rlxbeam.Vector) vectorRow   { return vectorRow{v.Name, v.Values} }
func failureOf(f rlxbeam.Failure) vectorRow { return vectorRow{Name: f.Name} }

func init() {
	register.Function1x1(rowOf)
	register.Function1x1(textOf)
	register.Function1x1(vectorOf)
	register.Function1x1(failureOf)
	beam.RegisterType(reflect.TypeFor[textRow]())
	beam.RegisterType(reflect.TypeFor[vectorRow]())
}

// TestParquet reads texts from Parquet files by a pattern, and writes vectors and failures to others: the vectors are
// those of the texts themselves.
func TestParquet(t *testing.T) {
	dir := t.TempDir()
	half := len(texts) / 2
	run(t, func(s beam.Scope) {
		for name, part := range map[string][]rlxbeam.Text{"1.parquet": texts[:half], "2.parquet": texts[half:]} {
			parquetio.Write(s, filepath.Join(dir, name), beam.ParDo(s, rowOf, beam.CreateList(s, part)))
		}
	})
	model := rlxbeam.Model{Path: rlxtest.Llama()}
	run(t, func(s beam.Scope) {
		rows := parquetio.Read(s, filepath.Join(dir, "*.parquet"), reflect.TypeFor[textRow]())
		out, failed := rlxbeam.Embed(s, model, rlxbeam.EmbedOptions{}, beam.ParDo(s, textOf, rows))
		parquetio.Write(s, filepath.Join(dir, "vectors"), beam.ParDo(s, vectorOf, out))
		parquetio.Write(s, filepath.Join(dir, "failures"), beam.ParDo(s, failureOf, failed))
		want, _ := rlxbeam.Embed(s, model, rlxbeam.EmbedOptions{}, beam.CreateList(s, texts))
		keep(t, s, "want", want)
	})
	run(t, func(s beam.Scope) {
		for _, name := range []string{"vectors", "failures"} {
			keep(t, s, name, parquetio.Read(s, filepath.Join(dir, name), reflect.TypeFor[vectorRow]()))
		}
	})
	byName := func(v vectorRow) string { return v.Name }
	got, failed := elementsOf(t, "vectors", byName), elementsOf(t, "failures", byName)
	want := elementsOf(t, "want", func(v rlxbeam.Vector) string { return v.Name })
	if len(got) != 4 || len(failed) != 1 || failed[0].Name != "e" {
		t.Fatalf("%d vectors and failures %v; want 4, and that of e", len(got), failed)
	}
	for i, v := range got {
		if v.Name != want[i].Name || !slices.Equal(v.Values, want[i].Values) {
			t.Errorf("the vector of %q differs", v.Name)
		}
	}
}
