package runconfig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"hutch/aggd/rawjson"
)

// An Unused is a field that says something and that hutch does not act upon. It is
// kept as it is.
type Unused struct {
	Path string
	Why  string
	// Guard says that the field is to keep something from somebody, which it does
	// not here.
	Guard bool
}

func (u Unused) String() string {
	if u.Guard {
		return u.Path + ": the server is more open here than it says: " + u.Why
	}
	return u.Path + ": " + u.Why
}

// Unused returns the fields that hutch does not act upon, in the order of the text,
// and then those that mean something else here than their words say.
func (c *Config) Unused() []Unused { return c.unused }

// A walker goes over a config. It finds what hutch does not act upon and refuses
// what others would read in another way, and what holds a secret.
type walker struct {
	unused []Unused
}

// object goes over the object at a path.
func (w *walker) object(path []string, obj []byte) (fault *Fault) {
	rawjson.Walk(obj, func(name []byte, start, end int) {
		if fault != nil {
			return
		}
		fault = w.member(append(path[:len(path):len(path)], string(name)), obj[start:end])
	})
	return fault
}

func (w *walker) member(at []string, value []byte) *Fault {
	name := strings.Join(at, ".")
	if right := spelled(at); right != "" {
		return faultf(name, "is spelled %s: some readers take one for the other", right)
	}
	f := findField(at)
	if fault := checkSecrets(f, at, value); fault != nil {
		return fault
	}
	switch {
	case f == nil && at[0] == "hutch":
		return faultf(name, "is not known")
	case isNothing(value):
	case at[0] == "tools_override" && len(at) < 3 && value[0] == '{':
		return w.object(at, value)
	case f == nil && (len(at) == 1 || at[0] == "remote_auth_config" || at[0] == "header_forward"):
		w.unused = append(w.unused, Unused{Path: name, Why: "it is not known, and kept as it is"})
	case f == nil:
	case f.use == kept || f.use == guards:
		w.unused = append(w.unused, Unused{name, f.why, f.use == guards})
	case f.use == list && value[0] != '[':
		return faultf(name, "is no list")
	case f.use == list:
		w.middleware(name, value)
	case f.use == parts:
		return w.object(at, value)
	}
	return nil
}

// middleware tells of entries of the list at a path.
func (w *walker) middleware(path string, list []byte) {
	i := -1
	for entry := range rawjson.Each(list) {
		i++
		kind := rawjson.GetString(entry, "type")
		u := Unused{fmt.Sprintf("%s[%d] (%.32q)", path, i, kind), "its type is not known", true}
		for _, m := range middleware {
			if m.path == kind {
				u.Why, u.Guard = m.why, m.use == guards
			}
		}
		if u.Why != "" {
			w.unused = append(w.unused, u)
		}
	}
}

// isNothing tells of a value that says nothing: of ToolHive's fields many are
// written though they are not set.
func isNothing(value []byte) bool {
	switch string(value) {
	case "null", `""`, "0", "false", `"0001-01-01T00:00:00Z"`:
		return true
	}
	var b bytes.Buffer
	return json.Compact(&b, value) == nil && (b.String() == "{}" || b.String() == "[]")
}

// otherFilter tells of a filter of tools that stands in middleware_configs and is
// not what tools_filter says.
func (c *Config) otherFilter(s *says) []Unused {
	var all []Unused
	i := -1
	for entry := range rawjson.Each(rawjson.Get(c.text, "middleware_configs")) {
		i++
		var says struct {
			Type       string
			Parameters struct {
				Filter    []string        `json:"filter_tools"`
				Overrides json.RawMessage `json:"tools_override"`
			}
		}
		if kind := rawjson.GetString(entry, "type"); kind != "tool-filter" && kind != "tool-call-filter" {
			continue
		}
		if json.Unmarshal(entry, &says) != nil || strings.Join(says.Parameters.Filter, "\n") != strings.Join(s.Tools, "\n") {
			all = append(all, Unused{fmt.Sprintf("middleware_configs[%d] (%.32q)", i, says.Type), "write its list in tools_filter", true})
		}
	}
	return all
}
