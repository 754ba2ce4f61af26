package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/rlx-go/rlx/internal/backends"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/installed"
)

// shipped lists the backends that come with rlxrun.
var shipped = []string{"cpu", "wgpu", "metal", "cuda"}

func installCommand() *cli.Command {
	return &cli.Command{
		Name: "plugins install", Args: "FILE|DIR|ARCHIVE [flags]", Short: "install a backend from a local file",
		Long: `Installs a backend from an executable called rlx-backend-NAME, or from a directory or archive (tar, tar.gz, zip) with one at its top. It goes into your plugin
folder: rlx/plugins in XDG_DATA_HOME or ~/.local/share. Nothing is downloaded. The plugin is started once, in its sandbox, to see that it works. A manifest records its name,
version, protocol, platform and the SHA-256 of each file. From then on it runs only if its files match, and on Linux as the copy in memory that was checked.
The digests detect damage and changed files. They do not say who made the plugin: install only what you trust, and see --sandbox=require.`,
		Examples: []cli.Example{
			{About: "a backend in a directory with other files", Line: "rlxrun plugins install ./rlx-backend-npu"},
			{About: "replace an installed backend by a newer version",
				Line: "rlxrun plugins install npu-1.1.tar.gz --replace"},
		},
		Setup: func(fs *cli.FlagSet) cli.Run {
			var f hostFlags
			var replace, hide, noStart bool
			fs.BoolVar(&replace, "replace", false, "replace an installed plugin of the same name")
			fs.BoolVar(&hide, "hide-built-in", false,
				"allow the name of a built-in backend, which is then no longer used")
			fs.BoolVar(&noStart, "no-start", false,
				"do not start the plugin; its plugin.json must have version and protocol")
			f.declarePlugins(fs)
			return func(ctx context.Context, env *cli.Env, args []string) error {
				if len(args) != 1 {
					return cli.Usagef("plugins install", "takes one file, directory or archive; found %d arguments",
						len(args))
				}
				o := installed.Options{Replace: replace, BuiltIn: namesBesideUs(), HideBuiltIn: hide}
				if !noStart {
					o.Start = func(ctx context.Context, p *installed.Plugin) (string, error) {
						info, err := foundOf(backends.Installed(p)).Describe(ctx, f.describing(env))
						return info.Version, err
					}
				}
				return install(ctx, env, args[0], o)
			}
		},
	}
}

// namesBesideUs lists names that a plugin gets only with --hide-built-in: built-in backends and those in the folder of
// rlxrun.
func namesBesideUs() []string {
	names := shipped
	if dir := backends.Beside(); dir != "" {
		for _, b := range backends.In(dir) {
			names = append(names[:len(names):len(names)], b.Name)
		}
	}
	return names
}

// installedRow describes an installed plugin, for JSON.
type installedRow struct {
	Name     string `json:"name"`
	Version  string `json:"version"`
	Protocol []int  `json:"protocol"`
	Platform string `json:"platform"`
	SHA256   string `json:"sha256"` // of the executable
	Path     string `json:"path"`
	Files    int    `json:"files"`
	Bytes    int64  `json:"bytes"`
}

func install(ctx context.Context, env *cli.Env, source string, o installed.Options) error {
	store, err := installed.User()
	if err != nil {
		return err
	}
	p, err := store.Install(ctx, source, o)
	if err != nil {
		return err
	}
	bytes, files := p.Size()
	if env.JSON {
		return env.WriteJSON(
			installedRow{p.Name, p.Version, p.Protocol, p.Platform, hex.EncodeToString(p.SHA256[:]), p.Path(), files,
				bytes})
	}
	noun := "files"
	if files == 1 {
		noun = "file"
	}
	_, err = fmt.Fprintf(env.Stdout, "%s %s is installed: %d %s, %s, in %s\n", p.Name, p.Version, files, noun,
		cli.Size(bytes), p.Dir)
	return err
}

func verifyCommand() *cli.Command {
	return &cli.Command{
		Name: "plugins verify", Args: "[NAME...] [flags]", Short: "check the files of installed plugins",
		Long: `Compares every file of the installed plugins, or of those named, with the digests in the manifest, and says which would be skipped. Starts
nothing. Each start of a plugin makes the same check.`,
		Examples: []cli.Example{{About: "check all installed plugins", Line: "rlxrun plugins verify"}},
		Complete: completeInstalled,
		Setup: func(fs *cli.FlagSet) cli.Run {
			return func(ctx context.Context, env *cli.Env, args []string) error { return verify(env, args) }
		},
	}
}

// verifiedRow is the result for one plugin, for JSON.
type verifiedRow struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	SHA256  string `json:"sha256"`
	OK      bool   `json:"ok"`
	Message string `json:"message,omitempty"`
}

func verify(env *cli.Env, names []string) error {
	store, list, err := pluginsNamed(names)
	if err != nil {
		return err
	}
	rows, table := []verifiedRow{}, [][]string{{"NAME", "VERSION", "SHA256", "FILES"}}
	var failed error
	for _, p := range list {
		r := verifiedRow{p.Name, p.Version, hex.EncodeToString(p.SHA256[:]), true, ""}
		text := "as installed"
		if err := p.Verify(); err != nil {
			r.OK, r.Message, text, failed = false, err.Error(), "see below", err
		}
		rows = append(rows, r)
		table = append(table, []string{r.Name, r.Version, r.SHA256[:16], text})
	}
	if env.JSON {
		if err := env.WriteJSON(rows); err != nil {
			return err
		}
		return failed
	}
	if len(list) == 0 {
		env.Notef("no plugin is installed; looked in %s", store.Dir)
		return nil
	}
	if err := env.Table(table); err != nil {
		return err
	}
	for _, r := range rows {
		if !r.OK && r.Message != failed.Error() { // the last message is the error of the command
			env.Notef("%s", r.Message)
		}
	}
	return failed
}

// pluginsNamed returns the installed plugins of these names, or all if there are no names.
func pluginsNamed(names []string) (store installed.Store, list []*installed.Plugin, err error) {
	if store, err = installed.User(); err != nil {
		return store, nil, err
	}
	if len(names) == 0 {
		list, err = store.List()
		return store, list, err
	}
	for _, name := range names {
		p, err := store.Find(name)
		if err != nil {
			return store, nil, err
		}
		list = append(list, p)
	}
	return store, list, nil
}

func removeCommand() *cli.Command {
	return &cli.Command{
		Name: "plugins remove", Args: "NAME... [flags]", Short: "remove installed plugins",
		Long:     `Removes installed plugins with all their files. Running backends continue.`,
		Examples: []cli.Example{{About: "remove a backend", Line: "rlxrun plugins remove npu"}},
		Complete: completeInstalled,
		Setup: func(fs *cli.FlagSet) cli.Run {
			return func(ctx context.Context, env *cli.Env, args []string) error {
				if len(args) == 0 {
					return cli.Usagef("plugins remove", "takes the names of plugins; found none").WithHint(
						"rlxrun plugins verify shows those that are installed")
				}
				store, list, err := pluginsNamed(args)
				if err != nil {
					return err
				}
				var gone []string
				for _, p := range list {
					if err := store.Remove(ctx, p.Name); err != nil {
						return err
					}
					gone = append(gone, p.Name)
				}
				if env.JSON {
					return env.WriteJSON(map[string][]string{"removed": gone})
				}
				_, err = fmt.Fprintf(env.Stdout, "removed %s\n", strings.Join(gone, ", "))
				return err
			}
		},
	}
}
