package wire

import "log/slog"

// LogKeys renames a record's fields to the keys that hosts read.
func LogKeys(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.MessageKey:
		a.Key = "@message"
	case slog.LevelKey:
		a.Key = "@level"
	case slog.TimeKey:
		a.Key = "@timestamp"
	}
	return a
}
