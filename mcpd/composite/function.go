package composite

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"text/template"
)

// The functions that a template's tree is made to call, and nobody else may.
const (
	showName  = "_show"
	rangeName = "_range"
)

const perUnit = 16 // bytes that are a unit of work

// functions are those of text/template that can be bounded, and ToolHive's json,
// fromJson and quote. A row without one of ours takes constant time in text/template.
var functions = []struct {
	name string
	of   func(m *meter) any
}{
	{"and", nil},
	{"or", nil},
	{"not", nil},
	{"len", nil},
	{"slice", nil},
	{"index", func(m *meter) any { return m.index }},
	{"eq", func(m *meter) any { return m.eq }},
	{"ne", func(m *meter) any { return m.ne }},
	{"lt", func(m *meter) any { return m.order(func(c int) bool { return c < 0 }) }},
	{"le", func(m *meter) any { return m.order(func(c int) bool { return c <= 0 }) }},
	{"gt", func(m *meter) any { return m.order(func(c int) bool { return c > 0 }) }},
	{"ge", func(m *meter) any { return m.order(func(c int) bool { return c >= 0 }) }},
	{"print", func(m *meter) any { return m.join(fmt.Sprint) }},
	{"println", func(m *meter) any { return m.join(fmt.Sprintln) }},
	{"printf", func(m *meter) any { return m.printf }},
	{"html", func(m *meter) any { return m.join(template.HTMLEscaper) }},
	{"js", func(m *meter) any { return m.join(template.JSEscaper) }},
	{"urlquery", func(m *meter) any { return m.join(template.URLQueryEscaper) }},
	{"quote", func(m *meter) any { return m.quote }},
	{"json", func(m *meter) any { return m.json }},
	{"fromJson", func(m *meter) any { return m.fromJSON }},
}

// unbound has the names of all functions, for the parser.
var unbound = new(meter).bind()

func isFunction(name string) bool {
	for _, f := range functions {
		if f.name == name {
			return true
		}
	}
	return false
}

// A meter counts the work of one template.
type meter struct {
	ctx  context.Context
	left int // units
}

// bind returns the functions of a template whose work m counts.
func (m *meter) bind() template.FuncMap {
	all := template.FuncMap{showName: m.show, rangeName: m.rounds}
	for _, f := range functions {
		if f.of != nil {
			all[f.name] = f.of(m)
		}
	}
	return all
}

// spend takes units from those that are left, or says why the template ends.
func (m *meter) spend(units int) error {
	if err := context.Cause(m.ctx); err != nil {
		return err
	}
	if units > m.left {
		m.left = 0
		return stopped("the template does too much work")
	}
	m.left -= units
	return nil
}

// show makes the text of what an action gives; source is the action.
func (m *meter) show(source string, v any) (string, error) {
	if v == nil {
		return "", &stop{text: fmt.Sprintf(`{{%.64s}} has no value: write {{or .x ""}} in place of {{.x}} where it may have none`, source), none: true}
	}
	return m.text(v)
}

// rounds pays for the rounds of a range over v, each of a cost, and for having
// the names of an object sorted.
func (m *meter) rounds(cost int, v any) (any, error) {
	n, names := 1, 0
	switch v := v.(type) {
	case []any:
		n += len(v)
	case map[string]any:
		n += len(v)
		for name := range v {
			names += perUnit + len(name)
		}
	default:
		if i := reflect.ValueOf(v); i.CanInt() {
			n += int(max(0, min(i.Int(), MaxTemplateWork)))
		}
	}
	return v, m.spend(n*(1+cost) + names)
}

// text makes the text of a value: lists and objects are JSON.
func (m *meter) text(v any) (string, error) {
	var s string
	switch v := v.(type) {
	case nil:
		return "", stopped("what has no value has no text")
	case string:
		s = v
	case json.Number:
		s = string(v)
	case bool:
		return strconv.FormatBool(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case float64, map[string]any, []any:
		return m.json(v)
	default: // a constant of the template
		return fmt.Sprint(v), nil
	}
	return s, m.spend(1 + len(s)/perUnit)
}

// made checks what a function made.
func (m *meter) made(s string) (string, error) {
	if len(s) > MaxMade {
		return "", stopped("a function makes more than %d bytes", MaxMade)
	}
	return s, m.spend(1 + len(s)/perUnit)
}

func (m *meter) json(v any) (string, error) {
	text, err := marshal(v)
	if err != nil {
		return "", err
	}
	return m.made(string(text))
}

// fromJSON pays more than others, as what it makes takes far more room than its text.
func (m *meter) fromJSON(v any) (any, error) {
	s, err := m.text(v)
	if err != nil {
		return nil, err
	}
	if err := m.spend(len(s) / 2); err != nil {
		return nil, err
	}
	made, err := decode([]byte(s))
	if err != nil {
		return nil, stopped("fromJson of %.64q: %v", s, err)
	}
	return made, nil
}

func (m *meter) quote(v any) (string, error) {
	s, err := m.text(v)
	if err != nil {
		return "", err
	}
	return m.made(strconv.Quote(s))
}

// join returns a function that makes one text of all that it is given.
func (m *meter) join(of func(...any) string) any {
	return func(args ...any) (string, error) {
		if err := m.plain(args); err != nil {
			return "", err
		}
		return m.made(of(args...))
	}
}

// plain makes texts of all args that are lists and objects.
func (m *meter) plain(args []any) error {
	sum := 0
	for i, v := range args {
		s, err := m.text(v)
		if err != nil {
			return err
		}
		switch v.(type) {
		case map[string]any, []any:
			args[i] = s
		}
		if sum += len(s); sum > MaxMade {
			return stopped("a function is given more than %d bytes", MaxMade)
		}
	}
	return nil
}

// printf makes the text of args by a format. What of formats asks for more than
// its arguments have is not there: an argument named twice, and great widths.
func (m *meter) printf(format string, args ...any) (string, error) {
	if err := checkFormat(format); err != nil {
		return "", err
	}
	if err := m.plain(args); err != nil {
		return "", err
	}
	return m.made(fmt.Sprintf(format, args...))
}

func checkFormat(format string) error {
	if len(format) > MaxTemplate {
		return stopped("the format of printf has %d bytes, at most %d", len(format), MaxTemplate)
	}
	for {
		_, rest, ok := strings.Cut(format, "%")
		if !ok {
			return nil
		}
		verb := strings.TrimLeft(rest, "+-# 0123456789.")
		for _, digits := range strings.FieldsFunc(rest[:len(rest)-len(verb)], func(r rune) bool { return r < '0' || '9' < r }) {
			if len(digits) > MaxWidth {
				return stopped("a width in the format of printf has %d digits, at most %d", len(digits), MaxWidth)
			}
		}
		if verb != "" && (verb[0] == '*' || verb[0] == '[') {
			return stopped("printf takes no %c in its format", verb[0])
		}
		format = strings.TrimPrefix(verb, "%")
	}
}

// index finds a member of an object or a list, and in that the next.
func (m *meter) index(v any, keys ...any) (any, error) {
	for _, key := range keys {
		switch of := v.(type) {
		case map[string]any:
			name, ok := key.(string)
			if !ok {
				return nil, stopped("index: an object has no member %v", key)
			}
			if err := m.spend(1 + len(name)/perUnit); err != nil {
				return nil, err
			}
			v = of[name]
		case []any:
			i := reflect.ValueOf(key)
			if !i.CanInt() || i.Int() < 0 || i.Int() >= int64(len(of)) {
				return nil, stopped("index: a list of %d has no item %v", len(of), key)
			}
			v = of[i.Int()]
		default:
			return nil, stopped("index: %T is neither a list nor an object", v)
		}
	}
	return v, nil
}
