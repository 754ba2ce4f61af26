package train

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/atomicfile"
)

// Keys in the metadata of a checkpoint: the settings with the digest of the text, and the losses so far, as f32 in
// base64.
const (
	settingsKey = "rlx.train.settings"
	lossesKey   = "rlx.train.losses"
)

// identity is what a checkpoint belongs to, besides its artifact.
type identity struct {
	Settings
	Text    string `json:"text"` // digest of the ids
	Scratch bool   `json:"scratch"`
}

func (t *Trainer) identity() string {
	x := identity{Settings: t.options.Settings, Scratch: t.options.Scratch}
	if t.data != nil {
		x.Text = t.data.digest()
	}
	b, err := json.Marshal(x)
	if err != nil {
		panic("BUG: train: settings: " + err.Error())
	}
	return string(b)
}

// Save writes a checkpoint to path: the trained values, the moments, and the losses so far. The file is either the old
// one or the whole new one, also after a crash. Errors are those of rlx.State.Export and of the file system.
func (t *Trainer) Save(ctx context.Context, path string) error {
	t.state.Meta = map[string]string{
		settingsKey: t.identity(), lossesKey: base64.StdEncoding.EncodeToString(tensor.Bytes(t.losses))}
	return atomicfile.WriteFile(ctx, path, func(w io.Writer) error { return t.state.Export(ctx, w) })
}

// Resume goes on from a checkpoint that Save wrote for the same artifact, settings and text. The steps that follow give
// the same bits as without the interruption, on the same kind of device. Errors match ErrResume, or are those of
// rlx.Session.ImportState; the trainer is then unchanged.
func (t *Trainer) Resume(ctx context.Context, path string) error {
	st, err := t.session.ImportState(ctx, path)
	if err != nil {
		return err
	}
	losses, err := base64.StdEncoding.DecodeString(st.Meta[lossesKey])
	switch mine, saved := t.identity(), st.Meta[settingsKey]; {
	case saved == "" || err != nil || len(losses)%4 != 0:
		err = diag.New(code.TrainResume, path, "is not a checkpoint of a training")
	case saved != mine:
		err = diag.New(code.TrainResume, path, "was made with %s; this training has %s", saved, mine)
	}
	if err != nil {
		st.Close()
		return err
	}
	t.state.Close()
	t.state = st
	aligned := tensor.AlignedBytes(len(losses))
	copy(aligned, losses)
	t.losses = tensor.View[float32](aligned)
	return nil
}
