package egress

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"hutch/aggd/wire"
)

// maxLine is the longest line that is taken from the proxy.
const maxLine = 256 << 10

// A run is what one process says.
type run struct {
	event func(wire.NetEvent)
	log   io.Writer
	begun map[uint64]wire.NetEvent // the requests under way; read's own until gone
	asked *asked                   // those of them that are not decided; the same
	how   string                   // the process ended
}

// read reads the lines of the process.
func (r *run) read(out io.Reader) {
	lines := wire.NewReader(out, maxLine)
	for {
		line, err := lines.Read()
		if err != nil {
			io.Copy(io.Discard, out) // of one that says what it should not
			return
		}
		var e wire.NetEvent
		if err := json.Unmarshal(line, &e); err != nil {
			fmt.Fprintf(r.log, "proxy: a line of %d bytes is no event\n", len(line))
			continue
		}
		r.asked.end(e.ID) // what follows is decided, or given up
		if e.Ended {
			delete(r.begun, e.ID)
			r.event(e)
			continue
		}
		r.begun[e.ID] = e
		if e.Asks {
			r.asked.begin(e)
		}
	}
}

// gone ends the requests that the process has left.
func (r *run) gone(how string) {
	r.how = how
	r.asked.close()
	for _, id := range slices.Sorted(maps.Keys(r.begun)) {
		e := r.begun[id]
		e.Decision, e.Reason = wire.Errored, "interrupted: nobody knows how it ended"
		e.Duration = float64(time.Since(e.Time).Microseconds()) / 1000
		r.event(e)
	}
}
