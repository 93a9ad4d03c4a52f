package profiles

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"hutch/mcpd/policy"
)

// The layers of a profile, as people call them: whose a key is.
const (
	ofBuiltin  = "built-in"
	ofCorp     = "corp"
	ofUser     = "user"
	ofDetected = "detected"
	ofKept     = "" // of what is kept of a profile, where nobody knows any more
)

// A place is where something of a profile is said.
type place struct {
	layer string
	file  string // as people know it; "": the profile's own
	line  int
	text  int // where a value that is a text of several lines has its first
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
	texts map[string]int // of texts of several lines

	directives []directive // of corp's
	others     []string    // what else stands in a file of a client's form
}

// readTOML returns what text says, which stands at a place. Its errors are
// faults.
func readTOML(at place, text []byte) (*document, error) {
	d := &document{place: at}
	if keysOf(text) > maxKeys {
		return nil, &fault{at: at, text: fmt.Sprintf("more than %d keys", maxKeys)}
	}
	if err := toml.Unmarshal(text, &d.table); err != nil {
		return nil, syntax(err, at)
	}
	if err := bound(nil, d.table); err != nil {
		return nil, d.fault(err)
	}
	d.lines, d.texts = linesOf(text)
	if err := d.sameNames(); err != nil {
		return nil, err
	}
	return d, d.onlyCorp()
}

// maxKeys is how many keys and tables a file may have: who reads TOML compares each with
// all others of its table.
const maxKeys = 10_000

// keysOf counts the keys and tables in a text, until there are too many. What does not
// parse ends it, too: that is told of by who reads it.
func keysOf(text []byte) (n int) {
	var p unstable.Parser
	p.Reset(text)
	for n <= maxKeys && p.NextExpression() {
		n += max(1, keysIn(p.Expression()))
	}
	return n
}

// keysIn counts the keys in what is a key itself, or a value.
func keysIn(node *unstable.Node) (n int) {
	if node.Kind == unstable.KeyValue {
		node, n = node.Value(), 1
	}
	for it := node.Children(); it.Next(); {
		n += keysIn(it.Node())
	}
	return n
}

// maxKey is the length in bytes of the longest way to a value: all that lead there are
// kept.
const maxKey = 1 << 10

// bound returns the fault of a value, which stands at, in which one is too deep or has
// too long a name.
func bound(at key, value any) *fault {
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			k := at.with(name)
			if n := len(k.String()); len(k) > maxDepth || n > maxKey {
				return at.faultf("key %.64s… has %d names and %d bytes, at most %d and %d", k, len(k), n, maxDepth, maxKey)
			}
			if f := bound(k, v[name]); f != nil {
				return f
			}
		}
	case []any:
		for _, one := range v {
			if f := bound(at, one); f != nil {
				return f
			}
		}
	}
	return nil
}

// at returns where the document says the value of k or, failing that, what
// holds it.
func (d *document) at(k key) place {
	p := d.place
	p.line, p.text = 1, d.texts[k.String()]
	for n := len(k); n > 0; n-- {
		if line, ok := d.lines[k[:n].String()]; ok {
			p.line = line
			break
		}
	}
	return p
}

// linesOf returns the line on which each key and table is said first, and that
// on which its text begins if it has several. The rows of [[tables]] have
// numbers for names.
func linesOf(text []byte) (lines, texts map[string]int) {
	lines, texts = make(map[string]int), make(map[string]int)
	rows := make(map[string]int)
	var p unstable.Parser
	p.Reset(text)
	l := liner{text: text, line: 1}
	var table key
	for p.NextExpression() {
		e := p.Expression()
		here, line := key(nil), 0
		for it := e.Key(); it.Next(); {
			n := it.Node()
			if line == 0 {
				line = l.at(int(n.Raw.Offset))
			}
			here = append(here, string(n.Data))
		}
		switch e.Kind {
		case unstable.Table:
			table = here
		case unstable.ArrayTable:
			name := here.String()
			table = here.with(strconv.Itoa(rows[name]))
			here = table
			rows[name]++
		case unstable.KeyValue:
			here = append(table[:len(table):len(table)], here...)
			if first := l.firstLine(e.Value().Raw); first > 0 {
				texts[here.String()] = first
			}
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
	return lines, texts
}

// A liner finds the lines of places in a text that come one behind another.
type liner struct {
	text []byte
	seen int // how much of text line counts
	line int
}

// at returns the line of the byte at an offset, or of the end.
func (l *liner) at(offset int) int {
	offset = min(offset, len(l.text))
	l.line += bytes.Count(l.text[l.seen:offset], []byte("\n"))
	l.seen = offset
	return l.line
}

// firstLine returns the line on which a text of several lines begins, which a
// line end after its quotes is no part of; 0 for all else.
func (l *liner) firstLine(value unstable.Range) int {
	raw := l.text[value.Offset:][:value.Length]
	for _, quotes := range []string{`"""`, "'''"} {
		text, ok := bytes.CutPrefix(raw, []byte(quotes))
		switch {
		case !ok:
		case bytes.HasPrefix(bytes.TrimPrefix(text, []byte("\r")), []byte("\n")):
			return l.at(int(value.Offset)) + 1
		default:
			return l.at(int(value.Offset))
		}
	}
	return 0
}

// A layered profile is what the documents of its layers say together.
type layered struct {
	table map[string]any
	from  map[string]place // of each key and table, by its path: where it was said last
	locks []lock
}

// merge returns what documents say together: tables are merged, and of all
// else the last that is said counts, if none before has locked it. What corp's
// directives change is changed at last. Its errors are faults.
func merge(docs []*document) (*layered, error) {
	l := &layered{table: make(map[string]any), from: make(map[string]place)}
	var err error
	for _, d := range docs {
		if err = l.add(d, nil, l.table, d.table); err == nil {
			err = l.bind(d)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, d := range docs {
		for _, do := range d.directives {
			if err := l.change(d, do); err != nil {
				return nil, err
			}
		}
	}
	return l, nil
}

// add adds to a table what d says of it.
func (l *layered) add(d *document, at key, table, says map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(says)) {
		at := at.with(name)
		inner, isTable := says[name].(map[string]any)
		was, wasTable := table[name].(map[string]any)
		if !isTable || !wasTable && table[name] != nil {
			if err := l.refuse(d, at, says[name], table[name]); err != nil {
				return err
			}
		}
		place, from := d.at(at), at.String()
		if was, ok := l.from[from]; ok && isTable && wasTable {
			place.layer = was.layer // who made it has it
		}
		l.from[from] = place
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
func (l *layered) sign(p *Profile) error {
	for i := range p.Security.Rules {
		if err := l.signRule(&p.Security.Rules[i]); err != nil {
			return err
		}
	}
	for i := range p.Security.Capabilities {
		c := &p.Security.Capabilities[i]
		at, _ := parseKey(c.Name)
		c.Layer = l.owner(at)
	}
	if p.Security.Deny != nil {
		p.Security.DenyLayer = l.owner(key{"security", "deny"})
	}
	if p.Security.Cedar.Policies != nil {
		p.Security.Cedar.Layer = l.owner(key{"security", "cedar"})
	}
	if at := (key{"security", "privileged"}); p.Privileged && l.owner(at) != ofCorp {
		return at.faultf("%s: only corp's files can say it", at)
	}
	for i := range p.Servers {
		s := &p.Servers[i]
		at := l.where(key{"mcpServers", s.Name})
		s.Layer = at.layer
		switch at.layer {
		case ofCorp:
			s.Source = ofCorp
		case ofDetected:
			s.Source = at.file
		}
	}
	return nil
}

// owner returns the layer that set k. A kept profile has lost its layers, so that
// its keys count as corp's, the strictest.
func (l *layered) owner(k key) string {
	layer := l.where(k).layer
	if layer == ofKept {
		return ofCorp
	}
	return layer
}

// signRule says whose a rule is, whose priorities are as its layer's are.
func (l *layered) signRule(r *policy.Rule) error {
	at, _ := parseKey(r.ID)
	at = at.with("priority")
	_, said := l.from[at.String()]
	r.Layer = l.where(at[:len(at)-1]).layer
	switch {
	case r.Layer == ofKept && r.Priority < 0:
		r.Layer = ofCorp
	case r.Layer == ofKept:
		r.Layer = ofUser
	case r.Layer == ofCorp && !said:
		r.Priority = -policy.PriorityUsual
	case r.Layer == ofCorp && r.Priority >= policy.PriorityLists:
		return at.faultf("%s %d is not from %d to -1, as those of corp are", at, r.Priority, policy.PriorityLowest)
	case r.Layer != ofCorp && r.Priority <= policy.PriorityLists:
		return at.faultf("%s %d is not from 1 to %d: those below are corp's", at, r.Priority, policy.PriorityHighest)
	}
	return nil
}

// text returns the profile as one file, which says all priorities: it does not
// know any more which layer a rule is of.
func (l *layered) text(p *Profile) ([]byte, error) {
	for _, r := range p.Security.Rules {
		at, _ := parseKey(r.ID)
		if rule := l.tableAt(at); rule != nil {
			rule["priority"] = int64(r.Priority)
		}
	}
	return toml.Marshal(l.table)
}

// tableAt returns the table at k, nil if there is none.
func (l *layered) tableAt(k key) map[string]any { return inTable(l.table, k) }

func inTable(table map[string]any, k key) map[string]any {
	for _, name := range k {
		table, _ = table[name].(map[string]any)
	}
	return table
}
