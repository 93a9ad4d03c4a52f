package profiles

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"hutch/mcpd/policy"
)

// mostNames is how many names Changes tells of a kind.
const mostNames = 8

// Changes tells what became of a profile when it became another: a short line
// that says which servers, rules, capabilities, other keys that hold at once and
// locks came (+), went (-) and changed (~), what is decided now where nothing else
// decides, in which mode, and what holds at the next start only. It is "" if none of that did.
func Changes(was, is *Profile) string {
	var words []string
	for _, kind := range []struct {
		name    string
		was, is map[string]any
	}{
		{"servers", was.servers(), is.servers()},
		{"rules", was.rules(), is.rules()},
		{"capabilities", was.capabilities(), is.capabilities()},
		{"keys", was.atOnce(), is.atOnce()},
		{"locks", was.locked(), is.locked()},
	} {
		if names := changed(kind.was, kind.is); len(names) > 0 {
			words = append(words, kind.name+" "+strings.Join(names, " "))
		}
	}
	if before, now := cmp.Or(was.Security.Default, policy.Allow), cmp.Or(is.Security.Default, policy.Allow); before != now {
		words = append(words, "default "+now)
	}
	if before, now := cmp.Or(was.Security.Mode, policy.Enforce), cmp.Or(is.Security.Mode, policy.Enforce); before != now {
		words = append(words, "mode "+now)
	}
	if keys := waiting(was, is); len(keys) > 0 {
		words = append(words, "not before the next start "+strings.Join(keys, " "))
	}
	return strings.Join(words, ", ")
}

// waiting returns the keys that differ and hold from the next start on.
func waiting(was, is *Profile) (keys []string) {
	if !maps.Equal(was.Env, is.Env) {
		keys = append(keys, "env")
	}
	for k := range configKeys {
		if was.Config.Value(k.Name) != is.Config.Value(k.Name) {
			keys = append(keys, k.Name)
		}
	}
	return keys
}

func (p *Profile) servers() map[string]any {
	all := make(map[string]any)
	for _, s := range p.Servers {
		all[s.Name] = s
	}
	return all
}

func (p *Profile) rules() map[string]any {
	all := make(map[string]any)
	for _, r := range p.Security.Rules {
		all[r.ID] = r
	}
	return all
}

func (p *Profile) capabilities() map[string]any {
	all := make(map[string]any)
	for _, c := range p.Security.Capabilities {
		all[c.Name] = c
	}
	return all
}

// locked returns what is locked, by the operation and the path.
func (p *Profile) locked() map[string]any {
	all := make(map[string]any)
	for _, k := range p.locks {
		all[k.operation+":"+k.path.String()] = k.value
	}
	return all
}

// atOnce returns the values that are said of keys which hold from a reload on,
// but for those that Changes tells of by themselves.
func (p *Profile) atOnce() map[string]any {
	all := make(map[string]any)
	for _, k := range Keys {
		section, _, inTable := strings.Cut(k.Name, ".")
		switch {
		case !inTable || k.In != InProfile || k.same != "" || strings.Contains(k.Name, "NAME") || section == "import":
			continue
		case k.Name == "security.default" || k.Name == "security.mode":
			continue
		}
		if v := reflect.ValueOf(k.field(target{p: p, c: &p.Config})).Elem(); !v.IsZero() {
			all[k.Name] = v.Interface()
		}
	}
	return all
}

// changed names what came, went and changed, in this order.
func changed(was, is map[string]any) []string {
	var came, went, other []string
	for _, name := range slices.Sorted(maps.Keys(is)) {
		before, known := was[name]
		switch {
		case !known:
			came = append(came, "+"+name)
		case !reflect.DeepEqual(before, is[name]):
			other = append(other, "~"+name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if _, still := is[name]; !still {
			went = append(went, "-"+name)
		}
	}
	names := slices.Concat(came, went, other)
	if n := len(names) - mostNames; n > 0 {
		names = append(names[:mostNames], fmt.Sprintf("and %d more", n))
	}
	return names
}
