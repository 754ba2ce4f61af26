package installed

import (
	"crypto/sha256"
	"debug/elf"
	"debug/macho"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx/internal/lazyregexp"
	"github.com/rlx-go/rlx/internal/regular"
	"github.com/rlx-go/rlx/internal/strictjson"
)

// A Manifest describes an installed plugin.
type Manifest struct {
	Name     string `json:"name"`
	Version  string `json:"version"`
	Protocol []int  `json:"protocol"` // versions of the backend protocol that it supports
	Platform string `json:"platform"` // GOOS/GOARCH; GOOS alone if a file is for several; or "any"

	Executable string `json:"executable"` // name of a file at the top of the folder
	SHA256     digest `json:"sha256"`     // of the executable
	Declares   string `json:"declares"`   // its sandbox declaration
	// HidesBuiltIn: the user wants it to replace a built-in backend of the same name.
	HidesBuiltIn bool   `json:"hides_built_in"`
	Files        []File `json:"files"` // all other files, by ascending path
}

// A File is a file of a plugin.
type File struct {
	Path   string `json:"path"` // relative to the plugin's folder, with slashes
	SHA256 digest `json:"sha256"`
	size   int64
}

// digest is a SHA-256; hexadecimal in JSON.
type digest [sha256.Size]byte

func (d digest) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(d[:])), nil }

const (
	anyPlatform  = "any" // for scripts
	schema       = 1     // version of manifests
	maxManifest  = 8 << 20
	maxDeclared  = 4 << 10 // as in plugins/rpc
	maxProtocols = 16
)

var names = lazyregexp.New(`^[a-z][a-z0-9_-]{0,63}$`)

func validName(name string) bool { return names.MatchString(name) }

var platforms = lazyregexp.New(`^[a-z0-9]{1,16}(/[a-z0-9]{1,16})?$`)

// write writes the manifest to a new file.
func (m Manifest) write(file string) error {
	b, err := json.MarshalIndent(struct {
		Schema int `json:"schema"`
		Manifest
	}{schema, m}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o444)
}

// readManifest reads a manifest that write has written. The texts of errors follow the name of the file.
func readManifest(file string) (Manifest, error) {
	b, err := regular.ReadFile(file, maxManifest)
	if err != nil {
		return Manifest{}, err
	}
	return parseManifest(b)
}

func parseManifest(b []byte) (Manifest, error) {
	var m Manifest
	r, err := strictjson.New(b)
	if err != nil {
		return m, err
	}
	version := 0
	err = r.Object("manifest", func(key string) (err error) {
		switch key {
		case "schema":
			version, err = number(r, key)
		case "hides_built_in":
			m.HidesBuiltIn, err = boolean(r, key)
		case "declares":
			m.Declares, err = r.String(key)
		case "sha256":
			m.SHA256, err = sum(r, key)
		case "files":
			err = r.Array(key, func(int) error {
				f, err := parseFile(r)
				m.Files = append(m.Files, f)
				return err
			})
		default:
			return m.author(r, key)
		}
		return err
	})
	if err == nil {
		err = r.End()
	}
	switch {
	case err != nil:
		return Manifest{}, err
	case version != schema:
		return Manifest{}, fmt.Errorf("has schema %d; this program knows %d", version, schema)
	case m.Name == "" || m.Executable == "" || m.Platform == "" || len(m.Protocol) == 0 || m.SHA256 == digest{}:
		return Manifest{}, errors.New("lacks a name, executable, platform, protocol or sha256")
	}
	return m, nil
}

func parseFile(r *strictjson.Reader) (f File, err error) {
	err = r.Object("file", func(key string) (err error) {
		switch key {
		case "path":
			if f.Path, err = r.String(key); err == nil && (!fs.ValidPath(f.Path) || f.Path == ".") {
				err = fmt.Errorf("path %q is not one inside the plugin's folder", f.Path)
			}
		case "sha256":
			f.SHA256, err = sum(r, key)
		default:
			err = fmt.Errorf("has the unknown key %q in files", key)
		}
		return err
	})
	return f, err
}

// author reads a key that a plugin's author may also give in plugin.json.
func (m *Manifest) author(r *strictjson.Reader, key string) (err error) {
	switch key {
	case "name":
		if m.Name, err = r.String(key); err == nil && !validName(m.Name) {
			err = fmt.Errorf("name %q is not valid for a backend; want up to 64 of a-z, 0-9, _ and -, a letter first",
				m.Name)
		}
	case "version":
		if m.Version, err = r.String(key); err == nil && (m.Version == "" || len(m.Version) > 128) {
			err = fmt.Errorf("version has %d bytes; allowed are 1 to 128", len(m.Version))
		}
	case "protocol":
		var list []int64
		list, err = r.Ints(key, maxProtocols)
		for _, v := range list {
			m.Protocol = append(m.Protocol, int(v))
		}
		if err == nil && len(list) == 0 {
			err = errors.New("protocol lists no version")
		}
	case "platform":
		if m.Platform, err = r.String(key); err == nil && !platforms.MatchString(m.Platform) {
			err = fmt.Errorf("platform %q is invalid; want for example linux/amd64, darwin or %s", m.Platform,
				anyPlatform)
		}
	case "executable":
		if m.Executable, err = r.String(key); err == nil &&
			(!fs.ValidPath(m.Executable) || path.Base(m.Executable) != m.Executable || m.Executable == ".") {
			err = fmt.Errorf("executable %q is not the name of a file at the top of the plugin's folder", m.Executable)
		}
	default:
		err = fmt.Errorf("has the unknown key %q", key)
	}
	return err
}

// parseAuthor reads plugin.json, in which the author of a plugin declares what cannot be derived from its files.
func parseAuthor(b []byte) (m Manifest, err error) {
	r, err := strictjson.New(b)
	if err == nil {
		err = r.Object("it", func(key string) error { return m.author(r, key) })
	}
	if err == nil {
		err = r.End()
	}
	return m, err
}

func number(r *strictjson.Reader, what string) (int, error) {
	v, err := r.Value(what, 1)
	n, ok := v.(json.Number)
	i, perr := strconv.Atoi(n.String())
	if err == nil && (!ok || perr != nil) {
		err = fmt.Errorf("%s is not a whole number", what)
	}
	return i, err
}

func boolean(r *strictjson.Reader, what string) (bool, error) {
	v, err := r.Value(what, 1)
	b, ok := v.(bool)
	if err == nil && !ok {
		err = fmt.Errorf("%s is neither true nor false", what)
	}
	return b, err
}

func sum(r *strictjson.Reader, what string) (d digest, err error) {
	s, err := r.String(what)
	if err != nil {
		return d, err
	}
	if b, herr := hex.DecodeString(s); herr != nil || copy(d[:], b) != len(d) || len(b) != len(d) {
		return d, fmt.Errorf("%s is not a SHA-256 in hexadecimal", what)
	}
	return d, nil
}

// join lists numbers for a message.
func join(list []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ", "), "[]")
}

// platformOf returns the platform that the first bytes of an executable name. It reads no more than these: debug/elf is
// not made for hostile files.
func platformOf(f io.ReaderAt) (string, error) {
	var b [20]byte
	if n, err := f.ReadAt(b[:], 0); n < 2 {
		return "", fmt.Errorf("has %d bytes: %w", n, err)
	}
	switch {
	case string(b[:2]) == "#!":
		return anyPlatform, nil
	case string(b[:4]) == elf.ELFMAG:
		var order binary.ByteOrder = binary.LittleEndian
		if elf.Data(b[elf.EI_DATA]) == elf.ELFDATA2MSB {
			order = binary.BigEndian
		}
		machine := elf.Machine(order.Uint16(b[18:]))
		if arch, ok := machines[machine]; ok && elf.Class(b[elf.EI_CLASS]) == elf.ELFCLASS64 {
			return "linux/" + arch, nil
		}
		return "", fmt.Errorf("is an executable for %v, which this program does not know", machine)
	case binary.LittleEndian.Uint32(b[:]) == macho.Magic64:
		switch macho.Cpu(binary.LittleEndian.Uint32(b[4:])) {
		case macho.CpuAmd64:
			return "darwin/amd64", nil
		case macho.CpuArm64:
			return "darwin/arm64", nil
		}
	case binary.BigEndian.Uint32(b[:]) == macho.MagicFat:
		return "darwin", nil
	}
	return "", errors.New("is neither an executable of Linux or macOS nor a script with #! at its beginning")
}

// machines has the Go names of processors.
var machines = map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64", elf.EM_RISCV: "riscv64",
	elf.EM_LOONGARCH: "loong64", elf.EM_PPC64: "ppc64le", elf.EM_S390: "s390x"}
