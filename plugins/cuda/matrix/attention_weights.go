package matrix

// This file makes weights of the scores of a tile of keys.

// weighTile replaces the scores of a tile by weights, and returns the factors for the sums of earlier tiles. masked
// means that a query may not see all keys.
func (g *attending) weighTile(number, col string, masked bool) (scales [2]string) {
	t := g.text
	if g.exact() {
		for i, r := range g.scores {
			check := g.check[i/2%2]
			t.add("fma.rn.f32 %s, %s, 0f00000000, %s", check, r, check)
		}
	}
	switch {
	case !g.Plain.On:
		g.weigh(number, col)
	case masked:
		g.scaleScores()
		g.hide(number, col)
	default:
		g.scaleScores()
	}
	for i := range scales {
		scales[i] = g.weighRow(i)
	}
	return scales
}

// ofRow returns the registers of a row among those of fragments.
func ofRow(all []string, i int) (out []string) {
	for j := 0; j < len(all); j += 4 {
		out = append(out, all[j+2*i], all[j+2*i+1])
	}
	return out
}

// weighRow replaces the scores of a row by weights, and returns the factor for sums of earlier tiles.
func (g *attending) weighRow(i int) (scale string) {
	t := g.text
	scores := ofRow(g.scores, i)
	most := t.get("f", "max.f32", "%s, %s", scores[0], scores[1])
	for _, s := range scores[2:] {
		t.add("max.f32 %s, %s, %s", most, most, s)
	}
	g.acrossQuad(most, "max.f32")
	t.add("max.f32 %s, %s, %s", most, most, g.most[i])
	// a row without keys so far has weights 0
	base := t.get("f", "mov.f32", "%s", most)
	none := t.get("p", "setp.eq.f32", "%s, 0fFF800000", most)
	t.add("@%s mov.f32 %s, 0f00000000", none, base)
	scale = t.get("f", "sub.f32", "%s, %s", g.most[i], base)
	t.add("%s %s, %s", g.exp2(), scale, scale)
	t.add("mov.f32 %s, %s", g.most[i], most)
	total := t.get("f", "mov.f32", "0f00000000") // of the tile, so that few sums are rounded
	for _, s := range scores {
		t.add("sub.f32 %s, %s, %s", s, s, base)
		t.add("%s %s, %s", g.exp2(), s, s)
		t.add("add.f32 %s, %s, %s", total, total, s)
	}
	t.add("fma.rn.f32 %s, %s, %s, %s", g.total[i], g.total[i], scale, total)
	return scale
}

// rescale multiplies the sums of a row.
func (g *attending) rescale(i int, scale string) {
	for _, s := range ofRow(g.sums, i) {
		g.text.add("mul.f32 %s, %s, %s", s, s, scale)
	}
}

// acrossQuad combines a register of the four lanes that share a row.
func (g *attending) acrossQuad(value, instruction string) {
	t := g.text
	for _, distance := range []int{1, 2} {
		other := t.get("f", "shfl.sync.bfly.b32", "%s, %d, 31, 0xffffffff", value, distance)
		t.add("%s %s, %s, %s", instruction, value, value, other)
	}
}
