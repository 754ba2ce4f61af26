package device

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// DeviceTypes returns the values of Device.Type: a general-purpose processor, a graphics processor, another
// accelerator, and a device emulated in software, such as Mesa's lavapipe.
func DeviceTypes() []string { return []string{"cpu", "gpu", "npu", "software"} }

// Longest ID and name of a device, in bytes.
const (
	maxDeviceID   = 64
	maxDeviceName = 512
)

// Check returns an error unless a backend may send the description. A description without devices is valid; callers
// that need a device must check for one.
func (i Info) Check() error {
	switch {
	case i.Target == nil:
		return fmt.Errorf("has no target description")
	case i.Target.Name != i.Name:
		return fmt.Errorf("has the description of target %.80q; want %.80q, its own name", i.Target.Name, i.Name)
	case i.Target.Version != i.Version:
		return fmt.Errorf("has version %.80q, and %.80q in its target description; want the same", i.Version,
			i.Target.Version)
	case i.MaxAlloc < 0:
		return fmt.Errorf("has a largest arena of %d bytes; want 0, for no limit, or more", i.MaxAlloc)
	}
	if err := i.Target.Check(); err != nil {
		return fmt.Errorf("target description: %w", err)
	}
	if err := i.RowBounds.check(); err != nil {
		return err
	}
	for k, l := range i.Levels {
		if !slices.Contains(i.Target.Levels, l) || slices.Contains(i.Levels[:k], l) {
			return fmt.Errorf(
				"level %.80q is not in its target description, or appears twice; want some of %q, best first", l,
				i.Target.Levels)
		}
	}
	for k, p := range i.Precisions {
		if !slices.Contains(Precisions(), p) || slices.Contains(i.Precisions[:k], p) {
			return fmt.Errorf("precision %.80q is unknown, or appears twice; want some of %q", p, Precisions())
		}
	}
	if len(i.Precisions) > 0 && !slices.Contains(i.Precisions, DefaultPrecision) {
		return fmt.Errorf("precisions are %q; %s must be among them", i.Precisions, DefaultPrecision)
	}
	for k, d := range i.Devices {
		if slices.ContainsFunc(i.Devices[:k], func(o Device) bool { return o.ID == d.ID }) {
			return fmt.Errorf("two devices have the ID %.80q", d.ID)
		}
		if err := d.check(); err != nil {
			return fmt.Errorf("device %d: %w", k, err)
		}
	}
	return nil
}

func (d Device) check() error {
	word := func(r rune) bool { return r <= ' ' || r > '~' || r == ',' }
	switch {
	case d.ID == "" || len(d.ID) > maxDeviceID || strings.ContainsFunc(d.ID, word):
		return fmt.Errorf("ID %.80q; want 1 to %d ASCII characters without blanks and commas", d.ID, maxDeviceID)
	case strings.TrimSpace(d.Name) == "" || len(d.Name) > maxDeviceName ||
		strings.ContainsFunc(d.Name, unicode.IsControl):
		return fmt.Errorf("name %.80q; want printable text of up to %d bytes", d.Name, maxDeviceName)
	case !slices.Contains(DeviceTypes(), d.Type):
		return fmt.Errorf("type %.80q; want one of %q", d.Type, DeviceTypes())
	case d.Memory < 0:
		return fmt.Errorf("memory of %d bytes; want 0, where it has none of its own or it is not known, or more",
			d.Memory)
	}
	return nil
}
