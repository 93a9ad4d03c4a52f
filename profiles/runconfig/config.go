package runconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"hutch/aggd/rawjson"
	"hutch/fs"
	"hutch/profiles/permission"
)

// Version is the schema_version that is read and written.
const Version = "v0.1.0"

// The limits of a config.
const (
	MaxText  = 1 << 20 // bytes
	maxDepth = 32
)

// A Config is a RunConfig. It is not changed: With and Set return others.
type Config struct {
	text   []byte
	server *Server
	unused []Unused
}

// A Fault is what is wrong with a config, with the path of the field.
type Fault = permission.Fault

func faultf(path, format string, args ...any) *Fault {
	return &Fault{Path: path, Text: fmt.Sprintf(format, args...)}
}

// ErrSecret is the error, beside others, of a text that may have a secret's value in it.
var ErrSecret = errors.New("it may hold a secret, and is kept nowhere")

// Decode reads a config. Its error wraps fs.ErrInvalid and a Fault, which does not
// tell what may be a secret; and ErrSecret where there may be one.
func Decode(text []byte) (*Config, error) {
	c := &Config{text: bytes.Clone(text)}
	fault := c.decode()
	if fault == nil {
		return c, nil
	}
	fault.Path, fault.Text = hideWords(fault.Path), hideWords(fault.Text)
	if fault.Secret || holdsSecret(c.text) {
		return nil, fmt.Errorf("%w: config: %w; %w", fs.ErrInvalid, fault, ErrSecret)
	}
	return nil, fmt.Errorf("%w: config: %w", fs.ErrInvalid, fault)
}

func (c *Config) decode() *Fault {
	if fault := checkJSON(c.text); fault != nil {
		return fault
	}
	if fault := checkVersion(rawjson.Get(c.text, "schema_version")); fault != nil {
		return fault
	}
	w := walker{}
	if fault := w.object(nil, c.text); fault != nil {
		return fault
	}
	c.unused = w.unused
	var s says
	if err := json.Unmarshal(c.text, &s); err != nil {
		return mistyped(err)
	}
	if s.Profile != nil && string(s.Profile) == "null" {
		s.Profile = nil
	}
	var fault *Fault
	if c.server, fault = s.server(); fault != nil {
		return fault
	}
	c.unused = append(c.unused, c.otherFilter(&s)...)
	if c.server.Profile != nil {
		for _, n := range c.server.Profile.Notes() {
			c.unused = append(c.unused, Unused{Path: "permission_profile." + n.Path, Why: n.Text})
		}
	}
	return nil
}

func checkJSON(text []byte) *Fault {
	switch {
	case len(text) > MaxText:
		return faultf("", "has %d bytes: at most %d", len(text), MaxText)
	case !utf8.Valid(text):
		return faultf("", "is not UTF-8")
	}
	err := rawjson.Object(text, maxDepth, func([]byte, int, int) error { return nil })
	switch {
	case errors.Is(err, rawjson.ErrType):
		return faultf("", "is no JSON object: export one with thv export")
	case err == nil:
		err = rawjson.Unique(text)
	}
	if err != nil {
		return faultf("", "cannot be read: %v", err)
	}
	return nil
}

// checkVersion takes no version for the one that there is, as ToolHive does.
func checkVersion(raw []byte) *Fault {
	if raw == nil || rawjson.IsString(raw) && slices.Contains([]string{"", Version}, rawjson.String(raw)) {
		return nil
	}
	return faultf("schema_version", "is %.32s: hutch reads %s, and cannot tell what another means by the same words", raw, Version)
}

// mistyped says which field has a value of another type.
func mistyped(err error) *Fault {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return faultf("", "cannot be read: %v", err)
	}
	return faultf(wrong.Field, "takes no %s: write %s", wrong.Value, kinds[wrong.Type.Kind()])
}

// kinds are how the values of fields are written, by what they are here.
var kinds = map[reflect.Kind]string{
	reflect.Slice: `a list, as ["a","b"]`, reflect.Map: `an object, as {"a":"b"}`, reflect.Struct: "an object", reflect.Pointer: "an object",
	reflect.String: "a text", reflect.Bool: "true or false", reflect.Int: "a whole number", reflect.Int64: "a whole number",
}

// Text returns the config as it was read, or as With and Set have made it. It is
// not to be changed.
func (c *Config) Text() []byte { return c.text }

// Server returns what the config says of the server. It is not to be changed.
func (c *Config) Server() *Server { return c.server }

// Empty returns the config that says nothing.
func Empty() *Config { return &Config{text: []byte("{}\n"), server: &Server{}} }

// With returns the config with what s says in place of what it says of the server.
// Fields that say the same stay as they are spelled, and so does all that hutch does
// not act upon.
func (c *Config) With(s *Server) (*Config, error) {
	was, err := rawjson.Encode(c.server.says())
	if err != nil {
		return nil, err
	}
	is, err := rawjson.Encode(s.says())
	if err != nil {
		return nil, err
	}
	text := c.text
	for _, f := range fields {
		path := strings.Split(f.path, ".")
		if f.use != acts || slices.Contains(path, "*") {
			continue
		}
		if value := rawjson.Get(is, path...); !bytes.Equal(rawjson.Get(was, path...), value) || f.path == "schema_version" {
			text = put(text, value, path)
		}
	}
	return Decode(c.tidy(text))
}

// DefaultGroup is the group of servers that name none.
const DefaultGroup = "default"

// InGroup returns the config with the server in a group; "": in none.
func (c *Config) InGroup(group string) (*Config, error) {
	none := ""
	switch group {
	case DefaultGroup:
		group = ""
	case "":
		none = "false"
	}
	next, err := c.Set("group", group)
	if err != nil {
		return nil, err
	}
	return next.Set("hutch.group", none)
}

// Set returns the config with another value of the field at a path, as image or
// env_vars.DEBUG. A text, a number and a flag are written as they are, lists and
// objects in JSON, and a list of one text as that text; "" takes the field away. Fields
// that hutch does not act upon can be set, too, but none that it does not know: such a
// name may be another's, misspelled.
func (c *Config) Set(path, value string) (*Config, error) {
	names := strings.Split(path, ".")
	for _, f := range fields {
		of, open := strings.CutSuffix(f.path, ".*") // whose members have any names, with dots or not
		if member, ok := strings.CutPrefix(path, of+"."); ok && open && f.use == acts {
			names = append(strings.Split(of, "."), member)
		}
	}
	if slices.Contains(names, "") {
		return nil, fmt.Errorf("%w: config: %.64q is no path of a field like image or env_vars.NAME", fs.ErrInvalid, path)
	}
	quoted := rawjson.Quote(value)
	switch {
	case !isKnown(names) && (value != "" || bytes.Equal(put(c.text, nil, names), c.text)): // one that was kept can go
		return nil, fmt.Errorf("%w: config: %s is not known%s", fs.ErrInvalid, hideWords(fmt.Sprintf("%.64q", path)), meant(names))
	case value == "":
		quoted = nil
	case isList(names) && !(strings.ContainsAny(value[:1], "[{") && json.Valid([]byte(value))):
		return Decode(c.tidy(put(c.text, slices.Concat([]byte("["), quoted, []byte("]")), names)))
	}
	next, err := Decode(c.tidy(put(c.text, quoted, names)))
	if value == "" || !json.Valid([]byte(value)) {
		return next, err
	}
	f := findField(names)
	known, nested := f != nil && f.use == acts, value[0] == '{' || value[0] == '['
	if known && err == nil || !known && !nested && err != nil { // a text it is, or one that looks like a secret
		return next, err
	}
	other, wrong := Decode(c.tidy(put(c.text, []byte(value), names)))
	switch {
	case wrong == nil:
		return other, nil
	case err != nil && nested:
		return nil, wrong // what is wrong in it
	}
	return next, err
}

// tidy indents text as ToolHive does where the config was that tidy before.
func (c *Config) tidy(text []byte) []byte {
	if bytes.Equal(text, c.text) || string(c.text) != "{}\n" && !bytes.Equal(indent(c.text), c.text) {
		return text
	}
	return indent(text)
}

func indent(text []byte) []byte {
	var b bytes.Buffer
	if json.Indent(&b, bytes.TrimSpace(text), "", "  ") != nil {
		return text
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// put returns obj with value at a path of names, and what is missing on the way; a
// nil value takes away what is there.
func put(obj, value []byte, path []string) []byte {
	name := path[0]
	child := rawjson.Get(obj, name)
	if len(path) > 1 {
		if len(child) == 0 || child[0] != '{' {
			if value == nil {
				return obj
			}
			child = []byte("{}")
		}
		value = put(child, value, path[1:])
	}
	switch {
	case value == nil:
		return rawjson.Delete(obj, name)
	case rawjson.Get(obj, name) != nil:
		return rawjson.Set(obj, value, name)
	}
	inside := rawjson.Inside(obj)
	b := append(bytes.Clone([]byte("{")), inside...)
	if len(inside) > 0 {
		b = append(b, ',')
	}
	return append(append(append(append(b, rawjson.Quote(name)...), ':'), value...), '}')
}
