package profiles

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hutch/fs"
	"hutch/mcpd/policy"
)

// asksFile is the drop-in that has the rules which answers made.
const asksFile = "asks" + suffix

const asksHead = `# Rules that the answer "allow always" made: see asks in hutch(4). They may be
# changed and removed: then "echo reload >ctl" in the root of the tree.
`

// AddRule adds a rule to what the user says of a profile, in the drop-in
// asks.toml. The last name of r.ID says what the rule is called, if no other
// is. It fails, and changes nothing, where the profile would not parse with it
// or a layer above the user's does not let it be said.
func (s *Store) AddRule(profile string, r policy.Rule) error {
	profile = cmp.Or(profile, Default)
	if _, err := s.Get(profile); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := place{layer: ofUser, file: profile + dropInSuffix + "/" + asksFile}
	path := filepath.Join(s.dropInDir(profile), asksFile)
	text, _, err := read(path, at.file, maxText)
	if errors.Is(err, os.ErrNotExist) {
		text, err = []byte(asksHead), nil
	}
	if err != nil {
		return err
	}
	was, err := readDocument(at, text)
	if err != nil {
		return inProfile(profile, err)
	}
	text = append(text, ruleText(r, freeName(was, r.ID))...)
	is, err := readDocument(at, text)
	if err != nil {
		return inProfile(profile, err)
	}
	docs, err := s.documents(newLook(s.now()), profile)
	if err != nil {
		return err
	}
	docs = slices.DeleteFunc(docs, func(d *document) bool { return d.file == at.file })
	if _, _, err := build(profile, append(docs, is)); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return fs.WriteFile(path, text, true)
}

// freeName returns a name for a rule that none of d has, like the last of id.
func freeName(d *document, id string) string {
	at, _ := parseKey(id)
	like := "rule"
	if len(at) > 0 {
		like = at[len(at)-1]
	}
	name := like
	for i := 2; ; i++ {
		if _, taken := d.lines[key{"security", "rules", "asks", name}.String()]; !taken {
			return name
		}
		name = fmt.Sprintf("%s-%d", like, i)
	}
}

// ruleText returns a rule as TOML.
func ruleText(r policy.Rule, name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n[%s]\n", key{"security", "rules", "asks", name})
	for _, k := range []struct{ name, value string }{
		{"on", r.On}, {"if", r.If}, {"decision", r.Decision}, {"answers", r.Answers}, {"reason", r.Reason},
	} {
		if k.value != "" {
			fmt.Fprintf(&b, "%s = %s\n", k.name, quote(k.value))
		}
	}
	if r.Priority != 0 {
		fmt.Fprintf(&b, "priority = %d\n", r.Priority)
	}
	return b.String()
}
