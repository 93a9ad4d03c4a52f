package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"hutch/fs"
	"hutch/profiles/reference"
)

// runServer makes a server of what its first argument names, and prints its name
// when it runs.
func runServer(ctx context.Context, c *tree, f *serverFlags, args []string) error {
	name := cmp.Or(f.name, serverName(args[0]))
	if name == "" {
		return misused("server", "no name can be made of "+fs.QuoteLine(args[0])+": say one with -name")
	}
	if err := f.remote(args[0], args[1:]); err != nil {
		return err
	}
	config, err := f.config()
	if err != nil {
		return err
	}
	return f.newServer(ctx, c, name, func(dir string) error {
		if err := storeServer(c, dir, config); err != nil {
			return err
		}
		err := tellFollowed(ctx, c, dir, "run "+fs.QuoteAll(args))
		if status, _ := readFile(c, path.Join(dir, "status")); err == nil || !strings.HasPrefix(status, "unauthenticated\n") {
			return err
		}
		if wrong := login(c, dir, "login", os.Stderr); wrong != nil { // else it has started
			return fmt.Errorf("%w; %w", err, wrong)
		}
		return nil
	})
}

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
		{"-transport stdio", f.transport == "stdio"}, {"an argument", len(args) > 0},
	} {
		if flag.said {
			return misused("server", flag.name+" does not go with a URL: that server runs elsewhere")
		}
	}
	return nil
}

// newServer makes a server, has it be something, and prints its name. Of one that
// cannot be, nothing is left.
func (f *serverFlags) newServer(ctx context.Context, c *tree, name string, be func(dir string) error) error {
	dir, err := serverDir(name)
	if err != nil {
		return err
	}
	err = c.mkdir(dir, 0o755)
	if fs.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: server %q: say another -name, or hutch server rm %s first", fs.ErrExist, name, name)
	}
	if err != nil {
		return err
	}
	if err := be(dir); err != nil {
		if f.keep {
			return err
		}
		told := &fs.Told{Text: asFlags(fs.Text(err)), Err: err}
		return errors.Join(told, dropServer(ctx, dir))
	}
	_, err = fmt.Println(name)
	return err
}

// dropTime is how long it is waited for that a server goes.
const dropTime = 30 * time.Second

// dropServer removes a server, over a connection of its own: an interrupt has ended
// the one that there was.
func dropServer(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTime)
	defer cancel()
	c, err := dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.remove(dir); err != nil && !isMissing(err) {
		return fmt.Errorf("%s is left: %w", dir, err)
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
		{"tools_filter", f.tools != "", strings.Split(f.tools, ",")},
		{"remote_auth_config", f.bearer != "", map[string]string{"bearer_token": f.bearer + ",target=bearer_token"}},
		{"header_forward", f.headers != nil, headersOf(f.headers)},
		{"container_labels", f.labels != nil, tableOf(f.labels)},
		{"secrets", f.secrets != nil, f.secrets},
		{"volumes", volumes != nil, volumes},
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

// maxConfig is how many bytes a config has at most.
const maxConfig = 1 << 20

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
	text, err := io.ReadAll(io.LimitReader(in, maxConfig+1))
	if err == nil && len(text) > maxConfig {
		err = fmt.Errorf("%w: %s has more than %d MiB: it is no config", fs.ErrTooLarge, file, maxConfig>>20)
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
	return f.newServer(ctx, c, name, func(dir string) error {
		if err := storeServer(c, dir, text); err != nil {
			return err
		}
		if says.Name != "" && says.Name != name { // what is exported of it is to be called so
			if err := writeFile(c, path.Join(dir, "ctl"), "set name "+fs.Quote(name)+"\n"); err != nil {
				return err
			}
		}
		return tellTaken(c, dir)
	})
}

// takenTexts are how it is told what a line of a server's status has of its config.
var takenTexts = map[string]string{
	"folder": "it sees the folder %s as %s (%s)",
	"file":   "it gets what is in the file %s",
	"unused": "not used: %s",
}

// tellTaken tells on standard error which folders and files of this machine a server's
// config gives to it, and which fields hutch does not act upon.
func tellTaken(c *tree, dir string) error {
	status, err := readFile(c, path.Join(dir, "status"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(status) {
		words, err := fs.LineWords(strings.TrimSuffix(line, "\n"), -1)
		if err != nil || len(words) == 0 {
			continue
		}
		if text, ok := takenTexts[words[0]]; ok && len(words) == 1+strings.Count(text, "%s") {
			var what []any
			for _, w := range words[1:] {
				what = append(what, w)
			}
			fmt.Fprintf(os.Stderr, "hutch: %s\n", fs.PlainLine(fmt.Sprintf(text, what...)))
		}
	}
	return nil
}

// serverLog prints a log of a server.
func serverLog(ctx context.Context, c *tree, f *serverFlags, args []string) error {
	dir, err := serverDir(args[0])
	if err != nil {
		return err
	}
	log := "server"
	if len(args) == 2 {
		log = args[1]
	}
	file := path.Join(dir, "log", log)
	if _, err := c.stat(dir); err == nil && (strings.Contains(log, "/") || !isFile(c, file)) {
		return fmt.Errorf("%w: server %s has no log %q: %s", fs.ErrNotExist, args[0], log, logNames(c, dir))
	}
	return noServer(c, dir, printLog(ctx, c, os.Stdout, file, 0, f.follow))
}

// loginServer has a person log in to a remote server.
func loginServer(_ context.Context, c *tree, f *serverFlags, args []string) error {
	dir, err := serverDir(args[0])
	if err != nil {
		return err
	}
	message := "login"
	if f.device {
		message += " device"
	}
	return noServer(c, dir, login(c, dir, message, os.Stdout))
}

// login has a person log in to a server, and prints what is to be done for that until it
// is.
func login(c *tree, dir, message string, w io.Writer) error {
	file := path.Join(dir, "login")
	told, _ := readFile(c, file) // of a login before
	done := make(chan error, 1)
	go func() { done <- writeFile(c, path.Join(dir, "ctl"), message+"\n") }()
	for {
		select {
		case err := <-done:
			return err
		case <-time.After(200 * time.Millisecond):
		}
		if text, err := readFile(c, file); err == nil && text != told {
			told = text
			fmt.Fprintln(w, fs.PlainLine(strings.TrimSpace(text)))
		}
	}
}
