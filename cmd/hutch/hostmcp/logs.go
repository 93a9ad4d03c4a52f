package hostmcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"hutch/fs"
)

const (
	logPart    = 100 << 10 // of the end of a log, if not said
	maxLogPart = 5 << 20
)

type (
	vmLogs struct {
		Logs     string `json:"logs"` // of the aggregator and the MCP servers
		Serial   string `json:"serial_logs"`
		Process  string `json:"process_logs"`
		Security string `json:"security_logs"`
	}
	logText struct {
		Name string `json:"name"`
		Logs string `json:"logs"`
		Size int64  `json:"size"` // of the whole log
	}
	rows struct {
		Rows      []json.RawMessage `json:"rows"`
		Count     int               `json:"count"`
		Truncated bool              `json:"truncated,omitempty"` // there is more
	}
)

func (c *call) vmLogs(ctx context.Context) (any, error) {
	dir := c.dir()
	var l vmLogs
	for name, to := range map[string]*string{"agg": &l.Logs, "serial": &l.Serial, "process": &l.Process, "security": &l.Security} {
		text, _, err := c.t.end(ctx, path.Join(dir, "log", name), logPart)
		if err != nil {
			return nil, err
		}
		*to = c.narrow(text)
	}
	return l, nil
}

// serviceLogs tells the end of the service's log, the only one of the host.
func (c *call) serviceLogs(ctx context.Context) (any, error) {
	text, size, err := c.t.end(ctx, "log/service", cmp.Or(c.args.number("maxBytes"), logPart))
	if err != nil {
		return nil, err
	}
	return logText{"service", c.narrow(text), size}, nil
}

// narrow leaves of a log what grep and tail say.
func (c *call) narrow(text string) string {
	var kept []string
	grep := strings.ToLower(c.args.text("grep"))
	for line := range strings.Lines(text) {
		if strings.Contains(strings.ToLower(line), grep) {
			kept = append(kept, line)
		}
	}
	if c.args.has("tail") {
		kept = kept[max(0, len(kept)-c.args.number("tail")):]
	}
	return strings.ToValidUTF8(strings.Join(kept, ""), "\uFFFD")
}

// end reads the end of a log, from the start of a line, and tells how long the
// whole is.
func (t *tree) end(ctx context.Context, name string, limit int) (string, int64, error) {
	f, err := t.open(ctx, name, os.O_RDONLY)
	if err != nil {
		return "", 0, err
	}
	defer f.close()
	st, err := f.f.Stat(ctx)
	if err != nil {
		return "", 0, t.failed(ctx, "stat", name, err)
	}
	size := int64(st.Size)
	f.off = max(0, size-int64(limit))
	cut := f.off > 0
	text, err := f.part(ctx, size-f.off)
	if err != nil {
		return "", 0, err
	}
	if cut {
		_, text, _ = bytes.Cut(text, []byte{'\n'})
	}
	return string(text), size, nil
}

// A narrowing is a parameter that a file of JSON lines takes as a message.
type narrowing struct{ param, verb string }

// asked writes what narrows a file of JSON lines, and reads them.
func (c *call) asked(ctx context.Context, name string, narrow []narrowing) (rows, error) {
	var messages []string
	for _, n := range narrow {
		switch v := c.args[n.param].(type) {
		case string:
			messages = append(messages, n.verb+" "+fs.Quote(v))
		case int, float64:
			messages = append(messages, n.verb+" "+strconv.Itoa(c.args.number(n.param)))
		case []any:
			if words := c.args.texts(n.param); len(words) > 0 {
				messages = append(messages, n.verb+" "+fs.Quote(strings.Join(words, ",")))
			}
		}
	}
	return c.rows(ctx, name, messages)
}

// maxRows is the most of JSON lines that a call gives, in bytes.
const maxRows = 1 << 20

// rows writes messages to a file and reads the JSON lines that it answers.
func (c *call) rows(ctx context.Context, name string, messages []string) (r rows, err error) {
	f, err := c.t.open(ctx, name, os.O_RDWR)
	if err != nil {
		return r, err
	}
	defer f.close()
	for _, m := range messages {
		if err := f.tell(ctx, m); err != nil {
			return r, err
		}
	}
	f.off = 0
	text, err := f.part(ctx, maxRows+1)
	if err != nil {
		return r, err
	}
	if r.Truncated = len(text) > maxRows; r.Truncated {
		text = text[:bytes.LastIndexByte(text[:maxRows], '\n')+1]
	}
	r.Rows, err = lines(string(text))
	r.Count = len(r.Rows)
	return r, err
}

func (c *call) timeline(ctx context.Context) (any, error) {
	return c.asked(ctx, c.dir()+"/timeline", []narrowing{{"traceId", "trace"}, {"since", "since"}, {"layers", "layer"}, {"limit", "limit"}})
}

var recent = []narrowing{{"since", "since"}, {"limit", "limit"}}

// panics lists crashes of the service, which are of no sandbox.
func (c *call) panics(ctx context.Context) (any, error) { return c.asked(ctx, "log/panics", recent) }

// triage lists what went wrong, of one sandbox where the call says one.
func (c *call) triage(ctx context.Context) (any, error) {
	id := c.args.text("id")
	if id == "" {
		return c.asked(ctx, "log/triage", recent)
	}
	r, err := c.asked(ctx, "log/triage", recent[:1]) // the newest of the one are not among the newest of all
	if err != nil {
		return nil, err
	}
	r.Rows = slices.DeleteFunc(r.Rows, func(row json.RawMessage) bool {
		var of struct{ VM string }
		return json.Unmarshal(row, &of) != nil || of.VM != id
	})
	r.Rows = r.Rows[max(0, len(r.Rows)-c.args.number("limit")):]
	r.Count = len(r.Rows)
	return r, nil
}

func (c *call) inspect(ctx context.Context) (any, error) {
	return c.rows(ctx, c.dir()+"/db/query", []string{c.args.text("sql")})
}

type schema struct {
	Schema string `json:"schema"`
}

// inspectSchema tells the tables of a sandbox's records, which are those of
// any other, too.
func (c *call) inspectSchema(ctx context.Context) (any, error) {
	file := "db/schema"
	names, err := c.t.folders(ctx, "vm")
	if err != nil {
		return nil, err
	}
	if len(names) > 0 {
		file = path.Join("vm", names[0], file)
	}
	text, err := c.t.text(ctx, file)
	return schema{text}, err
}
