package profiles

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"hutch/aggd/rawjson"
)

// jsonSuffix ends the name of a file in the form of other programs.
const jsonSuffix = ".json"

// maxDepth is how deep what a client's file says of servers may be.
const maxDepth = 32

// maxValues is how many values what it says of them may have.
const maxValues = 10_000

// clientNames are what clients call keys of servers that we call otherwise;
// those that say nothing of a server's meaning are "".
var clientNames = map[string]string{
	"httpUrl": "url", "serverUrl": "url", "includeTools": "allowed_tools", "excludeTools": "blocked_tools",
	"trust": "", "description": "", "autoApprove": "", "alwaysAllow": "",
}

// readJSON returns what a file in the form of AI clients says of servers. It
// may have comments. Its errors are faults.
func readJSON(at place, text []byte) (*document, error) {
	text = rawjson.Plain(text)
	d := &document{place: at, table: make(map[string]any), lines: make(map[string]int)}
	r := jsonReader{liner: liner{text: text, line: 1}, d: json.NewDecoder(bytes.NewReader(text)), lines: d.lines}
	r.d.UseNumber()
	if err := r.top(d.table); err != nil {
		f := &fault{at: at, text: err.Error()}
		f.at.line = r.here()
		return nil, f
	}
	d.others = r.others
	if err := d.clientNames(); err != nil {
		return nil, err
	}
	return d, d.sameNames()
}

// A jsonReader reads JSON and remembers the lines of its keys.
type jsonReader struct {
	liner
	d     *json.Decoder
	lines map[string]int
	n     int // how many values were read

	others []string // names beside that of the servers
}

// here returns the line where the reader is.
func (r *jsonReader) here() int { return r.at(int(r.d.InputOffset())) }

// top reads the servers of a file, which may say much else.
func (r *jsonReader) top(table map[string]any) error {
	if t, err := r.d.Token(); err != nil || t != json.Delim('{') {
		return errors.Join(errors.New(`is no JSON object: write {"mcpServers": {…}}`), err)
	}
	for r.d.More() {
		name, err := r.name(nil)
		if err != nil {
			return err
		}
		if name != "mcpServers" {
			var other json.RawMessage
			if err := r.d.Decode(&other); err != nil {
				return err
			}
			r.others = append(r.others, name)
			continue
		}
		if table[name], err = r.value(key{name}); err != nil {
			return err
		}
	}
	if _, err := r.d.Token(); err != nil {
		return err
	}
	if r.d.More() {
		return errors.New("there is more after the JSON object")
	}
	return nil
}

// name reads the name of a member of the object at.
func (r *jsonReader) name(at key) (string, error) {
	t, err := r.d.Token()
	if err != nil {
		return "", err
	}
	name, ok := t.(string)
	if !ok {
		return "", errors.New("has a name that is no text")
	}
	r.lines[at.with(name).String()] = r.here()
	return name, nil
}

// value reads the value of the key at. A null says nothing.
func (r *jsonReader) value(at key) (any, error) {
	switch r.n++; {
	case len(at) > maxDepth:
		return nil, fmt.Errorf("is deeper than %d", maxDepth)
	case r.n > maxValues:
		return nil, fmt.Errorf("says more than %d things of servers", maxValues)
	}
	t, err := r.d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Number:
		if n, err := strconv.ParseInt(string(t), 10, 64); err == nil {
			return n, nil
		}
		n, err := t.Float64()
		return n, err
	case json.Delim:
		if t == '{' {
			return r.object(at)
		}
		return r.list(at)
	}
	return t, nil
}

func (r *jsonReader) object(at key) (map[string]any, error) {
	table := make(map[string]any)
	for r.d.More() {
		name, err := r.name(at)
		if err != nil {
			return nil, err
		}
		v, err := r.value(at.with(name))
		if err != nil {
			return nil, err
		}
		if delete(table, name); v != nil {
			table[name] = v
		}
	}
	_, err := r.d.Token()
	return table, err
}

func (r *jsonReader) list(at key) ([]any, error) {
	list := []any{}
	for r.d.More() {
		v, err := r.value(at.with(""))
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := r.d.Token()
	return list, err
}

// clientNames has servers say by our names what clients say by others.
func (d *document) clientNames() error {
	servers, _ := d.table["mcpServers"].(map[string]any)
	for name, v := range servers {
		server, _ := v.(map[string]any)
		at := key{"mcpServers", name}
		if n, ok := server["timeout"].(int64); ok { // milliseconds, of a call
			server["timeout"] = fmt.Sprintf("%dms", n)
			if err := d.rename(server, at, "timeout", "call_timeout"); err != nil {
				return err
			}
		}
		for theirs, ours := range clientNames {
			if err := d.rename(server, at, theirs, ours); err != nil {
				return err
			}
		}
	}
	return nil
}

// rename has the server at say by one name what it says by another; by none if
// that is "".
func (d *document) rename(server map[string]any, at key, from, to string) error {
	v, ok := server[from]
	if !ok {
		return nil
	}
	delete(server, from)
	if to == "" {
		return nil
	}
	if _, said := server[to]; said {
		return d.fault(at.with(from).faultf("%s says the same: remove one", to))
	}
	server[to] = v
	d.lines[at.with(to).String()] = d.at(at.with(from)).line
	return nil
}
