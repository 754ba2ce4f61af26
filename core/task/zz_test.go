package task_test
import ("testing";"math";"github.com/rlx-go/rlx/core/task";"github.com/rlx-go/rlx/internal/tensortest")
func TestZZ(t *testing.T){
 want := tensortest.Golden(t, demo+"golden.safetensors:coins.pixel_values")
 s := task.NewSegment(256, 64)
 got, g := s.Preprocess(load(t, demo+"coins.png"))
 nonint, off, offI := 0,0,0
 hist:=map[int]int{}
 for c:=range 3 { for y:=range g.ScaledH { for x:=range g.ScaledW { i:=(c*256+y)*256+x
  w:=want.F[i]*s.Std[c]+s.Mean[c]; v:=float64(got[i])*s.Std[c]+s.Mean[c]
  if math.Abs(w-math.Round(w))>1e-3 {nonint++}
  if math.Abs(w-v)>0.5 {off++}
  if math.Round(v)!=math.Round(w) {offI++}
  hist[int(math.Floor((w-v)*10))]++
 }}}
 t.Log(nonint, off, offI, hist)
}
