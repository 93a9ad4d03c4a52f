package aggd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hutch/aggd/wire"
)

// gate returns the path of a file that is not there yet, and what makes it.
func gate(t *testing.T) (path string, open func()) {
	path = filepath.Join(t.TempDir(), "gate")
	return path, func() {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Error(err)
		}
	}
}

// TestListLate has a server fail to list its tools at first: it is not connected like
// others, and is asked again though nobody asks for the list.
func TestListLate(t *testing.T) {
	t.Parallel()
	for _, asked := range []bool{false, true} {
		path, open := gate(t)
		s := stdioServer(t, "s", "tardy", "GATE", path)
		s.Keep = true
		h := start(t, Config{}, s)
		if asked {
			if names := h.tools(); len(names) > 0 {
				t.Errorf("tools %v", names)
			}
		}
		st := h.awaitState("s", wire.Degraded)
		if !st.Connected || !strings.Contains(st.Error, "tools/list: no list yet") {
			t.Errorf("%+v", st)
		}
		open()
		if asked {
			h.told(`"method":"notifications/tools/list_changed"`)
		}
		if st := h.awaitState("s", wire.Connected); st.ToolCount != 3 || st.Error != "" {
			t.Errorf("%+v", st)
		}
	}
}

// TestListLent has a server start no other instance for a client that can more: that
// gets the list of the first at once, and is told when its own is another.
func TestListLent(t *testing.T) {
	t.Parallel()
	path, open := gate(t)
	h := start(t, Config{}, stdioServer(t, "s", "picky", "GATE", path))
	client := h.client(`{"roots":{}}`)
	if n := len(h.tools()); n != 3 {
		t.Fatalf("%d tools", n)
	}
	list := func() int { return len(wire.Tools.Items([]byte(h.ask("list_tools", `{"client":"`+client+`"}`)))) }
	for range 2 {
		if n := list(); n != 3 {
			t.Errorf("the client is given %d tools", n)
		}
	}
	if st := h.awaitState("s", wire.Degraded); !strings.Contains(st.Error, "for clients of other capabilities: initialize: the server died (exit status 6): no memory for another") {
		t.Errorf("%+v", st)
	}
	open()
	h.told(`"client":"` + client + `","server":"s","method":"notifications/tools/list_changed"`)
	if n := list(); n != 4 {
		t.Errorf("then the client is given %d tools", n)
	}
	h.awaitState("s", wire.Connected)
}

// TestListBoth asks for the list of an instance that fails before the first is there.
func TestListBoth(t *testing.T) {
	t.Parallel()
	path, _ := gate(t)
	h := start(t, Config{}, stdioServer(t, "s", "picky", "GATE", path))
	client := h.client(`{"roots":{}}`)
	if n := len(wire.Tools.Items([]byte(h.ask("list_tools", `{"client":"`+client+`"}`)))); n != 3 {
		t.Errorf("the client is given %d tools", n)
	}
}

// TestChangesJoined has a server tell of 300 changes at once.
func TestChangesJoined(t *testing.T) {
	t.Parallel()
	h := start(t, Config{}, stdioServer(t, "s", "plain"))
	h.tools()
	h.rpc("", "s", "tools/call", `{"name":"changes"}`)
	h.told(`"method":"notifications/tools/list_changed"`)
	h.told(`"method":"notifications/tools/list_changed"`) // of those that came after the first
	if n := len(h.tools()); n != 4 {
		t.Errorf("%d tools", n)
	}
	h.rpc("", "s", "tools/call", `{"name":"unusual"}`)
	more := 0
	for line := h.unasked(); !strings.Contains(line, "notifications/unusual"); line = h.unasked() {
		more++
	}
	if more > 100 {
		t.Errorf("the host was told of %d more changes", more)
	}
}

// TestGarbledTold has the answer to a call be garbled: who called is told of the line.
func TestGarbledTold(t *testing.T) {
	t.Parallel()
	h := start(t, Config{}, stdioServer(t, "s", "plain"))
	answer, id := h.post("rpc", rpcParams("", "s", "tools/call", `{"name":"broken","line":"{'id': ID, 'result': {}}"}`))
	h.awaitLog("sent what is passed over")
	h.ask("cancel", `{"id":`+id+`,"reason":"enough"}`)
	wants(t, h.await(answer), `"error":"enough; of what the server sent 1 lines were passed over, the last`, `{'id': `)
}
