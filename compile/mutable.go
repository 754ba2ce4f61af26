package compile

import (
	"path"
	"slices"
)

// mutable reports whether a weight belongs to an adapter of Options.LoRA, or matches a pattern of
// Options.MutableWeights.
func (m *Model) mutable(name string) bool {
	if _, ok := m.adapters[name]; ok {
		return true
	}
	return slices.ContainsFunc(m.options.MutableWeights, func(glob string) bool {
		ok, _ := path.Match(glob, name)
		return ok
	})
}

// checkMutable refuses patterns of Options.MutableWeights that match no weight.
func (m *Model) checkMutable() error {
	if len(m.options.MutableWeights) == 0 {
		return nil
	}
	var names []string
	for _, method := range m.built.Methods {
		for _, g := range append(method.Bodies(), method) {
			for _, n := range g.Params() {
				names = append(names, n.Name)
			}
		}
	}
	for _, glob := range m.options.MutableWeights {
		found := false
		for _, name := range names {
			ok, err := path.Match(glob, name)
			if err != nil {
				return usage("--mutable-weights "+glob, "is not a pattern such as 'blocks.*.weight'")
			}
			found = found || ok
		}
		if !found {
			return usage("--mutable-weights "+glob, "matches no weight; names are those of rlxc inspect FILE weights")
		}
	}
	return nil
}
