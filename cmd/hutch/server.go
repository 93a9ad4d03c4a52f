package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"hutch/fs"
	"hutch/profiles"
	"hutch/profiles/runconfig"
)

// A serverVerb is what hutch server does to servers, with the flags that go with it.
type serverVerb struct {
	flags string
	do    func(ctx context.Context, c *tree, f *serverFlags, args []string) error
}

// serverVerbs is the table of what hutch server does.
func serverVerbs() map[string]verb[serverVerb] {
	return map[string]verb[serverVerb]{
		"run":     {1, -1, serverVerb{"name group e secret bearer header tools permissions transport port v ram disk l keep", runServer}},
		"ls":      {0, 0, serverVerb{"format a group l", listServers}},
		"start":   {0, -1, serverVerb{"all group", followed("start")}},
		"stop":    {0, -1, serverVerb{"all group", toldServers("stop")}},
		"restart": {0, -1, serverVerb{"all group", followed("restart")}},
		"set":     {1, -1, serverVerb{"", setServer}},
		"rm":      {0, -1, serverVerb{"all group", eachServer(func(_ context.Context, c *tree, dir string) error { return c.remove(dir) })}},
		"logs":    {1, 2, serverVerb{"f", serverLog}},
		"export":  {1, 2, serverVerb{"", exportServer}},
		"import":  {1, 1, serverVerb{"name keep group", importServer}},
		"login":   {1, 1, serverVerb{"device", loginServer}},
		"logout":  {1, -1, serverVerb{"", toldServers("logout")}},
	}
}

// serverFlags are those of hutch server.
type serverFlags struct {
	name, group, permissions, transport string
	format, bearer                      string
	port                                int
	env, secrets, mounts, labels, tools []string
	headers                             [][2]string
	sizes                               map[string]string // of its sandbox, by their names
	all, every, follow, keep, device    bool
}

// defineServer has the command that runs MCP servers.
func defineServer(flags *flag.FlagSet) action {
	f := &serverFlags{}
	flags.StringVar(&f.name, "name", "", "run, import: `name` of the server; if not said it is made of what is run")
	flags.StringVar(&f.group, "group", "", "run, import: `group` that the server is in, of which an import has none if not said; ls, start, stop, restart, rm: those of it")
	flags.BoolVar(&f.every, "all", false, "start, stop, restart, rm: all servers")
	flags.StringVar(&f.permissions, "permissions", "", "run: what the server may: none, network, or the `path` of a permission profile")
	flags.StringVar(&f.transport, "transport", "", "run: how it is spoken to: a `transport`, stdio, sse or streamable-http")
	flags.IntVar(&f.port, "port", 0, "run: `port` that it listens on in its sandbox")
	flags.Func("e", "run: with this `variable`: K=V, or K as it is here; may come several times", f.addVariable)
	flags.Func("secret", "run: with a secret in a variable: `NAME,target=VARIABLE`; may come several times", addTo(&f.secrets))
	flags.StringVar(&f.bearer, "bearer", "", "run: `secret` that a remote server wants as bearer token: NAME, or a reference as env:NAME")
	flags.Func("header", "run: send it this `header`, where it is spoken to by HTTP: 'NAME: VALUE', and VALUE may be a reference as secret:NAME; may come several times", f.addHeader)
	flags.Func("tools", "run: only these `tools`: NAME,…", f.setTools)
	flags.Func("v", "run: show it this `folder` of the host: HOST:GUEST, HOST:GUEST:ro, or DIR at the same place, which it may write; may come several times", addTo(&f.mounts))
	for name, of := range map[string]string{"ram": "memory", "disk": "storage"} {
		flags.Func(name, "run: a `size` that its "+of+" has at most, as 1GiB", func(size string) error {
			if f.sizes == nil {
				f.sizes = make(map[string]string)
			}
			f.sizes[name] = size
			return nil
		})
	}
	flags.Func("l", "run: with this `label`: K=V; ls: only those that have it; may come several times", f.addLabel)
	flags.BoolVar(&f.keep, "keep", false, "run, import: leave what was made where it fails")
	flags.BoolVar(&f.all, "a", false, "ls: those that are stopped, too")
	flags.BoolVar(&f.follow, "f", false, "logs: go on as more comes")
	flags.BoolVar(&f.device, "device", false, "login: by a code that is typed on another device")
	flags.StringVar(&f.format, "format", "table", "ls: print a `form`: table, json, or mcpservers, which AI clients read")
	return func(ctx context.Context, args []string) error {
		verb, wrong := verbOf("server", serverVerbs(), args)
		flags.Visit(func(g *flag.Flag) {
			if wrong == nil && !slices.Contains(strings.Fields(verb.flags), g.Name) {
				wrong = misused("server", "-"+g.Name+" does not go with "+args[0])
			}
		})
		if wrong != nil {
			return wrong
		}
		return connected(func(ctx context.Context, c *tree, args []string) error { return verb.do(ctx, c, f, args) })(ctx, args[1:])
	}
}

func addTo(list *[]string) func(string) error {
	return func(v string) error {
		*list = append(*list, v)
		return nil
	}
}

func (f *serverFlags) addVariable(kv string) error {
	k, _, said := strings.Cut(kv, "=")
	if k == "" {
		return errors.New("want K=V or K")
	}
	if v, here := os.LookupEnv(kv); !said && here {
		kv = k + "=" + v
	} else if !said {
		return fmt.Errorf("there is no variable %s here", k)
	}
	f.env = append(f.env, kv)
	return nil
}

func (f *serverFlags) addHeader(line string) error {
	name, value, said := strings.Cut(line, ":")
	if name = strings.TrimSpace(name); name == "" || !said || strings.ContainsFunc(name, fs.NotIn("!#$%&'*+-.^_`|~")) {
		return errors.New("want 'NAME: VALUE'")
	}
	f.headers = append(f.headers, [2]string{name, strings.TrimSpace(value)})
	return nil
}

func (f *serverFlags) setTools(names string) error {
	f.tools = strings.Split(names, ",")
	for i, name := range f.tools {
		if f.tools[i] = strings.TrimSpace(name); f.tools[i] == "" || strings.ContainsAny(f.tools[i], " \t\n") {
			return errors.New("want NAME,… with commas between")
		}
	}
	return nil
}

func (f *serverFlags) addLabel(kv string) error {
	if k, _, said := strings.Cut(kv, "="); k == "" || !said {
		return errors.New("want K=V")
	}
	f.labels = append(f.labels, kv)
	return nil
}

func serverDir(name string) (string, error) { return entryOf("servers", "a server", name) }

// noServer tells that there is no such server, if that is why err is.
func noServer(c *tree, dir string, err error) error {
	return missing(c, dir, err, fmt.Sprintf("no server %q; hutch server ls -a lists them", path.Base(dir)))
}

// mustServe says why a server cannot have MCP sessions now.
func mustServe(c *tree, name string) error {
	dir := path.Join("servers", name)
	status, err := readFile(c, path.Join(dir, "status"))
	if err != nil {
		return noServer(c, dir, err)
	}
	word, _, _ := strings.Cut(status, "\n")
	switch state := runconfig.State(word); {
	case state.Live(), state == runconfig.Starting, state == runconfig.Unknown:
		return nil
	case state == runconfig.Unauthenticated:
		return fmt.Errorf("%w: server %q takes no token that there is: hutch server ls -a says why, and hutch server login %s gets one where a person logs in", fs.ErrBusy, name, name)
	}
	return fmt.Errorf("%w: server %q does not run, it is %s: hutch server start has it run", fs.ErrBusy, name, word)
}

// eachServer has a verb do something to the folder of every server that its
// arguments name. What fails is told, and does not keep the others from it.
func eachServer(do func(ctx context.Context, c *tree, dir string) error) func(context.Context, *tree, *serverFlags, []string) error {
	return func(ctx context.Context, c *tree, f *serverFlags, names []string) error {
		names, err := f.chosen(c, names)
		if err != nil {
			return err
		}
		return forAll(ctx, names, func(name string) error {
			dir, err := serverDir(name)
			if err != nil {
				return err
			}
			return noServer(c, dir, do(ctx, c, dir))
		})
	}
}

// chosen returns the names of the servers that a verb is about: those that are named, or of a
// group, or all.
func (f *serverFlags) chosen(c *tree, names []string) ([]string, error) {
	switch {
	case len(names) == 0 && !f.every && f.group == "":
		return nil, misused("server", "name servers, or say -all or -group GROUP")
	case len(names) > 0 && (f.every || f.group != ""):
		return nil, misused("server", "name servers, or say which by a flag, but not both")
	case len(names) > 0:
		return names, nil
	}
	if _, err := c.stat(path.Join("groups", f.group)); err != nil {
		return nil, noGroup(c, path.Join("groups", f.group), err)
	}
	all, err := servers(c)
	for _, s := range all {
		if s.Name != "" && (f.every || s.Group == f.group) {
			names = append(names, s.Name)
		}
	}
	return names, err
}

// toldServers passes a message to the ctl of each server.
func toldServers(message string) func(context.Context, *tree, *serverFlags, []string) error {
	return eachServer(func(_ context.Context, c *tree, dir string) error {
		return writeFile(c, path.Join(dir, "ctl"), message+"\n")
	})
}

// setServer sets a field of a server's config: to a text or JSON, or where several words
// are said, to their list. Without one it is taken away.
func setServer(_ context.Context, c *tree, _ *serverFlags, args []string) error {
	if len(args) < 2 {
		return misused("server", "set: write SERVER PATH [VALUE…], as "+fs.QuoteLine(args[0])+" tools_filter echo")
	}
	dir, err := serverDir(args[0])
	if err != nil {
		return err
	}
	words := args[1:]
	if len(words) > 2 {
		list, err := json.Marshal(words[1:])
		if err != nil {
			return err
		}
		words = []string{words[0], string(list)}
	}
	return noServer(c, dir, writeFile(c, path.Join(dir, "ctl"), "set "+fs.QuoteAll(words)+"\n"))
}

// followed is toldServers of what may take long: what the server says meanwhile is
// told.
func followed(message string) func(context.Context, *tree, *serverFlags, []string) error {
	return eachServer(func(ctx context.Context, c *tree, dir string) error { return tellFollowed(ctx, c, dir, message) })
}

func tellFollowed(ctx context.Context, c *tree, dir, message string) error {
	line := &lastLine{}
	defer follow(ctx, c, line, path.Join(dir, "log/server"))()
	took := since("")
	return line.until(ctx, func() string {
		status, _ := readFile(c, path.Join(dir, "status"))
		state, _, _ := strings.Cut(status, "\n")
		return path.Base(dir) + " is " + state + took()
	}, func() error { return writeFile(c, path.Join(dir, "ctl"), message+"\n") })
}

// serverName makes the name of a server of what is run.
func serverName(ref string) string {
	ref = strings.TrimPrefix(ref, "image:")
	scheme, rest, found := strings.Cut(strings.TrimRight(ref, "/"), "://")
	switch {
	case strings.HasPrefix(scheme, "http") && found:
		ref, _, _ = strings.Cut(rest, "/") // its host
	case found:
		ref = rest
	}
	if at := strings.LastIndexByte(ref, '@'); at > 0 {
		ref = ref[:at] // of a version or digest
	}
	ref = ref[strings.LastIndexByte(ref, '/')+1:]
	ref, _, _ = strings.Cut(ref, ":")
	ref, _, _ = strings.Cut(ref, "[")
	name := strings.Map(func(r rune) rune {
		if !fs.NotIn("-_")(r) {
			return r
		}
		return '-'
	}, ref)
	for strings.Contains(name, "__") {
		name = strings.ReplaceAll(name, "__", "_")
	}
	name = strings.Trim(name[:min(len(name), 64)], "-_")
	if found && !strings.HasPrefix(scheme, "http") {
		name = withoutKind(name)
	}
	if profiles.CheckServerName(name) != nil {
		return ""
	}
	return name
}

// withoutKind returns the name of a package without that it is a server, as server-X is
// the VM of server X.
func withoutKind(name string) string {
	for _, kind := range []string{"mcp-server-", "server-"} {
		if rest, ok := strings.CutPrefix(name, kind); ok && profiles.CheckServerName(rest) == nil {
			return rest
		}
	}
	return name
}
