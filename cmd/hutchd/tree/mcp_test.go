package tree

import (
	"strings"
	"testing"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/wire"
	"hutch/cmd/hutchd/gateway"
	"hutch/fs"
)

// The name of a directory leads back to the item, unless it was cut.
func TestItemsByDirectory(t *testing.T) {
	c := call{At: at{gw: new(gateway.Gateway)}}
	names := []string{"file_read", "one__echo", "a/b", "100%", "%2F", ".", "..", "...", " ", "ä\n", "a__b__c"}
	for _, name := range names {
		for _, list := range []catalog{tools, prompts} {
			if got := list.agentName(list.dir(c, wire.Item{Name: name})); got != name {
				t.Errorf("%q leads to %q", name, got)
			}
		}
		it := wire.Item{Server: "one", Original: name, Name: jsonrpc.URI("one", name)}
		if got := resources.agentName(resources.dir(c, it)); got != it.Name {
			t.Errorf("resource %q leads to %q", it.Name, got)
		}
	}
	if n := len(tools.dir(c, wire.Item{Name: strings.Repeat("é", fs.MaxName)})); n != fs.MaxName {
		t.Errorf("a long name has %d bytes", n)
	}
}
