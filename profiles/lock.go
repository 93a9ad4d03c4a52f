package profiles

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"hutch/fs"
)

// A lock keeps lower layers from setting a key.
type lock struct {
	operation string // lock, forbid or editable
	path      key
	value     any // of forbid: what cannot be said; nil: anything. Of lock: what it is then
	reason    string
	place
}

// covers says whether the lock is about the key at.
func (k *lock) covers(at key) bool { return k.path.starts(at) || at.starts(k.path) }

// refuses says whether at cannot be v, where it was another value, or nil.
func (k *lock) refuses(at key, v, was any) bool {
	switch {
	case !k.covers(at):
		return false
	case k.operation != "forbid":
		return !reflect.DeepEqual(v, was)
	case k.value == nil:
		return true
	}
	for _, v := range elements(v) {
		if contains(k.value, v) {
			return true
		}
	}
	return false
}

// why says who refuses, by what, and why.
func (k *lock) why() string {
	text := ""
	switch k.operation {
	case "lock":
		text = fmt.Sprintf("locked by %s, which locks %s", k.layer, k.path)
		if k.value != nil {
			text += fmt.Sprintf(" to be %v", k.value)
		}
	case "forbid":
		text = fmt.Sprintf("forbidden by %s, which forbids %s", k.layer, k.path)
		if k.value != nil {
			text += fmt.Sprintf(" to be %v", k.value)
		}
	case "editable":
		text = fmt.Sprintf("locked by %s, whose [editable] leaves %s to nobody", k.layer, strings.ReplaceAll(k.path.String(), `"*"`, "NAME"))
	}
	if k.reason != "" {
		text += ": " + k.reason
	}
	return fmt.Sprintf("%s (%s)", text, k.place)
}

// refuse returns a fault if a lock keeps d from changing the key at from was to v.
// Corp's locks do not bind corp.
func (l *layered) refuse(d *document, at key, v, was any) error {
	if k := FindKey(at.String()); was == nil && k != nil && k.Default != "" && v == k.Default {
		was = v // which it was, unsaid
	}
	for i := range l.locks {
		k := &l.locks[i]
		if k.refuses(at, v, was) && !(k.layer == ofCorp && d.layer == ofCorp) {
			return d.fault(at.faultf("%s is %s", at, k.why()))
		}
	}
	return nil
}

// AdmitEnv says why a variable of a VM of the profile cannot have a value.
func (p *Profile) AdmitEnv(name, value string) error {
	var was any
	if v, ok := p.Env[name]; ok {
		was = v
	}
	for i := range p.locks {
		if lock := &p.locks[i]; lock.refuses(key{"env", name}, value, was) {
			return fmt.Errorf("%w: it is %s", fs.ErrPermission, lock.why())
		}
	}
	return nil
}

// Admit says why a VM of the profile cannot have c for its config, and which
// key is to blame.
func (p *Profile) Admit(c Config) (key string, err error) {
	for k := range configKeys {
		said := k.text(c.field(k))
		holds := k.text(p.Config.field(k))
		if holds == "" {
			holds = BuiltIn.Config.Value(k.Name)
		}
		for i := range p.locks {
			if lock := &p.locks[i]; lock.refusesConfig(k, said, holds) {
				return k.Name, fmt.Errorf("%w: %s is %s", fs.ErrPermission, k.Name, lock.why())
			}
		}
	}
	return "", nil
}

// refusesConfig says whether a config cannot say that of k, "" if it says
// nothing, where something else holds. What a lock says of a key that only
// configs have, each has to say.
func (l *lock) refusesConfig(k *Key, said, holds string) bool {
	if l.operation == "lock" && l.value != nil && !k.in(InProfile) {
		return l.covers(key{k.Name}) && cmp.Or(said, k.Default) != l.value
	}
	if l.operation == "forbid" && l.value == openSockets && k.kind == isMounts {
		list, _ := Mounts(said).List()
		return slices.ContainsFunc(list, func(m Mount) bool { return m.Sockets })
	}
	return said != "" && l.refuses(key{k.Name}, said, holds)
}
