package profiles

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"hutch/fs"
	"hutch/profiles/reference"
)

// masked stands where a secret would.
const masked = "***"

// Show tells what a profile says of each key, sorted by the keys: a line with
// the key, whose layer says it, in which file and line, whether others may say
// it otherwise, and the value. Secrets are masked. If the files do not parse
// it is what they meant before.
func (s *Store) Show(name string) (string, error) {
	p, err := s.Get(name)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	l := s.load(p.Name).sum
	s.mu.Unlock()
	if l == nil { // of a default profile that never parsed
		if p, l, err = parseKept(p.Name, builtin); err != nil {
			return "", err
		}
	}
	show := shown{l: l, file: p.Name + suffix, secrets: p.Secrets()}
	show.table(nil, l.table)
	show.builtin()
	show.locked()
	slices.Sort(show.lines)
	return strings.Join(show.lines, ""), nil
}

// shown are the lines that show a profile.
type shown struct {
	l       *layered
	file    string // of the profile itself
	secrets []string
	lines   []string
}

// table shows all that is in the table at.
func (s *shown) table(at key, table map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(table)) {
		at := at.with(name)
		if inner, ok := table[name].(map[string]any); ok {
			s.table(at, inner)
			continue
		}
		from := s.l.where(at)
		value := literal(table[name])
		if text, _ := table[name].(string); s.isSecret(at, value) && !reference.Is(text) {
			value = quote(masked)
		}
		s.line(at, from.layer, s.place(from), s.state(at), value)
	}
}

// builtin shows what holds of machines where nobody says anything.
func (s *shown) builtin() {
	for k := range configKeys {
		if _, said := s.l.table[k.Name]; k.In&InProfile == 0 || k.Default == "" || said {
			continue
		}
		at, value := key{k.Name}, quote(k.Default)
		if k.kind == isCount {
			value = k.Default
		}
		s.line(at, ofBuiltin, "-", s.state(at), value)
	}
}

// locked shows the locks of what is not said, and what values are forbidden.
func (s *shown) locked() {
	for i := range s.l.locks {
		k := &s.l.locks[i]
		table := s.l.tableAt(k.path[:len(k.path)-1])
		_, said := table[k.path[len(k.path)-1]]
		switch {
		case k.operation == "forbid" && k.value != nil:
			s.line(k.path, k.layer, s.place(k.place), stateOf(k), literal(k.value))
		case !said && k.operation != "editable" && BuiltIn.value(k.path) == "":
			s.line(k.path, k.layer, s.place(k.place), stateOf(k), "-")
		}
	}
}

// value returns what a layer says of the key of a path, "" if it is not one of
// machines.
func (l Layer) value(path key) string {
	k := FindKey(path.String())
	if k == nil || k.In&InConfig == 0 {
		return ""
	}
	return l.Config.Value(k.Name)
}

func (s *shown) line(at key, layer, place, state, value string) {
	s.lines = append(s.lines, fmt.Sprintf("%s %s %s %s %s\n", fs.QuoteLine(at.String()), cmp.Or(layer, "kept"), place, state, value))
}

// place returns a file and a line of it as one word.
func (s *shown) place(p place) string {
	if p.layer == ofKept || p.file == ofBuiltin {
		return "-"
	}
	return fs.QuoteLine(cmp.Or(p.file, s.file)) + ":" + strconv.Itoa(p.line)
}

// state says whether others may say something else of the key at.
func (s *shown) state(at key) string {
	for i := range s.l.locks {
		if k := &s.l.locks[i]; k.path.starts(at) && !(k.operation == "forbid" && k.value != nil) {
			return stateOf(k)
		}
	}
	return "open"
}

func stateOf(k *lock) string {
	if k.operation == "forbid" {
		return "forbidden"
	}
	return "locked"
}

// isSecret tells whether the value of the key at is not to be shown.
func (s *shown) isSecret(at key, value string) bool {
	if len(at) > 2 && at[0] == "mcpServers" && slices.Contains([]string{"bearer_token", "headers", "env"}, at[2]) {
		return true
	}
	if k := at.String(); k == "storage.s3.access_key" || k == "storage.s3.secret_key" {
		return true
	}
	return slices.ContainsFunc(s.secrets, func(secret string) bool { return !isShort(secret) && strings.Contains(value, secret) })
}

// literal returns a value as TOML writes it.
func literal(v any) string {
	switch v := v.(type) {
	case string:
		return quote(v)
	case []any:
		var words []string
		for _, e := range v {
			words = append(words, literal(e))
		}
		return "[" + strings.Join(words, ", ") + "]"
	case map[string]any:
		var words []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			words = append(words, key{name}.String()+" = "+literal(v[name]))
		}
		return "{" + strings.Join(words, ", ") + "}"
	}
	return fmt.Sprint(v)
}
