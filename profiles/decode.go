package profiles

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"hutch/aggd/wire"
)

// A fault is what is wrong with a profile and where.
type fault struct {
	key  key
	down int // lines below the first of the key's text
	at   place
	text string
}

func (f *fault) Error() string {
	return fmt.Sprintf("%s: %s", f.at, strings.Join(strings.Fields(f.text), " "))
}

// want is the fault of a value of the wrong kind.
func (k key) want(what string) *fault { return k.faultf("%s: write %s", k, what) }

func (k key) faultf(format string, a ...any) *fault {
	return &fault{key: k, text: fmt.Sprintf(format, a...)}
}

// decode reads what the layers say of p. Its errors are faults.
func (l *layered) decode(p *Profile) error {
	err := decodeTable(target{c: &p.Config, p: p}, l.table, nil, "")
	if err == nil {
		err = l.sign(p)
	}
	if err == nil {
		err = p.Storage.check()
	}
	if err == nil {
		err = p.compile()
	}
	p.locks = l.locks
	var wrong *fault
	if errors.As(err, &wrong) {
		wrong.at = l.where(wrong.key)
		if wrong.down > 0 && wrong.at.text > 0 {
			wrong.at.line = wrong.at.text + wrong.down
		}
	}
	return err
}

// syntax returns the fault that the TOML decoder found in a file.
func syntax(err error, at place) *fault {
	f := &fault{at: at, text: strings.TrimPrefix(err.Error(), "toml: ")}
	f.at.line = 1
	var bad *toml.DecodeError
	if errors.As(err, &bad) {
		f.at.line, _ = bad.Position()
		if k := bad.Key(); len(k) > 0 {
			f.text = strings.Join(k, ".") + ": " + f.text
		}
	}
	return f
}

// decodeTable sets what the table at says, which Keys calls name and a dot.
func decodeTable(t target, table map[string]any, at key, name string) error {
	known := children(name)
	for _, child := range slices.Sorted(maps.Keys(table)) {
		if !slices.Contains(known, child) {
			return unknown(at.with(child), known)
		}
	}
	for _, child := range known {
		v, ok := table[child]
		if !ok {
			continue
		}
		if err := decodeValue(t, v, at.with(child), name+child); err != nil {
			return err
		}
	}
	return nil
}

func decodeValue(t target, v any, at key, name string) error {
	if k := FindKey(name); k != nil {
		return k.decode(t, v, at)
	}
	table, ok := v.(map[string]any)
	if !ok {
		return at.want("a table")
	}
	switch name + "." {
	case strings.TrimSuffix(ofServer, "NAME."):
		return decodeServers(t.p, table, at)
	case strings.TrimSuffix(ofRule, "FAMILY.NAME."):
		return decodeFamilies(t.p, table, at)
	case strings.TrimSuffix(ofServerRule, "NAME."):
		return decodeRules(t.p, table, at, ofServerRule, t.s.Name)
	case strings.TrimSuffix(ofCapability, "NAME."):
		return decodeCapabilities(t.p, table, at)
	}
	return decodeTable(t, table, at, name+".")
}

// decode sets the field of k to a value.
func (k *Key) decode(t target, v any, at key) error {
	field := k.field(t)
	switch f := field.(type) {
	case *bool:
		is, ok := v.(bool)
		if !ok {
			return at.want("true or false")
		}
		*f = is
		return nil
	case *wire.Pin:
		var ok bool
		if *f, ok = pinOf(v); !ok {
			return at.want(`true, false or "strict"`)
		}
		return nil
	case *[]string:
		var ok bool
		if *f, ok = textsOf(v); !ok {
			return at.want(`a list like ["a", "b"]`)
		}
		return k.checkList(*f, at)
	case *map[string]bool:
		table, ok := v.(map[string]any)
		if !ok {
			return at.want("a table")
		}
		*f = make(map[string]bool)
		for name, v := range table {
			if (*f)[name], ok = v.(bool); !ok {
				return at.with(name).want("true or false")
			}
			if k.kind == isSections && sectionKeys(name) == nil {
				return at.with(name).faultf("%.64q is no section: they are %s", name, strings.Join(sections(), " "))
			}
		}
		return nil
	case *any:
		*f = v
		return nil
	case *map[string]any:
		var ok bool
		if *f, ok = v.(map[string]any); !ok {
			return at.want("a table")
		}
		return nil
	case *map[string]string:
		table, ok := v.(map[string]any)
		if !ok {
			return at.want("a table")
		}
		*f = make(map[string]string)
		for name, v := range table {
			if (*f)[name], ok = v.(string); !ok {
				return at.with(name).want("a text in quotes")
			}
		}
		return k.checkTable(*f, at)
	case *map[string][]string:
		return decodeLists(f, v, at)
	}
	text, ok := k.write(v)
	if !ok {
		return at.want(k.wants())
	}
	if err := k.set(field, text); err != nil {
		return at.faultf("%s %s", at, err)
	}
	return nil
}

// pinOf returns the pin that v says, if it says one.
func pinOf(v any) (pin wire.Pin, ok bool) {
	switch v {
	case true:
		return wire.PinChanged, true
	case false:
		return wire.PinNone, true
	case string(wire.PinStrict):
		return wire.PinStrict, true
	}
	return "", false
}

// textsOf returns the texts that v is a list of, if it is one.
func textsOf(v any) (texts []string, ok bool) {
	list, ok := v.([]any)
	texts = []string{}
	for _, v := range list {
		text, isText := v.(string)
		ok = ok && isText
		texts = append(texts, text)
	}
	return texts, ok
}

// write returns v as a config would have it, if it is of the kind of k.
func (k *Key) write(v any) (text string, ok bool) {
	switch v := v.(type) {
	case string:
		return v, k.kind != isNumber && k.kind != isCount
	case int64:
		return strconv.FormatInt(v, 10), k.kind == isNumber || k.kind == isCount
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), k.kind == isNumber
	}
	return "", false
}

// wants says how a value of k is written.
func (k *Key) wants() string {
	switch k.kind {
	case isSize:
		return `a size in quotes like "512MiB"`
	case isTime:
		return `a time in quotes like "30s"`
	case isNumber, isCount:
		return "a number"
	}
	return "a text in quotes"
}

// unknown is the fault of a key that means nothing, where known could be.
func unknown(k key, known []string) *fault {
	name := k[len(k)-1]
	for _, other := range known {
		if Near(strings.ToLower(name), strings.ToLower(other)) {
			return k.faultf("unknown key %.64q: did you mean %q?", k, other)
		}
	}
	return k.faultf("unknown key %.64q: remove it; known here are %s", k, strings.Join(known, " "))
}

// Near tells whether one letter more, less or different makes b of a, or two
// that changed places.
func Near(a, b string) bool {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return len(a) <= 1 && len(b) <= 1 || len(a) == 2 && len(b) == 2 && a[0] == b[1] && a[1] == b[0]
}
