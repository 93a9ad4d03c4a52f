package profiles

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// The layers of a profile, as people call them: whose a key is.
const (
	ofBuiltin = "built-in"
	ofUser    = "user"
)

// A place is where something of a profile is said.
type place struct {
	layer string
	file  string // as people know it; "": the profile's own
	line  int
}

func (p place) String() string {
	if p.file == "" {
		return fmt.Sprintf("line %d", p.line)
	}
	return fmt.Sprintf("%s, line %d", p.file, p.line)
}

// A document is what one file of a layer says.
type document struct {
	place // its first line
	table map[string]any
	lines map[string]int // of keys and tables, by their paths
}

// readTOML returns what text says, which stands at a place. Its errors are
// faults.
func readTOML(at place, text []byte) (*document, error) {
	d := &document{place: at}
	if err := toml.Unmarshal(text, &d.table); err != nil {
		return nil, syntax(err, at)
	}
	d.lines = linesOf(text)
	return d, d.sameNames()
}

// at returns where the document says the value of k or, failing that, what
// holds it.
func (d *document) at(k key) place {
	p := d.place
	p.line = 1
	for n := len(k); n > 0; n-- {
		if line, ok := d.lines[k[:n].String()]; ok {
			p.line = line
			break
		}
	}
	return p
}

// linesOf returns the line on which each key and table is said first.
func linesOf(text []byte) map[string]int {
	lines := make(map[string]int)
	var p unstable.Parser
	p.Reset(text)
	var table key
	for p.NextExpression() {
		e := p.Expression()
		here, line := key(nil), 0
		for it := e.Key(); it.Next(); {
			n := it.Node()
			if line == 0 {
				line = p.Shape(n.Raw).Start.Line
			}
			here = append(here, string(n.Data))
		}
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = here
		case unstable.KeyValue:
			here = append(table[:len(table):len(table)], here...)
		default:
			continue
		}
		for n := range here {
			name := here[:n+1].String()
			if _, ok := lines[name]; !ok {
				lines[name] = line
			}
		}
	}
	return lines
}

// A layered profile is what the documents of its layers say together.
type layered struct {
	table map[string]any
	from  map[string]place // of each key and table, by its path: where it was said last
}

// merge returns what documents say together: tables are merged, and of all
// else the last that is said counts. Its errors are faults.
func merge(docs []*document) (*layered, error) {
	l := &layered{table: make(map[string]any), from: make(map[string]place)}
	for _, d := range docs {
		if err := l.add(d, nil, l.table, d.table); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// add adds to a table what d says of it.
func (l *layered) add(d *document, at key, table, says map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(says)) {
		at := at.with(name)
		l.from[at.String()] = d.at(at)
		inner, isTable := says[name].(map[string]any)
		was, wasTable := table[name].(map[string]any)
		if !isTable {
			table[name] = says[name]
			continue
		}
		if !wasTable {
			was = make(map[string]any)
			table[name] = was
		}
		if err := l.add(d, at, was, inner); err != nil {
			return err
		}
	}
	return nil
}

// where returns where the value of k was said or, failing that, what holds it.
func (l *layered) where(k key) place {
	for n := len(k); n > 0; n-- {
		if p, ok := l.from[k[:n].String()]; ok {
			return p
		}
	}
	return place{layer: ofUser, line: 1}
}

// sign says of all that has an owner whose it is.
func (l *layered) sign(p *Profile) {
	for i, r := range p.Security.Rules {
		at, _ := parseKey(r.ID)
		p.Security.Rules[i].Layer = l.where(at).layer
	}
	for i, s := range p.Servers {
		p.Servers[i].Layer = l.where(key{"mcpServers", s.Name}).layer
	}
}

// text returns the profile as one file.
func (l *layered) text() ([]byte, error) { return toml.Marshal(l.table) }
