package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"hutch/aggd/guard"
	"hutch/aggd/programs"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
	"hutch/cmd/hutchd/gateway"
	"hutch/fs"
	"hutch/mcpd"
	"hutch/profiles"
	"hutch/profiles/permission"
	"hutch/profiles/runconfig"
	"hutch/vmm/image"
)

// An asker is who has a program run in a sandbox, and is told what that was denied.
type asker struct {
	g      *gateway.Gateway
	server string // of g
	says   profiles.Says
	own    *runconfig.Server // of servers/; nil: it is one of a profile

	profile string   // of whoever has the server
	private []string // as that has them
	given   []string // values of its program's environment

	installs bool // what runs is no server yet, but installs one
}

// asker returns the one who has a program of a gateway's server run.
func (w *Workloads) asker(g *gateway.Gateway, server string, b profiles.Box) asker {
	a := asker{g: g, server: server, says: b.Says, profile: g.ProfileName(), private: b.Network.Private}
	if g.Kind() != gateway.Server {
		return a
	}
	if s, err := w.Server(g.Of()); err == nil && s.Config() != nil {
		a.own = s.Config().Server()
	}
	return a
}

// ask has a sandbox know who has a program in it. What each of them gives its program the
// others' programs can read there, so that no record of theirs may have it either.
func (w *Workloads) ask(at place, a asker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.boxes[at]
	if b == nil {
		return
	}
	if b.askers == nil {
		b.askers = make(map[*gateway.Gateway]asker)
	}
	maps.DeleteFunc(b.askers, func(g *gateway.Gateway, _ asker) bool { return g.Context().Err() != nil })
	for g, other := range b.askers {
		if g != a.g {
			g.HideOthers(a.g, a.given)
			a.g.HideOthers(g, other.given)
		}
	}
	b.askers[a.g] = a
}

// notShown is before what a sandbox does not show of the host, and the line that has it do so.
const notShown = "its sandbox does not show"

// check says why a sandbox cannot run a program: it does not show it.
func (a asker) check(b profiles.Box, p wire.Program) error {
	if b.Image != "" && b.Image != image.Host {
		return nil
	}
	program, folders := view(b.Mounts).unseen(p)
	if len(folders) == 0 {
		return nil
	}
	text := fmt.Sprintf(notShown+" %s: %s", fs.QuoteLine(program), a.read(folders))
	if !strings.Contains(p.Command, "/") {
		text += fmt.Sprintf(", and have the command be %s", fs.QuoteLine(program))
	}
	if a.own == nil && a.says.Layer != "detected" {
		text += ", or sandbox = false"
	}
	return errors.New(text)
}

// gone returns the Gone of a program that also says what of its arguments it could not
// read, and which hosts it was denied.
func (w *Workloads) gone(at place, a asker, b profiles.Box, s programs.Start) func(how string) {
	var unread string
	if b.Image == "" || b.Image == image.Host {
		if args, folders := view(b.Mounts).unread(s.Program); len(args) > 0 {
			unread = fmt.Sprintf("; "+notShown+" %s: %s", fs.QuoteLine(args[0]), a.read(folders))
		}
	}
	began := time.Now()
	return func(how string) {
		if strings.HasPrefix(how, "exit status ") && how != "exit status 0" {
			how += unread + a.lacking(w.told(at, began))
		}
		s.Gone(how)
	}
}

// told returns the requests that a sandbox was denied since a time, by their hosts.
func (w *Workloads) told(at place, since time.Time) map[string]wire.NetEvent {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.boxes[at]
	if b == nil {
		return nil
	}
	told := maps.Clone(b.told)
	maps.DeleteFunc(told, func(_ string, e wire.NetEvent) bool { return e.Time.Before(since) })
	return told
}

// lacking says of requests that were refused what has the server be allowed them.
func (a asker) lacking(told map[string]wire.NetEvent) (text string) {
	var hosts []string
	for _, host := range slices.Sorted(maps.Keys(told)) {
		switch e := told[host]; {
		case !named(host):
		case e.Rule == guard.RulePrivate:
			text += "; " + a.why(host, e)
		case mayAllow(e) && len(hosts) < maxLacking:
			hosts = append(hosts, host)
		}
	}
	switch list := strings.Join(hosts, ", "); {
	case list == "":
		return text
	case a.installs:
		return "; denied " + list + whileInstalled + text
	default:
		return fmt.Sprintf("; denied %s: %s%s", list, a.allow(hosts...), text)
	}
}

// whileInstalled is behind what an installation was denied, which nobody can allow it.
const whileInstalled = " while the package was installed, when there are only its registry's hosts"

// maxLacking is how many hosts are said in one line.
const maxLacking = 8

// tell has a text in the log of the asker's servers, and in its events.
func (a asker) tell(kind, text string) {
	fmt.Fprintf(a.g.AggLog(), "%s: %s\n", a.server, text)
	a.g.Alerted(mcpd.Alert{Kind: kind, Text: a.server + ": " + text})
}

// allow returns the line that has the server reach hosts.
func (a asker) allow(hosts ...string) string {
	if a.own == nil {
		return a.line("allow", a.says.Allow, hosts)
	}
	return fmt.Sprintf("echo allow %s >servers/%s/ctl", strings.Join(hosts, " "), a.server)
}

// read returns the line that has the server see folders.
func (a asker) read(folders []string) string {
	for _, dir := range folders {
		if isWide(dir) {
			return fmt.Sprintf(tooWide, fs.QuoteLine(dir))
		}
	}
	if a.own == nil {
		return a.line("read", a.says.Read, folders)
	}
	all := slices.Clip(a.own.Mounts)
	for _, dir := range folders {
		all = append(all, permission.Mount{Host: dir, Guest: dir, ReadOnly: true})
	}
	return a.set("volumes", volumes(all))
}

// tooWide says of a folder that isWide what to do.
const tooWide = "put it into a folder of its own, as no sandbox should see the whole of %s"

// isWide tells whether a folder has more than a program and what goes with it: it is a
// person's home, or of the machine.
func isWide(dir string) bool {
	home, _ := os.UserHomeDir()
	_, err := permission.ParseMount(dir, true)
	return err != nil || dir == home || filepath.Dir(dir) == "/home"
}

// volumes returns mounts as the field volumes has them.
func volumes(mounts []permission.Mount) (list []string) {
	for _, m := range mounts {
		if text := m.String(); !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return list
}

// line returns the line of the server's table in a profile that adds to what it says.
func (a asker) line(key string, said, more []string) string {
	if a.says.Layer == "detected" {
		return fmt.Sprintf(`add "hutch": {%q: %s} to %s in %s`, key, list(said, more), a.server, a.says.Source)
	}
	return a.inProfile("[mcpServers."+a.server+"]", key, said, more)
}

// reach returns the line that has the server reach a host that it may, and whose
// address is not public.
func (a asker) reach(host string) string {
	return a.inProfile("[network]", "private", a.private, []string{host}) + ", and write reload to hutch's ctl"
}

// inProfile returns the line that adds to what a table of the profile says.
func (a asker) inProfile(table, key string, said, more []string) string {
	verb, where := "add", "to"
	if len(said) > 0 {
		verb, where = "have", "in"
	}
	return fmt.Sprintf("%s %s = %s %s %s of profile %s", verb, key, list(said, more), where, table, a.profile)
}

// list returns texts as a list of TOML or JSON.
func list(said, more []string) string {
	var all []string
	for _, text := range slices.Concat(said, more) {
		all = append(all, string(rawjson.Quote(text)))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// set returns the command of a shell that changes a field of the config of a server
// of servers/ to v, in the folder where hutch's tree is.
func (a asker) set(field string, v any) string {
	message := strings.ReplaceAll(setting(field, v), "'", `'\''`)
	return fmt.Sprintf("printf '%%s\\n' stop '%s' start >servers/%s/ctl", message, a.server)
}

// setting returns the control message that changes a field to v.
func setting(field string, v any) string {
	value, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return fs.QuoteAll([]string{"set", field, string(value)})
}

// maxTold is of how many hosts a sandbox tells that it was denied them.
const maxTold = 64

// denied tells whoever has programs in a sandbox of a request that was refused, once
// for each host.
func (w *Workloads) denied(of string, e wire.NetEvent) {
	at, ok := placeOf(of)
	if !ok {
		return
	}
	host := net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
	for _, a := range w.askers(at, host, e) {
		a.tell("server.denied", a.why(host, e))
	}
}

// askers returns who is to be told that a host was denied.
func (w *Workloads) askers(at place, host string, e wire.NetEvent) (list []asker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.boxes[at]
	if b == nil {
		return nil
	}
	_, said := b.told[host]
	if !said && len(b.told) >= maxTold {
		return nil
	}
	if b.told == nil {
		b.told = make(map[string]wire.NetEvent)
	}
	if b.told[host] = e; said {
		return nil
	}
	for _, a := range b.askers {
		list = append(list, a)
	}
	return list
}

// why says that a host was denied, and the line that allows it.
func (a asker) why(host string, e wire.NetEvent) string {
	text := "denied " + fs.QuoteLine(host)
	switch {
	case named(host) && e.Rule == guard.RulePrivate:
		return text + ", whose address is not public: " + a.reach(e.Host)
	case !named(host) || !mayAllow(e):
		return text + ": " + e.Reason
	case a.installs:
		return text + whileInstalled
	}
	return text + ": " + a.allow(host)
}

// named tells whether a line of a profile can name a host that was asked for.
func named(host string) bool {
	_, err := guard.ParsePattern(host)
	return err == nil && !strings.Contains(host, "*")
}

// mayAllow tells whether a request was refused only as nobody allowed it.
func mayAllow(e wire.NetEvent) bool { return e.Rule == guard.RuleDefault || e.Rule == guard.RulePort }
