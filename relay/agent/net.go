package agent

import (
	"fmt"
	"maps"
	"slices"
	"syscall"

	"hutch/fs"
)

// netRows declare net/: connections to the guest's ports that the host makes.
func netRows() []fs.Row[place] {
	return []fs.Row[place]{
		{Name: "tcp", Perm: 0o755, Doc: "TCP connections",
			Names: tcpNames, Enter: enterTCP, Make: makeTCP, Drop: dropTCP,
			Each: []fs.Row[place]{{Name: "NAME", Perm: 0o755, Rows: []fs.Row[place]{
				{Name: "ctl", Perm: 0o600, Doc: "connect and hang up", Verbs: tcpVerbs},
				{Name: "status", Perm: 0o400, Doc: "state, then key value lines", Read: readTCP},
				{Name: "data", Perm: 0o600, Doc: "what comes and goes; blocks", Open: openTCP},
				{Name: "err", Perm: 0o400, Doc: "the last error", Read: readErr},
			}}}},
	}
}

var tcpVerbs = []verb{
	{Name: "connect", Args: "ADDR!PORT", Min: 1, Max: 1, Doc: "connect", Do: doConnect},
	{Name: "eof", Doc: "end what is sent", Do: func(c call, _ []string) error { return c.At.t.eof() }},
	{Name: "hangup", Doc: "end the connection", Do: doHangUp},
}

func doConnect(c call, args []string) error {
	places, err := parseAddress(args[0])
	if err != nil {
		return err
	}
	return c.At.t.connect(c.Ctx, places)
}

func doHangUp(c call, _ []string) error {
	c.At.t.hangUp()
	return nil
}

func readTCP(c call) (string, error) { return c.At.t.status(), nil }

func openTCP(c call, flags int) (fs.Handle, error) {
	return &tcpHandle{c.At.t.in.open(flags&syscall.O_NONBLOCK != 0), c.At.t}, nil
}

func tcpNames(c call) ([]string, error) {
	list := &c.At.from.connections
	list.mu.Lock()
	defer list.mu.Unlock()
	return slices.Sorted(maps.Keys(list.byName)), nil
}

func enterTCP(c call, name string) (place, error) {
	list := &c.At.from.connections
	list.mu.Lock()
	defer list.mu.Unlock()
	at := c.At
	if at.t = list.byName[name]; at.t == nil {
		return at, fmt.Errorf("%w: connection %s", fs.ErrNotExist, name)
	}
	return at, nil
}

func makeTCP(c call, name string) error {
	num := c.At.a.number()
	list := &c.At.from.connections
	list.mu.Lock()
	defer list.mu.Unlock()
	switch {
	case list.closed:
		return fmt.Errorf("%w: the connection to the host is gone", fs.ErrIO)
	case list.byName[name] != nil:
		return fmt.Errorf("%w: connection %s", fs.ErrExist, name)
	case len(list.byName) >= maxTCP:
		return fmt.Errorf("%w: there are %d connections", fs.ErrNoSpace, maxTCP)
	case list.byName == nil:
		list.byName = map[string]*tcp{}
	}
	list.byName[name] = newTCP(name, num)
	return nil
}

func dropTCP(c call, name string) error {
	list := &c.At.from.connections
	list.mu.Lock()
	t := list.byName[name]
	delete(list.byName, name)
	list.mu.Unlock()
	if t == nil {
		return fmt.Errorf("%w: connection %s", fs.ErrNotExist, name)
	}
	t.drop()
	return nil
}

// close drops all connections, and has none be made.
func (l *connections) close() {
	l.mu.Lock()
	all := l.byName
	l.byName, l.closed = nil, true
	l.mu.Unlock()
	for _, t := range all {
		t.drop()
	}
}
