package matrix

// patchText describes an operand of a product whose rows are patches of an image: row by row, pixels that consist of
// whole parts of K. The parts of a tap are adjacent.
type patchText struct {
	Operand int    // 1 for the left operand, 2 for the right one; 0 if there is none
	Taps    [3]int // sizes of the filters
	Parts   int    // of a tap
}

// patchFields are the words of its parameters, in units of 16 bytes except for the sizes: the width and the height of
// the result; the way from the patch of one pixel of the result to that of the next one to the right, below and behind;
// the way from the end of a tap to the tap that follows in the row, in the next row and in the next plane; and the way
// through all taps.
var patchFields = []string{"w_out", "h_out", "step_x", "step_y", "step_z", "jump_x", "jump_y", "jump_z", "way"}

// walk is the state of loading patches.
type walk struct {
	left string    // parts of the tap that are not loaded yet
	at   [2]string // taps of the row and rows of the plane that are not loaded yet
	by   [3]string // how many bytes to jump at the end of a tap, of a row and of a plane
}

// place returns where the patch of a pixel of the result begins, in units of 16 bytes.
func (g *generated) place(pixel string) string {
	t := g.text
	x := t.get("r", "rem.u32", "%s, %s", pixel, g.p["w_out"])
	rest := t.get("r", "div.u32", "%s, %s", pixel, g.p["w_out"])
	y := t.get("r", "rem.u32", "%s, %s", rest, g.p["h_out"])
	t.add("div.u32 %s, %s, %s", rest, rest, g.p["h_out"])
	at := t.get("r", "mul.lo.u32", "%s, %s", x, g.p["step_x"])
	t.add("mad.lo.u32 %s, %s, %s, %s", at, y, g.p["step_y"], at)
	return t.get("r", "mad.lo.u32", "%s, %s, %s", rest, g.p["step_z"], at)
}

// beginWalk prepares the loads of patches.
func (g *generated) beginWalk() {
	if g.Patch.Operand == 0 {
		return
	}
	t := g.text
	g.walk = &walk{left: t.get("r", "mov.u32", "%d", g.Patch.Parts)}
	for i := range g.walk.at {
		g.walk.at[i] = t.get("r", "mov.u32", "%d", g.Patch.Taps[2-i])
	}
	for i := range g.walk.by {
		g.walk.by[i] = t.get("d", "mul.wide.u32", "%s, 16", g.p["jump_"+"xyz"[i:i+1]])
	}
}

// step jumps to the next tap if all parts of one are loaded.
func (g *generated) step() {
	if g.walk == nil {
		return
	}
	t, w := g.text, g.walk
	t.add("sub.u32 %s, %s, 1", w.left, w.left)
	in := t.get("p", "setp.ne.u32", "%s, 0", w.left)
	skip := t.label()
	t.add("@%s bra.uni %s", in, skip)
	t.add("mov.u32 %s, %d", w.left, g.Patch.Parts)
	jump := t.get("d", "add.u64", "%s, 0", w.by[0])
	t.add("sub.u32 %s, %s, 1", w.at[0], w.at[0])
	row := t.get("p", "setp.eq.u32", "%s, 0", w.at[0])
	t.add("@%s mov.u32 %s, %d", row, w.at[0], g.Patch.Taps[2])
	t.add("@%s add.u64 %s, %s, 0", row, jump, w.by[1])
	t.add("@%s sub.u32 %s, %s, 1", row, w.at[1], w.at[1])
	plane := t.get("p", "setp.eq.u32", "%s, 0", w.at[1])
	t.add("@%s mov.u32 %s, %d", plane, w.at[1], g.Patch.Taps[1])
	t.add("@%s add.u64 %s, %s, 0", plane, jump, w.by[2])
	for _, from := range g.from[g.Patch.Operand-1] {
		t.add("add.u64 %s, %s, %s", from, from, jump)
	}
	t.place(skip)
}
