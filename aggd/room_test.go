package aggd

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// TestMakeRoom keeps the lists that were fetched last, those that are being asked for and
// those for clients without capabilities.
func TestMakeRoom(t *testing.T) {
	a := &aggregator{cfg: Config{}.withDefaults()}
	s := &server{agg: a, ups: make(map[string]*upstream)}
	a.set.Store(&set{order: []*server{s}})
	text := bytes.Repeat([]byte("x"), maxKept/4)
	for i, client := range []string{"", "asked", "old", "b", "c", "d"} {
		u := &upstream{agg: a, client: client, lists: newLists()}
		s.ups[client] = u
		u.keep(u.lists[wire.Tools], [][]byte{text})
		if i == 1 {
			u.asking.Add(1)
		}
		a.makeRoom()
	}
	for client, u := range s.ups {
		if kept := u.kept.Load() > 0; kept != (client != "old" && client != "b") || kept != u.lists[wire.Tools].filled {
			t.Errorf("client %q: %d bytes, %v", client, u.kept.Load(), u.lists[wire.Tools].filled)
		}
	}
	u := s.ups["b"]
	u.keep(u.lists[wire.Tools], [][]byte{text})
	u.keep(u.lists[wire.Tools], [][]byte{text[1:]})
	if n := u.kept.Load(); n != cost([][]byte{text[1:]}) {
		t.Errorf("%d bytes of one list", n)
	}
}

// A listingTransport is one to a server that lists one tool, and counts how often.
type listingTransport struct {
	deafTransport
	asked int
	tools string
}

func (t *listingTransport) send(_ context.Context, _ []byte, q *call) error {
	t.asked++
	q.settle(outcome{result: []byte(`{"tools":[` + t.tools + `]}`)})
	return nil
}

// TestListDropped asks for a list that is not kept any more.
func TestListDropped(t *testing.T) {
	u, to := listing(`{"name":"x","inputSchema":{"type":"object"}}`)
	for range 3 {
		for range 2 {
			if items := u.items(t.Context(), wire.Tools); len(items) != 1 {
				t.Errorf("%d items", len(items))
			}
		}
		u.dropLists()
	}
	u.agg.tasks.Wait()
	if to.asked != 3 {
		t.Errorf("the server was asked %d times, want 3", to.asked)
	}
}

func TestListOfVeryMany(t *testing.T) {
	u, _ := listing(strings.Repeat("{},", maxItems) + "{}")
	items := u.items(t.Context(), wire.Tools)
	u.agg.tasks.Wait()
	if err := u.lists[wire.Tools].err; len(items) > 0 || err == nil || err.Error() != "tools/list: more than 100000 tools" {
		t.Errorf("%d items, %v", len(items), err)
	}
}

// TestLeftOut has a server list tools that nobody can take, and two of one name: the
// others are there, and it is told once what is not.
func TestLeftOut(t *testing.T) {
	const good, other = `{"name":"a","inputSchema":{"type":"object"}}`, `{"name":"b","inputSchema":{"type":"object"}}`
	u, _ := listing(good + `,{"name":"bad","inputSchema":null},{"name":"a","inputSchema":{"type":"object"},"title":"second"},` + other + strings.Repeat(`,{"name":"c"}`, 7))
	var log bytes.Buffer
	u.agg.cfg.Log = &log
	for range 2 {
		items := u.items(t.Context(), wire.Tools)
		u.agg.tasks.Wait()
		u.invalidate(wire.Tools)
		if len(items) != 2 || string(items[0]) != good || string(items[1]) != other {
			t.Errorf("there are %d tools: %s", len(items), items)
		}
	}
	var st wire.Status
	u.describe(definition{}, &st)
	told := strings.Join(st.LeftOut, "\n")
	for _, want := range []string{`the tool "bad" is left out: inputSchema: null is not an object`, `the tool "a" is left out: its server lists another of that name before`, "and 1 more"} {
		if strings.Count(told, want) != 1 || strings.Count(log.String(), want) != 1 {
			t.Errorf("no %q, or twice, in\n%s\nor\n%s", want, told, log.String())
		}
	}
}

// listing returns a connection to a server that lists those tools.
func listing(tools string) (*upstream, *listingTransport) {
	a := &aggregator{cfg: Config{}.withDefaults()}
	a.setLimits(wire.Limits{})
	a.set.Store(&set{})
	u := &upstream{agg: a, client: "c", lists: newLists(), state: wire.Connected, session: session{capabilities: []byte(`{"tools":{}}`)}}
	c, to := newConn(u), &listingTransport{tools: tools}
	c.transport, u.conn = to, c
	return u, to
}

func TestCompact(t *testing.T) {
	line := []byte(`[{"a":1}, {"b":2} ,3]`)
	items := compact(rawjson.Elements(line))
	copy(line, strings.Repeat("x", len(line)))
	if got := string(bytes.Join(items, []byte("|"))); got != `{"a":1}|{"b":2}|3` || cap(items[0]) != 7 {
		t.Errorf("%s, %d", got, cap(items[0]))
	}
}

// TestListTooLong leaves out what is longest of what is too long together.
func TestListTooLong(t *testing.T) {
	a := &aggregator{cfg: Config{}.withDefaults()}
	item := func(n int) [][]byte { return [][]byte{[]byte(`{"name":"x","a":"` + strings.Repeat("y", n) + `"}`)} }
	line := a.encodeParts(wire.Tools, []part{{"long", item(maxList * 2 / 3)}, {"short", item(9)}, {"middle", item(maxList / 2)}, {"endless", item(maxList)}, {"last", item(9)}})
	var names []string
	for _, it := range wire.Tools.Items([]byte("{" + string(line) + "}")) {
		names = append(names, it.Name)
	}
	if got := strings.Join(names, " "); got != "short__x middle__x last__x" || len(line) > maxList+1 {
		t.Errorf("%s, %d bytes", got, len(line))
	}
}
