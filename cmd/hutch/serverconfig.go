package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"hutch/fs"
	"hutch/profiles/reference"
	"hutch/profiles/runconfig"
)

// remote refuses what does nothing for a server at a URL.
func (f *serverFlags) remote(ref string, args []string) error {
	if scheme, _, found := strings.Cut(ref, "://"); !found || scheme != "http" && scheme != "https" {
		return nil
	}
	for _, flag := range []struct {
		name string
		said bool
	}{
		{"-e", len(f.env) > 0}, {"-secret", len(f.secrets) > 0}, {"-v", len(f.mounts) > 0}, {"-permissions", f.permissions != ""}, {"-port", f.port != 0},
		{"-ram", f.sizes["ram"] != ""}, {"-disk", f.sizes["disk"] != ""},
		{"-transport stdio", f.transport == "stdio"}, {"an argument", len(args) > 0},
	} {
		if flag.said {
			return misused("server", flag.name+" does not go with a URL: that server runs elsewhere")
		}
	}
	return nil
}

// config is the RunConfig that the flags say; where the server comes from, run adds.
func (f *serverFlags) config() ([]byte, error) {
	permissions := f.permissions
	if strings.Contains(permissions, "/") || strings.HasSuffix(permissions, ".json") {
		var err error
		if permissions, err = filepath.Abs(permissions); err != nil {
			return nil, err
		}
	}
	var volumes []string
	for _, m := range f.mounts {
		volumes = append(volumes, absolute(m))
	}
	config := map[string]any{}
	for _, field := range []struct {
		name  string
		said  bool
		value any
	}{
		{"group", f.group != "", f.group},
		{"transport", f.transport != "", f.transport},
		{"target_port", f.port != 0, f.port},
		{"permission_profile_name_or_path", permissions != "", permissions},
		{"env_vars", f.env != nil, tableOf(f.env)},
		{"tools_filter", f.tools != nil, f.tools},
		{"remote_auth_config", f.bearer != "", map[string]string{"bearer_token": f.bearer + ",target=bearer_token"}},
		{"header_forward", f.headers != nil, headersOf(f.headers)},
		{"container_labels", f.labels != nil, tableOf(f.labels)},
		{"secrets", f.secrets != nil, f.secrets},
		{"volumes", volumes != nil, volumes},
		{"hutch", f.sizes != nil, f.sizes},
	} {
		if field.said {
			config[field.name] = field.value
		}
	}
	text, err := json.MarshalIndent(config, "", "  ")
	return append(text, '\n'), err
}

// headersOf returns headers as a config has them: those with references apart.
func headersOf(headers [][2]string) map[string]map[string]string {
	m := map[string]map[string]string{}
	for _, h := range headers {
		in := "add_plaintext_headers"
		if _, is, err := reference.Parse(h[1]); is || err != nil {
			in = "add_headers_from_secret"
		}
		if m[in] == nil {
			m[in] = map[string]string{}
		}
		m[in][h[0]] = h[1]
	}
	return m
}

// tableOf returns words K=V as a table.
func tableOf(words []string) map[string]string {
	m := map[string]string{}
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		m[k] = v
	}
	return m
}

// storeServer writes the config of a server, and fails if that does not count.
func storeServer(c *tree, dir string, config []byte) error {
	if err := writeFile(c, path.Join(dir, "config"), string(config)); err != nil {
		return err
	}
	why, err := readFile(c, path.Join(dir, "err"))
	if err != nil {
		return err
	}
	if why = strings.TrimSpace(why); why != "" {
		return &fs.Told{Text: why, Err: fs.ErrInvalid}
	}
	return nil
}

// exportServer prints the config of a server, or writes it to a file.
func exportServer(_ context.Context, c *tree, _ *serverFlags, args []string) error {
	dir, err := serverDir(args[0])
	if err != nil {
		return err
	}
	text, err := readFile(c, path.Join(dir, "config"))
	switch {
	case err != nil:
		return noServer(c, dir, err)
	case text == "":
		return fmt.Errorf("%w: server %q: nobody has said what it is", fs.ErrInvalid, args[0])
	case len(args) == 2 && args[1] != "-":
		return os.WriteFile(args[1], []byte(text), 0o600)
	}
	_, err = os.Stdout.WriteString(text)
	return err
}

// configText returns the text of a file with a config; - is our input.
func configText(file string) ([]byte, error) {
	in := os.Stdin
	if file != "-" {
		var err error
		if in, err = os.Open(file); err != nil {
			return nil, err
		}
		defer in.Close()
	}
	text, err := io.ReadAll(io.LimitReader(in, runconfig.MaxText+1))
	if err == nil && len(text) > runconfig.MaxText {
		err = fmt.Errorf("%w: %s has more than %d MiB: it is no config", fs.ErrTooLarge, file, runconfig.MaxText>>20)
	}
	return text, err
}

// importServer makes a server of a config, which is not started, and tells what of
// this machine that gives to it, and what of that hutch does not act upon.
func importServer(ctx context.Context, c *tree, f *serverFlags, args []string) error {
	text, err := configText(args[0])
	if err != nil {
		return err
	}
	var says struct{ Name string }
	json.Unmarshal(text, &says) // what is wrong with it, hutchd says
	base := strings.TrimSuffix(filepath.Base(args[0]), ".json")
	name := cmp.Or(f.name, says.Name, serverName(base))
	if name == "" {
		return misused("server", "the config says no name: say one with -name")
	}
	text = f.grouped(text)
	return f.newServer(ctx, c, name, func(dir string) error {
		if err := storeServer(c, dir, text); err != nil {
			return err
		}
		if f.group == "" {
			fmt.Fprintf(os.Stderr, "hutch: it is in no group: hutch group add GROUP %s puts it into one\n", name)
		}
		if says.Name != "" && says.Name != name { // what is exported of it is to be called so
			if err := writeFile(c, path.Join(dir, "ctl"), "set name "+fs.Quote(name)+"\n"); err != nil {
				return err
			}
		}
		return tellStatus(c, dir, takenTexts)
	})
}

// grouped returns the text of a config with the group of -group, or with none: a copy beside
// the server that it is of would give the clients of its group everything twice.
func (f *serverFlags) grouped(text []byte) []byte {
	c, err := runconfig.Decode(text)
	if err == nil {
		c, err = c.InGroup(f.group)
	}
	if err != nil {
		return text // what is wrong with it, hutchd says
	}
	return c.Text()
}

// takenTexts are how it is told what of this machine a server's config gives to it, and
// which fields hutch does not act upon, by lines of the server's status; notedTexts likewise
// what of it is not as somebody thought.
var (
	takenTexts = map[string]string{
		"folder": "it sees the folder %s as %s (%s)",
		"file":   "it gets what is in the file %s",
		"unused": "not used: %s",
	}
	notedTexts = map[string]string{"note": "%s"}
)

// tellStatus tells on standard error what lines of a server's status are, by texts.
func tellStatus(c *tree, dir string, texts map[string]string) error {
	status, err := readFile(c, path.Join(dir, "status"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(status) {
		words, err := fs.LineWords(strings.TrimSuffix(line, "\n"), -1)
		if err != nil || len(words) == 0 {
			continue
		}
		if text, ok := texts[words[0]]; ok && len(words) == 1+strings.Count(text, "%s") {
			var what []any
			for _, w := range words[1:] {
				what = append(what, w)
			}
			fmt.Fprintf(os.Stderr, "hutch: %s\n", fs.PlainLine(fmt.Sprintf(text, what...)))
		}
	}
	return nil
}
