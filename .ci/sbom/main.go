// Command sbom writes the modules that a Go program was built of, as an SPDX 2.3 document:
//
//	sbom PROGRAM DOCUMENT VERSION
//
// Go records the modules and their digests in each program. The time of the document is SOURCE_DATE_EPOCH, so that the
// same program gives the same bytes. SPDX: https://spdx.github.io/spdx-spec/v2.3/
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

type document struct {
	Version       string         `json:"spdxVersion"`
	License       string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      creation       `json:"creationInfo"`
	Packages      []pkg          `json:"packages"`
	Relationships []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type pkg struct {
	ID        string     `json:"SPDXID"`
	Name      string     `json:"name"`
	Version   string     `json:"versionInfo"`
	Location  string     `json:"downloadLocation"`
	Source    string     `json:"sourceInfo,omitempty"`
	Analyzed  bool       `json:"filesAnalyzed"`
	Concluded string     `json:"licenseConcluded"`
	Declared  string     `json:"licenseDeclared"`
	Copyright string     `json:"copyrightText"`
	Checksums []checksum `json:"checksums,omitempty"`
	Refs      []ref      `json:"externalRefs,omitempty"`
}

type checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type ref struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	From string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

const unknown = "NOASSERTION"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return errors.New("usage: sbom PROGRAM DOCUMENT VERSION")
	}
	info, err := buildinfo.ReadFile(args[0])
	if err != nil {
		return err
	}
	program, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH is not a number of seconds: %w", err)
	}
	d := describe(filepath.Base(args[0]), args[2], info, sha256.Sum256(program), time.Unix(epoch, 0))
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(args[1], append(text, '\n'), 0o666)
}

func describe(name, version string, info *debug.BuildInfo, digest [sha256.Size]byte, created time.Time) document {
	sum := hex.EncodeToString(digest[:])
	root := pkg{ID: "SPDXRef-Program", Name: name, Version: version, Location: "https://" + info.Main.Path,
		Concluded: "Apache-2.0", Declared: "Apache-2.0", Copyright: unknown, Checksums: []checksum{{"SHA256", sum}}}
	d := document{Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: name,
		Namespace: "https://" + info.Main.Path + "/sbom/" + name + "-" + sum,
		Creation:  creation{created.UTC().Format(time.RFC3339), []string{"Tool: .ci/sbom"}},
		Packages:  []pkg{root}, Relationships: []relationship{{"SPDXRef-DOCUMENT", "DESCRIBES", root.ID}}}
	add := func(p pkg) {
		d.Packages = append(d.Packages, p)
		d.Relationships = append(d.Relationships, relationship{root.ID, "DEPENDS_ON", p.ID})
	}
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	add(pkg{ID: "SPDXRef-Go", Name: "Go standard library", Version: goVersion, Location: "https://go.dev/dl/",
		Concluded: "BSD-3-Clause", Declared: "BSD-3-Clause", Copyright: unknown,
		Refs: []ref{{"PACKAGE-MANAGER", "purl", "pkg:golang/stdlib@" + goVersion}}})
	for i, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		p := pkg{ID: fmt.Sprintf("SPDXRef-Module-%d", i+1), Name: m.Path, Version: m.Version,
			Location:  "https://proxy.golang.org/" + m.Path + "/@v/" + m.Version + ".zip",
			Concluded: unknown, Declared: unknown, Copyright: unknown,
			Refs: []ref{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + m.Path + "@" + m.Version}}}
		if m.Sum != "" {
			p.Source = "go.sum " + m.Sum
		}
		add(p)
	}
	return d
}
