package call

import (
	"io"
	"strings"
	"testing"
)

func TestWrongUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "usage: hutch-relay call [-json] [-n N [-c C] [-t D]] TOOL [JSON]\n"},
		{[]string{"local__echo", "x"}, "call: arguments are not JSON: x\n"},
	} {
		var said strings.Builder
		if status := Main(t.Context(), c.args, false, io.Discard, &said); status != 2 || said.String() != c.want {
			t.Errorf("%q: status %d, %q, want %q", c.args, status, said.String(), c.want)
		}
	}
}
