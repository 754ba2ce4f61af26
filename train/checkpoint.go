package train

import "encoding/json"

// identity identifies the training to which a checkpoint belongs, besides its artifact.
type identity struct {
	Settings
	Text    string `json:"text"` // digest of the ids
	Scratch bool   `json:"scratch"`
}

// owner returns the identity as text.
func (t *Trainer) owner() string {
	x := identity{Settings: t.options.Settings, Scratch: t.options.Scratch}
	if t.data != nil {
		x.Text = t.data.digest()
	}
	return encoded(x)
}

// encoded returns an identity as text.
func encoded(x any) string {
	b, err := json.Marshal(x)
	if err != nil {
		panic("BUG: train: settings: " + err.Error())
	}
	return string(b)
}
