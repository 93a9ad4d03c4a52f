package timeline

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"hutch/aggd/trace"
	"hutch/fs"
	"hutch/fs/quantity"
)

// How many lines there are, unless a Query says it, and at most.
const (
	DefaultLines = 1000
	MaxLines     = 10000
)

// A Query says which events are wanted: all that it does not rule out.
type Query struct {
	Trace  string    // the id of the trace that they are part of; "": any
	Since  time.Time // zero: from the first
	Until  time.Time // zero: to the last
	Layers []string  // nil: all
	Limit  int       // how many, the newest; 0: DefaultLines
}

// Words are the messages that narrow a Query.
var Words = append([]fs.Verb[*Query]{
	{Name: "trace", Args: "ID", Min: 1, Max: 1, Doc: "what is part of that trace, a W3C trace id or traceparent", Do: narrowTrace},
	{Name: "layer", Args: "LAYER,…", Min: 1, Max: 1, Doc: "of those layers: " + strings.Join(layerNames(), " "), Do: narrowLayer},
	{Name: "until", Args: "TIME", Min: 1, Max: 1, Doc: "not newer than TIME, as for since", Do: narrowUntil},
}, Few...)

// Few are those of Words that have a meaning for logs, too.
var Few = []fs.Verb[*Query]{
	{Name: "since", Args: "TIME", Min: 1, Max: 1, Doc: "not older than TIME: so long ago, as 10m, or 2006-01-02T15:04:05Z", Do: narrowSince},
	{Name: "limit", Args: "N", Min: 1, Max: 1, Doc: fmt.Sprintf("at most N lines, %d if not said and never more than %d", DefaultLines, MaxLines), Do: narrowLimit},
}

// Narrow narrows q by a message.
func (q *Query) Narrow(words []fs.Verb[*Query], message string) error {
	return fs.Run(words, fs.Call[*Query]{Ctx: context.Background(), At: q}, message)
}

func narrowTrace(c fs.Call[*Query], args []string) error {
	id := args[0]
	if of, ok := trace.Parse(id); ok {
		id = of.ID()
	}
	if _, ok := trace.ParseID(id); !ok {
		return fmt.Errorf("%w: trace %.80q: want a W3C trace id, 32 digits 0-9a-f that are not all 0, or a traceparent", fs.ErrInvalid, args[0])
	}
	c.At.Trace = id
	return nil
}

func narrowLayer(c fs.Call[*Query], args []string) error {
	names := strings.Split(args[0], ",")
	for _, name := range names {
		if !slices.Contains(layerNames(), name) {
			return fmt.Errorf("%w: layer %.40q: there are %s", fs.ErrInvalid, name, strings.Join(layerNames(), " "))
		}
	}
	c.At.Layers = names
	return nil
}

func narrowSince(c fs.Call[*Query], args []string) (err error) {
	c.At.Since, err = moment("since", args[0])
	return err
}

func narrowUntil(c fs.Call[*Query], args []string) (err error) {
	c.At.Until, err = moment("until", args[0])
	return err
}

// moment returns the time that a word says: a time of the clock, or how long ago.
func moment(name, text string) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil && t.UTC().Year() > 1 && t.UTC().Year() < 10000 {
		return t, nil
	}
	ago, err := quantity.Time(text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: %s %.64q: want how long ago, as 90s, 10m or 8h, or a time as 2006-01-02T15:04:05Z", fs.ErrInvalid, name, text)
	}
	return time.Now().Add(-ago), nil
}

func narrowLimit(c fs.Call[*Query], args []string) error {
	n, err := strconv.ParseUint(args[0], 10, 31)
	if err != nil || n < 1 || n > MaxLines {
		return fmt.Errorf("%w: limit %.40q: want a number from 1 to %d", fs.ErrInvalid, args[0], MaxLines)
	}
	c.At.Limit = int(n)
	return nil
}
