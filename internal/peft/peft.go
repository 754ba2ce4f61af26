// Package peft knows the files in which PEFT, the library of Python, keeps a LoRA adapter: their names, the names of
// their tensors, and adapter_config.json.
//
// It imports core/code, core/diag and internal/regular.
package peft

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/regular"
)

// Prefix begins the names of tensors; the names that they have in the base model follow.
const Prefix = "base_model.model."

// Files returns the paths of the matrices and of the configuration of the adapter at path: a folder, or a .safetensors
// file, which has the configuration beside it.
func Files(path string) (matrices, config string) {
	dir, matrices := path, filepath.Join(path, "adapter_model.safetensors")
	if strings.HasSuffix(path, ".safetensors") {
		dir, matrices = filepath.Dir(path), path
	}
	return matrices, filepath.Join(dir, "adapter_config.json")
}

// Config has the fields of adapter_config.json that matter.
type Config struct {
	Type         string          `json:"peft_type"`
	R            int             `json:"r"`
	Alpha        *float64        `json:"lora_alpha"`
	RSLoRA       bool            `json:"use_rslora"`
	DoRA         bool            `json:"use_dora"`
	Bias         string          `json:"bias"`
	LoraBias     bool            `json:"lora_bias"`
	FanInFanOut  bool            `json:"fan_in_fan_out"`
	Replication  json.RawMessage `json:"layer_replication"`
	AlphaPattern Patterns        `json:"alpha_pattern"`
}

// Patterns are the entries of alpha_pattern in the order of the file: the first that matches a layer counts.
type Patterns []struct {
	Pattern string
	Alpha   float64
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Patterns) UnmarshalJSON(b []byte) error {
	var values map[string]float64
	if err := json.Unmarshal(b, &values); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	for {
		t, err := d.Token()
		if err != nil {
			return nil // the end
		}
		if key, ok := t.(string); ok {
			*p = append(*p, struct {
				Pattern string
				Alpha   float64
			}{key, values[key]})
		}
	}
}

const maxConfig = 1 << 20 // bytes

// ReadConfig reads an adapter_config.json. Errors have code.Adapter.
func ReadConfig(path string) (c Config, err error) {
	b, err := regular.ReadFile(path, maxConfig)
	if err != nil {
		return c, diag.New(code.Adapter, path, "cannot be read: %w", err)
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return c, diag.New(code.Adapter, path, "is not the configuration of an adapter: %w", err)
	}
	return c, nil
}

// NewConfig returns the text of an adapter_config.json for adapters of one rank and alpha, of the linear layers whose
// names end in one of targets.
func NewConfig(rank int, alpha float64, targets []string) ([]byte, error) {
	text, err := json.MarshalIndent(struct {
		Type      string   `json:"peft_type"`
		Task      string   `json:"task_type"`
		Rank      int      `json:"r"`
		Alpha     float64  `json:"lora_alpha"`
		Targets   []string `json:"target_modules"`
		Bias      string   `json:"bias"`
		Dropout   float64  `json:"lora_dropout"`
		Inference bool     `json:"inference_mode"`
		Base      *string  `json:"base_model_name_or_path"`
		RSLoRA    bool     `json:"use_rslora"`
		DoRA      bool     `json:"use_dora"`
	}{Type: "LORA", Task: "CAUSAL_LM", Rank: rank, Alpha: alpha, Targets: targets, Bias: "none", Inference: true}, "",
		"  ")
	return append(text, '\n'), err
}
