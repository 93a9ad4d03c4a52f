package profiles

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// A directive is what corp says about what others say.
type directive struct {
	operation string
	said      string // the path, as it is written
	value     any    // nil: there is none
	reason    string

	path key
	at   place
}

// operations are what directives do. Those that change something do it after
// all layers; the others hold from where they stand.
var operations = map[string]struct{ value, changes bool }{
	"add":     {value: true, changes: true},
	"remove":  {changes: true},
	"replace": {value: true, changes: true},
	"lock":    {},
	"forbid":  {},
}

// onlyCorp refuses in a file of others what only corp's can say.
func (d *document) onlyCorp() error {
	if d.layer == ofCorp {
		return nil
	}
	for _, name := range []string{"directive", "expires", "serial"} {
		if _, ok := d.table[name]; ok {
			return d.fault(key{name}.faultf("%s stands in files of corp only: remove it", name))
		}
	}
	return nil
}

// readDirectives takes the directives out of corp's document.
func (d *document) readDirectives() error {
	rows, ok := d.table["directive"].([]any)
	if said := d.table["directive"]; said != nil && !ok {
		return d.fault(key{"directive"}.want("[[directive]] and its keys below"))
	}
	delete(d.table, "directive")
	for i, row := range rows {
		at := key{"directive", fmt.Sprint(i)}
		table, ok := row.(map[string]any)
		if !ok {
			return d.fault(at.want("a table"))
		}
		do := directive{at: d.at(at)}
		err := decodeTable(target{d: &do}, table, at, ofChange)
		if err == nil {
			err = do.check(at)
		}
		if wrong, ok := err.(*fault); ok {
			return d.fault(wrong)
		}
		d.directives = append(d.directives, do)
	}
	return nil
}

// check says what is wrong with the directive that stands at.
func (do *directive) check(at key) error {
	op, ok := operations[do.operation]
	if !ok {
		return at.with("operation").faultf("operation %.64q: it is add, remove, replace, lock or forbid", do.operation)
	}
	if op.value && do.value == nil {
		return at.faultf("%s needs a value", do.operation)
	}
	var err error
	if do.path, err = parseKey(do.said); err != nil {
		return at.with("path").faultf("path %s", err)
	}
	k := keyAt(do.path)
	switch {
	case k == nil:
		return at.with("path").faultf("path %.64q is that of no key", do.said)
	case do.value != nil && !k.in(InProfile) && operations[do.operation].changes:
		return at.with("path").faultf("path %.64q is for the config of a VM alone: lock or forbid it", do.said)
	case k.kind == isMounts && do.operation == "forbid" && do.value == openSockets:
	case do.value != nil && !k.in(InProfile):
		text, ok := do.value.(string)
		if err := k.set(k.field(target{c: new(Config)}), text); err != nil || !ok {
			return at.with("value").faultf("value of %s: write a text, as a config has it", do.said)
		}
	case k.same != "" && len(do.path) == strings.Count(k.Name, ".")+1:
		return at.with("path").faultf("path %.64q is another name: write %s", do.said, k.same)
	}
	return nil
}

// keyAt returns the key at a path or, where that is a table's, one in it; nil if there
// is none.
func keyAt(path key) *Key {
	for i := range Keys {
		k := &Keys[i]
		names := strings.Split(k.Name, ".")
		inner := slices.Contains([]kind{isVariables, isHeaders, isSections, isLinesTable, isLists}, k.kind)
		if k.In == InCorp || len(path) > len(names) && !(inner && len(path) == len(names)+1) {
			continue
		}
		fits := true
		for i := range min(len(path), len(names)) {
			fits = fits && (names[i] == path[i] || names[i] == "NAME" || names[i] == "FAMILY")
		}
		if fits {
			return k
		}
	}
	return nil
}

// change does what a directive of d says to change.
func (l *layered) change(d *document, do directive) error {
	if !operations[do.operation].changes {
		return nil
	}
	last := len(do.path) - 1
	table := l.tableAt(do.path[:last])
	var was any
	if table != nil {
		was = table[do.path[last]]
	}
	switch do.operation {
	case "remove":
		list, isList := was.([]any)
		switch {
		case was == nil:
		case do.value == nil:
			delete(table, do.path[last])
		case isList:
			return l.put(d, do, slices.DeleteFunc(slices.Clone(list), func(v any) bool { return contains(do.value, v) }))
		}
		return nil
	case "add":
		list, isList := was.([]any)
		_, isTable := do.value.(map[string]any)
		switch {
		case isList:
			for _, v := range elements(do.value) {
				if !contains(list, v) {
					list = append(slices.Clip(list), v)
				}
			}
			return l.put(d, do, list)
		case was != nil && !isTable:
			return nil
		}
	case "replace":
		if table != nil {
			delete(table, do.path[last])
			delete(l.from, do.path.String())
		}
	}
	return l.put(d, do, do.value)
}

// put has the value of a directive at its path.
func (l *layered) put(d *document, do directive, v any) error {
	one := &document{place: do.at, lines: map[string]int{}}
	one.table, _ = nested(do.path, v).(map[string]any)
	for n := range do.path {
		one.lines[do.path[:n+1].String()] = do.at.line
	}
	if err := one.sameNames(); err != nil {
		return err
	}
	if _, isTable := v.(map[string]any); do.operation == "add" && isTable {
		one.table = lacking(one.table, l.table)
	}
	return l.add(one, nil, l.table, one.table)
}

// nested returns v in as many tables as there are names.
func nested(names key, v any) any {
	if len(names) == 0 {
		return v
	}
	return map[string]any{names[0]: nested(names[1:], v)}
}

// lacking returns what is in a table and not in another.
func lacking(table, other map[string]any) map[string]any {
	left := make(map[string]any)
	for name, v := range table {
		inner, isTable := v.(map[string]any)
		was, wasTable := other[name].(map[string]any)
		switch {
		case isTable && wasTable:
			left[name] = lacking(inner, was)
		case other[name] == nil:
			left[name] = v
		}
	}
	return left
}

// elements returns those of a list; what is none is one by itself.
func elements(v any) []any {
	if list, ok := v.([]any); ok {
		return list
	}
	return []any{v}
}

// contains says whether v is list or an element of it.
func contains(list, v any) bool {
	return slices.ContainsFunc(elements(list), func(e any) bool { return reflect.DeepEqual(e, v) })
}

// sections are the names that [editable] has.
func sections() []string {
	names := []string{machine}
	for _, name := range children("") {
		if k := FindKey(name); (k == nil || k.kind == isVariables) && name != "directive" {
			names = append(names, name)
		}
	}
	return names
}

// machine is the section of the keys that stand in no table.
const machine = "machine"

// sectionKeys returns the keys and tables of a section, nil if there is none
// of that name.
func sectionKeys(name string) (keys []key) {
	if !slices.Contains(sections(), name) {
		return nil
	}
	switch name {
	case machine:
	case "security":
		return []key{{name}, {"mcpServers", anyName, "hutch", "rules"}}
	default:
		return []key{{name}}
	}
	for k := range configKeys {
		if k.Name != "profile" { // which says whose sections these are
			keys = append(keys, key{k.Name})
		}
	}
	return keys
}

// bind remembers what d leaves to no one after it.
func (l *layered) bind(d *document) error {
	editable, _ := d.table["editable"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(editable)) {
		if editable[name] != false {
			continue
		}
		at := d.at(key{"editable", name})
		for _, path := range append(sectionKeys(name), key{"editable", name}) {
			l.locks = append(l.locks, lock{operation: "editable", path: path, place: at})
		}
	}
	if d.layer != ofCorp {
		return nil
	}
	l.bindRules(d)
	for _, do := range d.directives {
		if operations[do.operation].changes {
			continue
		}
		switch {
		case do.operation == "lock" && do.value != nil && FindKey(do.path.String()).in(InProfile):
			if err := l.put(d, do, do.value); err != nil {
				return err
			}
		case do.operation == "forbid":
			out := do
			out.operation = "remove"
			if err := l.change(d, out); err != nil {
				return err
			}
		}
		l.locks = append(l.locks, lock{operation: do.operation, path: do.path, value: do.value, reason: do.reason, place: do.at})
	}
	return nil
}

// bindRules locks corp's rules, so that nobody changes one a little.
func (l *layered) bindRules(d *document) {
	bind := func(holder key) {
		for _, name := range slices.Sorted(maps.Keys(inTable(d.table, holder))) {
			path := holder.with(name)
			l.locks = append(l.locks, lock{operation: "lock", path: path, reason: "it is a rule of corp", place: d.at(path)})
		}
	}
	for _, family := range slices.Sorted(maps.Keys(inTable(d.table, key{"security", "rules"}))) {
		bind(key{"security", "rules", family})
	}
	for _, server := range slices.Sorted(maps.Keys(inTable(d.table, key{"mcpServers"}))) {
		bind(key{"mcpServers", server, "hutch", "rules"})
	}
}
