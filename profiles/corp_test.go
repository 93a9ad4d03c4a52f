package profiles

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aead.dev/minisign"

	"hutch/fs"
)

// A house is a store with a folder of corp and a clock.
type house struct {
	*Store
	t     *testing.T
	key   minisign.PrivateKey
	clock time.Time
}

func newHouse(t *testing.T) *house {
	t.Helper()
	public, private, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, key: private, clock: time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)}
	corp := t.TempDir()
	text, _ := public.MarshalText()
	if err := errors.Join(os.Chmod(corp, 0o755), os.WriteFile(filepath.Join(corp, publicKey), text, 0o644)); err != nil {
		t.Fatal(err)
	}
	h.open(Folders{Profiles: filepath.Join(t.TempDir(), "profiles"), Good: t.TempDir(), Corp: corp})
	return h
}

func (h *house) open(f Folders) {
	h.t.Helper()
	var err error
	if h.Store, err = Open(f); err != nil {
		h.t.Fatal(err)
	}
	h.now = func() time.Time { return h.clock }
}

// again opens the store as another process does.
func (h *house) again() { h.open(Folders{Profiles: h.dir, Good: h.good, Corp: h.corp}) }

// sign writes a file of corp with its signature.
func (h *house) sign(name, text string) {
	h.t.Helper()
	path := filepath.Join(h.corp, name)
	sig := minisign.SignWithComments(h.key, []byte(text), "timestamp:1\tfile:"+name+"\thashed", "")
	if err := errors.Join(os.WriteFile(path, []byte(text), 0o644), os.WriteFile(path+signature, sig, 0o644)); err != nil {
		h.t.Fatal(err)
	}
}

// directives are rows of three or four words: operation, path, reason, value.
func directives(rows ...[4]string) string {
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "[[directive]]\noperation = %q\npath = %s\nreason = %q\n", r[0], quote(r[1]), r[2])
		if r[3] != "" {
			fmt.Fprintf(&b, "value = %s\n", r[3])
		}
	}
	return b.String()
}

func TestCorp(t *testing.T) {
	const server = "[mcpServers.x]\nurl = \"http://a\"\n"
	for name, tt := range map[string]struct {
		all, dev string // corp's
		user     string
		dropIn   string
		want     string // an error if it begins with !
	}{
		"users say otherwise":            {all: "pids = 16\ncpus = 2", user: "pids = 17", want: "cpus=2 pids=17"},
		"all, then its own":              {all: "pids = 16\ncpus = 2", dev: "pids = 18", user: "", want: "cpus=2 pids=18"},
		"lock":                           {all: "pids = 16\n" + directives([4]string{"lock", "pids", "be small"}), user: "cpus = 1\npids = 17", want: "!profile dev, line 2: pids is locked by corp, which locks pids: be small (CORP/all.toml, line 2)"},
		"lock to a value":                {all: directives([4]string{"lock", "pids", "be small", "16"}), user: "", want: "pids=16"},
		"the same is fine":               {all: directives([4]string{"lock", "pids", "be small", "16"}), user: "pids = 16", want: "pids=16"},
		"lock what is not":               {all: directives([4]string{"lock", "cpus", "no"}), user: "cpus = 1", want: "!profile dev, line 1: cpus is locked by corp"},
		"a drop-in, too":                 {all: directives([4]string{"lock", "pids", "", "16"}), user: "", dropIn: "\npids = 17", want: "!profile dev, dev.d/x.toml, line 2: pids is locked"},
		"lock a table":                   {all: server + directives([4]string{"lock", "mcpServers", "ours"}), user: "[mcpServers.y]\ncommand = \"z\"", want: "!profile dev, line 2: mcpServers.y.command is locked by corp, which locks mcpServers: ours"},
		"lock a server":                  {all: server + directives([4]string{"lock", "mcpServers.x", "ours"}), user: "[mcpServers.x]\nallowed_tools = [\"t\"]", want: "!profile dev, line 2: mcpServers.x.allowed_tools is locked"},
		"by another name":                {all: server + directives([4]string{"lock", "mcpServers.x.enabled", "ours"}), user: "[mcpServers.x]\ndisabled = true", want: "!profile dev, line 2: mcpServers.x.enabled is locked"},
		"lock the pin":                   {all: server + directives([4]string{"lock", "mcpServers.x.pin", "ours"}), user: "[mcpServers.x.hutch]\npin = false", want: "!profile dev, line 2: mcpServers.x.pin is locked"},
		"every sandbox":                  {all: directives([4]string{"forbid", `mcpServers."*".sandbox`, "no host", "false"}), user: "[mcpServers.y]\ncommand = \"z\"\n[mcpServers.y.hutch]\nsandbox = false", want: `!profile dev, line 4: mcpServers.y.sandbox is forbidden by corp, which forbids mcpServers."*".sandbox to be false: no host`},
		"a sandbox is fine":              {all: directives([4]string{"forbid", `mcpServers."*".sandbox`, "", "false"}), user: "[mcpServers.y]\ncommand = \"z\"\nsandbox = true", want: "y(user z [])"},
		"lock who runs it":               {all: directives([4]string{"lock", `mcpServers."*".run_as`, ""}), user: "[mcpServers.y]\ncommand = \"z\"\nsandbox = false\nrun_as = \"root\"", want: "!profile dev, line 4: mcpServers.y.run_as is locked"},
		"privileged":                     {all: "security.privileged = true", user: "pids = 16", want: "pids=16"},
		"privileged by a user":           {user: "pids = 16\n[security]\nprivileged = true", want: "!profile dev, line 3: security.privileged: only corp's files can say it"},
		"in another table":               {all: server + directives([4]string{"lock", "mcpServers.x.allowed_tools", "ours"}), user: "[mcpServers.x.hutch]\nallowed_tools = []", want: "!profile dev, line 2: mcpServers.x.allowed_tools is locked"},
		"over the table":                 {all: directives([4]string{"lock", "env.A", "", `"b"`}), user: "env = 3", want: "!profile dev, line 1: env is locked"},
		"beside it":                      {all: directives([4]string{"lock", "env.A", "", `"b"`}), user: "env.B = \"c\"", want: "A=b B=c"},
		"forbid":                         {all: directives([4]string{"forbid", "mcpServers.evil", "it is evil"}), user: "mcpServers.evil.url = \"http://e\"", want: "!profile dev, line 1: mcpServers.evil.url is forbidden by corp, which forbids mcpServers.evil: it is evil"},
		"forbid what corp has":           {all: server + "[mcpServers.y]\nurl=\"http://b\"\n" + directives([4]string{"forbid", "mcpServers.x", ""}), user: "", want: "y(corp http://b [])"},
		"forbid a value":                 {all: directives([4]string{"forbid", "network.allow", "not there", `"*"`}), user: "network.allow = [\"pypi.org\", \"*\"]", want: `!profile dev, line 1: network.allow is forbidden by corp, which forbids network.allow to be *: not there`},
		"another value":                  {all: directives([4]string{"forbid", "network.allow", "", `"*"`}), user: "pids = 16\nnetwork.allow = [\"pypi.org\"]", want: "pids=16"},
		"replace":                        {all: directives([4]string{"replace", "pids", "", "16"}), user: "pids = 17", want: "pids=16"},
		"replace a table":                {all: directives([4]string{"replace", "mcpServers.x", "", `{url = "http://b", disabled = true}`}), user: server + "allowed_tools = [\"t\"]", want: "x(corp http://b off [])"},
		"add to a list":                  {all: directives([4]string{"add", "mcpServers.x.allowed_tools", "", `["t", "u"]`}), user: server + "allowed_tools = [\"t\"]", want: "x(user http://a [t u])"},
		"add what is there":              {all: directives([4]string{"add", "pids", "", "16"}), user: "pids = 17", want: "pids=17"},
		"add what is not":                {all: directives([4]string{"add", "pids", "", "16"}), user: "", want: "pids=16"},
		"add a table":                    {all: directives([4]string{"add", "mcpServers.x", "", `{url = "http://b", allowed_tools = ["t"]}`}), user: server, want: "x(user http://a [t])"},
		"remove":                         {all: directives([4]string{"remove", "mcpServers.x", ""}), user: server + "[mcpServers.y]\ncommand = \"z\"", want: "y(user z [])"},
		"remove from a list":             {all: directives([4]string{"remove", "mcpServers.x.allowed_tools", "", `"t"`}), user: server + "allowed_tools = [\"t\", \"u\"]", want: "x(user http://a [u])"},
		"remove nothing":                 {all: directives([4]string{"remove", "mcpServers.x.allowed_tools", ""}), user: "pids = 16", want: "pids=16"},
		"a wrong value":                  {all: directives([4]string{"replace", "pids", "", "1"}), user: "", want: "!profile dev, CORP/all.toml, line 1: pids \"1\" is not a number"},
		"a wrong path":                   {all: directives([4]string{"lock", "pid", ""}), user: "", want: `!profile dev, CORP/all.toml, line 3: path "pid" is that of no key`},
		"half a path":                    {all: directives([4]string{"lock", "mcpServers.", ""}), user: "", want: `!profile dev, CORP/all.toml, line 3: path "mcpServers." has an empty name`},
		"another name":                   {all: directives([4]string{"lock", "mcpServers.x.disabled", ""}), user: "", want: `!profile dev, CORP/all.toml, line 3: path "mcpServers.x.disabled" is another name: write mcpServers.NAME.enabled`},
		"a wrong operation":              {all: directives([4]string{"lok", "pids", ""}), user: "", want: `!profile dev, CORP/all.toml, line 2: operation "lok": it is`},
		"no value":                       {all: directives([4]string{"add", "pids", ""}), user: "", want: `!profile dev, CORP/all.toml, line 1: add needs a value`},
		"a user's directive":             {user: directives([4]string{"lock", "pids", ""}), want: "!profile dev, line 1: directive stands in files of corp only"},
		"a user's serial":                {user: "serial = 3", want: "!profile dev, line 1: serial stands in files of corp only"},
		"editable":                       {all: "[editable]\nmcpServers = false", user: server, want: "!profile dev, line 2: mcpServers.x.url is locked by corp, whose [editable] leaves mcpServers to nobody (CORP/all.toml, line 2)"},
		"editable machine":               {all: "[editable]\nmachine = false", user: "pids = 17", want: "!profile dev, line 1: pids is locked by corp"},
		"editable, and the default said": {all: "[editable]\nmachine = false", user: "image = \"host\"", want: "image=host"},
		"lock of a config's":             {all: directives([4]string{"lock", "profile", "", "3"}), want: "!profile dev, CORP/all.toml, line 5: value of profile: write a text"},
		"replace of a config's":          {all: directives([4]string{"replace", "hostname", "", `"x"`}), want: `!profile dev, CORP/all.toml, line 3: path "hostname" is for the config of a VM alone`},
		"editable again":                 {all: "[editable]\nmachine = false", user: "editable.machine = true", want: "!profile dev, line 1: editable.machine is locked by corp"},
		"the user's editable":            {user: "[editable]\nsecurity = false", dropIn: "[security]\ndefault = \"block\"", want: "!profile dev, dev.d/x.toml, line 2: security.default is locked by user, whose [editable]"},
		"no section":                     {user: "[editable]\npids = false", want: `!profile dev, line 2: "pids" is no section: they are machine env http network cmd storage mcp security mcpServers`},
		"a key of a table":               {all: "security.cedar.policies.x = \"permit(principal, action, resource);\"\n" + directives([4]string{"lock", "security.cedar.policies.x", "ours"}), user: "security.cedar.policies.x = \"\"", want: "!profile dev, line 1: security.cedar.policies.x is locked"},
		"corp's rules": {all: "[security.rules.mcp.a]\non = \"mcp.request\"\ndecision = \"block\"", user: "[security.rules.mcp.b]\non = \"mcp.request\"\ndecision = \"allow\"",
			want: "security.rules.mcp.a(corp block -100) security.rules.mcp.b(user allow 100)"},
		"a rule of corp":            {all: "[security.rules.mcp.a]\non = \"mcp.request\"\ndecision = \"block\"", user: "security.rules.mcp.a.if = \"false\"", want: "!profile dev, line 1: security.rules.mcp.a.if is locked by corp, which locks security.rules.mcp.a: it is a rule of corp"},
		"a server's rule of corp":   {all: server + "[mcpServers.x.hutch.rules.a]\non = \"mcp.request\"\ndecision = \"block\"", user: "mcpServers.x.hutch.rules.a.if = \"false\"", want: "!profile dev, line 1: mcpServers.x.hutch.rules.a.if is locked by corp, which locks mcpServers.x.hutch.rules.a: it is a rule of corp"},
		"editable rules of servers": {all: "[editable]\nsecurity = false", user: server + "[mcpServers.x.hutch.rules.a]\non = \"mcp.request\"\ndecision = \"allow\"", want: "!profile dev, line 5: mcpServers.x.hutch.rules.a.decision is locked by corp, whose [editable] leaves mcpServers.NAME.hutch.rules to nobody"},
		"corp's priority":           {all: "[security.rules.mcp.a]\npriority = 3\non = \"mcp.request\"\ndecision = \"block\"", want: "!profile dev, CORP/all.toml, line 2: security.rules.mcp.a.priority 3 is not from -1000 to -1"},
		"the user's priority":       {user: "[security.rules.mcp.a]\npriority = -3\non = \"mcp.request\"\ndecision = \"block\"", want: "!profile dev, line 2: security.rules.mcp.a.priority -3 is not from 1 to 999"},
		"a priority of nothing":     {user: "[security.rules.mcp.a]\npriority = 0\non = \"mcp.request\"\ndecision = \"block\"", want: "!profile dev, line 2: security.rules.mcp.a.priority 0 is not from 1 to 999"},
		"bad TOML":                  {all: "\npids = ", want: "!profile dev, CORP/all.toml, line 2: "},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			if tt.all != "" {
				h.sign("all.toml", tt.all)
			}
			if tt.dev != "" {
				h.sign("dev.toml", tt.dev)
			}
			lay(t, h.Store, map[string]string{"dev.toml": tt.user, "dev.d/x.toml": tt.dropIn})
			p, err := h.Get("dev")
			want, fails := strings.CutPrefix(strings.ReplaceAll(tt.want, "CORP", h.corp), "!")
			switch {
			case fails && (err == nil || !strings.HasPrefix(fs.Text(err), "invalid argument: "+want)):
				t.Errorf("got  %v\nwant %s", err, want)
			case !fails && (err != nil || said(p) != want):
				t.Errorf("got %s, %v, want %s", said(p), err, want)
			}
			if fails {
				return
			}
			text, _ := os.ReadFile(filepath.Join(h.good, "dev.toml"))
			kept, _, err := parseKept("dev", text)
			if err != nil || len(kept.Servers) != len(p.Servers) || fmt.Sprint(kept.Security.Rules) != fmt.Sprint(p.Security.Rules) {
				t.Errorf("kept is %s, %v:\n%s", said(kept), err, text)
			}
		})
	}
}

// TestCorpFails breaks what corp says in every way. No VM starts of it, and
// what it was before stays.
func TestCorpFails(t *testing.T) {
	const good = "serial = 2\nexpires = \"2027-01-01\"\npids = 16\n"
	for name, tt := range map[string]struct {
		do   func(*house)
		want string
	}{
		"unsigned":    {func(h *house) { os.Remove(filepath.Join(h.corp, "all.toml.minisig")) }, "all.toml: it is not signed: there is no all.toml.minisig"},
		"changed":     {func(h *house) { os.WriteFile(filepath.Join(h.corp, "all.toml"), []byte("pids = 17"), 0o644) }, "all.toml: its signature is not that of the key beside it"},
		"no key":      {func(h *house) { os.Remove(filepath.Join(h.corp, publicKey)) }, "there is no key minisign.pub beside it"},
		"a bad key":   {func(h *house) { os.WriteFile(filepath.Join(h.corp, publicKey), []byte("key"), 0o644) }, "minisign.pub is no key"},
		"garbage":     {func(h *house) { os.WriteFile(filepath.Join(h.corp, "all.toml.minisig"), []byte("x"), 0o644) }, "its signature is not that"},
		"another key": {func(h *house) { _, h.key, _ = minisign.GenerateKey(nil); h.sign("all.toml", good) }, "its signature is not that"},
		"another's file": {func(h *house) {
			h.sign("dev.toml", good)
			os.Rename(filepath.Join(h.corp, "dev.toml"), filepath.Join(h.corp, "all.toml"))
			os.Rename(filepath.Join(h.corp, "dev.toml.minisig"), filepath.Join(h.corp, "all.toml.minisig"))
		}, "it was signed as dev.toml"},
		"replayed": {func(h *house) {
			h.sign("all.toml", strings.Replace(good, "2", "3", 1))
			h.Get("dev")
			h.sign("all.toml", good)
		}, "its serial 2 is older than 3"},
		"no serial":      {func(h *house) { h.sign("all.toml", "pids = 16") }, "its serial 0 is older than 2"},
		"expired":        {func(h *house) { h.clock = h.clock.AddDate(1, 0, 0) }, "it expired on 2027-01-01"},
		"signed expired": {func(h *house) { h.sign("all.toml", "serial = 3\nexpires = \"2026-05-01\"") }, "it expired on 2026-05-01"},
		"a clock set back": {func(h *house) {
			h.clock = h.clock.AddDate(1, 0, 0)
			h.Check("dev")
			h.clock = h.clock.AddDate(-1, 0, 0)
		}, "it expired on 2027-01-01"},
		"no day":         {func(h *house) { h.sign("all.toml", "serial = 3\nexpires = \"soon\"") }, "expires \"soon\" is no day"},
		"a bad serial":   {func(h *house) { h.sign("all.toml", "\nserial = \"x\"") }, "line 2: serial: write a number"},
		"open to others": {func(h *house) { os.Chmod(h.corp, 0o777) }, "others may write to it"},
		"gone":           {func(h *house) { os.RemoveAll(h.corp) }, "no such file"},
		"a link": {func(h *house) {
			os.Rename(filepath.Join(h.corp, "all.toml"), filepath.Join(h.corp, "x"))
			os.Symlink("x", filepath.Join(h.corp, "all.toml"))
		}, "not an ordinary file"},
		"what was seen": {func(h *house) { os.WriteFile(filepath.Join(h.good, "corp.seen"), []byte("x"), 0o644) }, "what was seen of it is lost"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.sign("all.toml", good)
			lay(t, h.Store, map[string]string{"dev.toml": "cpus = 1"})
			if p, err := h.Get("dev"); err != nil || said(p) != "cpus=1 pids=16" {
				t.Fatal(err)
			}
			tt.do(h)
			for range 2 {
				err := h.Check("dev")
				if err == nil || !errors.Is(err, fs.ErrPermission) || !strings.Contains(fs.Text(err), tt.want) {
					t.Errorf("got %v, want %s", err, tt.want)
				}
				if p, err := h.Get("dev"); err != nil || said(p) != "cpus=1 pids=16" {
					t.Errorf("what runs has %v", err)
				}
				if h.Check("") == nil {
					t.Error("the default profile counts")
				}
				h.again()
			}
		})
	}
}

// TestCorpLater has a good file count again, and a profile that only corp has.
func TestCorpLater(t *testing.T) {
	h := newHouse(t)
	h.sign("dev.toml", "serial = 1\nexpires = \"2026-06-02\"\npids = 16")
	if p, err := h.Get("dev"); err != nil || said(p) != "pids=16" {
		t.Fatal(err)
	}
	if names := h.Names(); strings.Join(names, " ") != "default dev" {
		t.Errorf("names: %s", names)
	}
	lay(t, h.Store, map[string]string{"dev.d/x.toml": "cpus = 1", "mine.toml": "extends = \"dev\""})
	for _, name := range []string{"dev", "mine"} {
		if p, err := h.Get(name); err != nil || said(p) != "cpus=1 pids=16" {
			t.Error(name, err)
		}
	}
	h.clock = h.clock.AddDate(0, 0, 1)
	if h.Check("dev") == nil || h.Check("mine") == nil || h.Check("") != nil {
		t.Error(h.Err())
	}
	h.sign("dev.toml", "serial = 1\nexpires = \"2026-06-03\"\npids = 17")
	if p, err := h.Get("dev"); err != nil || said(p) != "cpus=1 pids=17" || h.Err() != "" {
		t.Error(err, h.Err())
	}
}

func TestAdmitEnv(t *testing.T) {
	h := newHouse(t)
	h.sign("all.toml", "env.A = \"x\"\n"+directives([4]string{"lock", "env.A", "ours"}, [4]string{"forbid", "env.B", ""}))
	p := get(t, h.Store, "")
	for kv, want := range map[string]string{"A=x": "", "A=y": "ours", "B=": "forbidden by corp", "C=x": ""} {
		name, value, _ := strings.Cut(kv, "=")
		if err := p.AdmitEnv(name, value); (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", kv, err)
		}
	}
}

func TestAdmit(t *testing.T) {
	h := newHouse(t)
	h.sign("all.toml", "net = \"none\"\n"+directives(
		[4]string{"lock", "net", "no network"}, [4]string{"forbid", "mount", "keep out"}, [4]string{"lock", "profile", ""}, [4]string{"forbid", "image", "", `"evil"`}))
	lay(t, h.Store, map[string]string{"default.toml": "ram = \"1GiB\""})
	p := get(t, h.Store, "")
	for config, want := range map[string]string{
		"ram 2GiB\nnet none\nprofile default\nimage good\n": "",
		"net host-proxy\n":      "net is locked by corp, which locks net: no network",
		"ram 1GiB\nmount /a:/b": "mount is forbidden by corp, which forbids mount: keep out",
		"profile dev\n":         "profile is locked by corp",
		"image evil\n":          "image is forbidden by corp, which forbids image to be evil",
	} {
		c, err := ParseConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		key, err := p.Admit(c)
		if (err != nil) != (want != "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.HasPrefix(want, key+" ")) {
			t.Errorf("%q: %s, %v, want %s", config, key, err, want)
		}
	}
}

// What a lock says of a key that only configs have, they have to say.
func TestAdmitOfConfigs(t *testing.T) {
	h := newHouse(t)
	for corp, configs := range map[string]map[string]string{
		directives([4]string{"lock", "profile", "ours", `"team"`}):         {"profile team": "", "profile dev": "profile is locked by corp, which locks profile to be team: ours", "ram 1GiB": "profile is locked"},
		directives([4]string{"forbid", "mount", "no docker", `"sockets"`}): {"mount /a:/b:ro": "", "mount /a:/b\nmount /c:/d:ro,sockets": "mount is forbidden by corp, which forbids mount to be sockets: no docker"},
		"[editable]\nmachine = false":                                      {"profile team": "", "ram 1GiB": "ram is locked by corp", "image host": ""},
	} {
		h.sign("all.toml", corp)
		h.again()
		p := get(t, h.Store, "")
		for config, want := range configs {
			c, err := ParseConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.Admit(c); (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%q of %s: %v, want %s", config, corp, err, want)
			}
		}
	}
}

// FuzzDirectives has no directive of corp do more than refuse a profile.
func FuzzDirectives(f *testing.F) {
	f.Add("add", "network.allow", `["a"]`, "network.allow = []")
	f.Add("lock", `mcpServers."x".url`, `"http://b"`, "[mcpServers.x]\nurl = \"http://a\"")
	f.Add("replace", "mcpServers", `{x = {command = "y"}}`, "")
	f.Add("remove", "env.A", "", "env = {A = \"b\"}")
	f.Add("forbid", "security.rules", "", "env = 3")
	f.Fuzz(func(t *testing.T, operation, path, value, user string) {
		text := directives([4]string{operation, path, "why", value})
		c, err := readCorp("corp.toml", []byte(text))
		if err != nil {
			return
		}
		d, err := readDocument(place{layer: ofUser}, []byte(user))
		if err != nil {
			return
		}
		_, l, err := build("p", []*document{c, d})
		if err != nil && !strings.Contains(err.Error(), "line ") {
			t.Error(err)
		}
		if err != nil || len(l.locks) == 0 {
			return
		}
		alone, err := merge([]*document{c})
		if err != nil {
			t.Fatal(err)
		}
		at := l.locks[0].path
		was, is := alone.tableAt(at[:len(at)-1])[at[len(at)-1]], l.tableAt(at[:len(at)-1])[at[len(at)-1]]
		if _, isTable := is.(map[string]any); operation == "lock" && !isTable && fmt.Sprint(was) != fmt.Sprint(is) {
			t.Errorf("%s was %v, and is %v", at, was, is)
		}
	})
}
