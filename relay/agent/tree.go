package agent

import (
	"fmt"
	"strings"
	"syscall"

	"hutch/fs"
)

// A place is what a walk in the agent's tree has found.
type place struct {
	a    *Agent
	from *session // the connection the walk came by
	c    *command // below exec/NAME
	t    *tcp     // below net/tcp/NAME
}

type call = fs.Call[place]

// tree returns the tree as one connection sees it.
func (a *Agent) tree(from *session) fs.Node {
	top := place{a: a, from: from}
	return fs.New(rows(), top, fs.Options[place]{
		Ident:  ident,
		Failed: failed,
		Hold:   hold,
	}).Root()
}

func ident(at place) uint64 {
	switch {
	case at.c != nil:
		return at.c.num
	case at.t != nil:
		return at.t.num
	}
	return 0
}

// failed keeps the last error for the err files.
func failed(at place, err error) {
	at.a.last.Set(err)
	if at.c != nil {
		at.c.last.Set(err)
	}
	if at.t != nil {
		at.t.last.Set(err)
	}
}

func hold(at place) func() {
	if at.c == nil {
		return nil
	}
	return at.c.hold(at.from)
}

// rows declares the agent's tree.
func rows() []fs.Row[place] {
	return []fs.Row[place]{
		{Name: "ctl", Perm: 0o600, Doc: "the agent", Verbs: agentVerbs, Read: readEnv},
		{Name: "env", Perm: 0o600, Doc: "its variables, each ended by a NUL", Read: readVariables, Store: writeVariables},
		{Name: "err", Perm: 0o400, Doc: "the last error", Read: readErr},
		{Name: "load", Perm: 0o400, Doc: "how many processes and commands there are", Read: readLoad},
		{Name: "cons", Perm: 0o600, Doc: "a login shell", Open: openCons, Size: consSize},
		{Name: "root", Perm: 0o755, Doc: "the guest's files", Mount: mountRoot},
		{Name: "net", Perm: 0o755, Doc: "connections into the guest", Rows: netRows()},
		{Name: "exec", Perm: 0o755, Doc: "commands",
			Names: execNames, Enter: enterExec, Make: makeExec, Drop: dropExec,
			Each: []fs.Row[place]{{Name: "NAME", Perm: 0o755, Rows: execRows()}}},
	}
}

func execRows() []fs.Row[place] {
	return []fs.Row[place]{
		{Name: "ctl", Perm: 0o600, Doc: "settings and control", Verbs: execVerbs, Read: readSettings},
		{Name: "cmd", Perm: 0o400, Doc: "what runs", Read: readCmd},
		{Name: "status", Perm: 0o400, Doc: "state, then key value lines", Read: readStatus},
		{Name: "stdin", Perm: 0o200, Doc: "input; ends with the last close", Open: openStdin},
		{Name: "stdout", Perm: 0o400, Doc: "output", Open: openStdout, Size: stdoutSize},
		{Name: "stderr", Perm: 0o400, Doc: "error output", Open: openStderr, Size: stderrSize},
		{Name: "wait", Perm: 0o400, Doc: "blocks; how it ended", Open: openWait},
		{Name: "err", Perm: 0o400, Doc: "the last error", Read: readErr},
	}
}

func execNames(c call) ([]string, error) { return c.At.a.names(), nil }

func enterExec(c call, name string) (place, error) {
	at := c.At
	at.c = at.a.command(name)
	if at.c == nil {
		return at, fmt.Errorf("%w: exec %s", fs.ErrNotExist, name)
	}
	return at, nil
}

func makeExec(c call, name string) error {
	if len(name) > 255 || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("%w: exec name %q", fs.ErrInvalid, name)
	}
	return c.At.a.add(name)
}

func dropExec(c call, name string) error { return c.At.a.remove(name) }

func readErr(c call) (string, error) {
	switch {
	case c.At.c != nil:
		return c.At.c.last.Text(), nil
	case c.At.t != nil:
		return c.At.t.last.Text(), nil
	}
	return c.At.a.last.Text(), nil
}

func readCmd(c call) (string, error)      { return c.At.c.cmd(), nil }
func readStatus(c call) (string, error)   { return c.At.c.status(), nil }
func readSettings(c call) (string, error) { return c.At.c.settings(), nil }
func stdoutSize(c call) uint64            { return uint64(c.At.c.stdout.Size()) }
func stderrSize(c call) uint64            { return uint64(c.At.c.stderr.Size()) }
func consSize(c call) uint64              { return c.At.a.cons.size() }

func openStdin(c call, flags int) (fs.Handle, error) {
	c.At.c.stdin.open(c.At.from)
	return &stdinHandle{in: c.At.c.stdin, from: c.At.from}, nil
}

func openStdout(c call, flags int) (fs.Handle, error) {
	return c.At.c.stdout.open(flags&syscall.O_NONBLOCK != 0), nil
}

func openStderr(c call, flags int) (fs.Handle, error) {
	return c.At.c.stderr.open(flags&syscall.O_NONBLOCK != 0), nil
}

func openWait(c call, flags int) (fs.Handle, error) {
	return &waitHandle{c: c.At.c, nonblock: flags&syscall.O_NONBLOCK != 0}, nil
}

func openCons(c call, flags int) (fs.Handle, error) { return c.At.a.cons.open(flags, c.At.from) }

func mountRoot(c call) (fs.Node, error) { return c.At.a.root.Root(), nil }
