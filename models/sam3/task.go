package sam3

import (
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/task"
)

// describe describes the detector as a task, with the tokenizer beside the checkpoint.
func describe(c config, cfg arch.Config, m *arch.Model) error {
	d := c.detector
	t := task.NewConcepts(int(c.grid*c.patch), int(d.queries), int(d.text.positions), int(d.text.vocabulary), maxBoxes)
	data, err := cfg.Tokenizer(d.text.vocabulary)
	if err != nil {
		return err
	}
	words := "none: there is no " + arch.TokenizerFile + " beside the checkpoint, and the artifact takes no text"
	if len(data) > 0 {
		t.Tokenizer = arch.TokenizerFile
		m.Attachments = append(m.Attachments, arch.Attachment{Name: arch.TokenizerFile, Data: data})
		words = arch.TokenizerFile
	}
	m.Facts = append(m.Facts, arch.Fact{Name: "tokenizer", Value: words})
	if c.tracker != nil {
		t.Clicks = *clicks(c)
	}
	m.Task = t
	return t.Validate()
}

// clicks returns how points and boxes select an object. The image is the detector's.
func clicks(c config) *task.Segment {
	s, image := c.tracker.Task(), task.NewConcepts(0, 0, 0, 0, 0)
	s.Mean, s.Std = image.Mean, image.Std
	return s
}
