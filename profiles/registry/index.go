package registry

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"hutch/fs"
	"hutch/profiles"
)

// An index has the entries of all sources. It does not change.
type index struct {
	entries []*Entry // sorted by name
	byName  map[string]*Entry
	taken   map[Origin]*refused // entries whose name an earlier source has
}

func newIndex(sources []*source) *index {
	x := &index{byName: map[string]*Entry{}, taken: map[Origin]*refused{}}
	for _, src := range sources {
		x.taken[src.Origin] = &refused{}
		if src.kept == nil {
			continue
		}
		for _, e := range src.kept.Entries {
			if was := x.byName[nameKey(e.Name)]; was != nil {
				x.taken[src.Origin].add(fmt.Errorf("%q: the name is that of an entry of source %s, which counts", e.Name, was.Source))
				continue
			}
			x.byName[nameKey(e.Name)] = e
			x.entries = append(x.entries, e)
		}
	}
	slices.SortFunc(x.entries, func(a, b *Entry) int { return strings.Compare(a.Name, b.Name) })
	return x
}

// near names the entries that end in name, or are called so in other case or nearly so,
// as the end of an error; "" if there are none.
func (x *index) near(name string) string {
	var list []string
	for _, e := range x.entries {
		if key := nameKey(e.Name); key == nameKey(name) || strings.HasSuffix(key, "/"+nameKey(name)) || profiles.Near(key, nameKey(name)) {
			list = append(list, e.Name)
		}
	}
	if len(list) == 0 {
		return ""
	}
	return ": did you mean " + strings.Join(list[:min(len(list), 3)], " or ") + "?"
}

// Sources returns the sources in the order in which they count, a control
// message each.
func (s *Store) Sources() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, src := range s.sources {
		fmt.Fprintf(&b, "source %s\n", src)
	}
	return b.String()
}

// Status returns what the sources have, key value lines for each, which begin with
// its name.
func (s *Store) Status() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.known()
	var b strings.Builder
	for _, src := range s.sources {
		fmt.Fprintf(&b, "source %s\nstate %s\n", src.shown(), src.state())
		if src.kept == nil {
			continue
		}
		taken := all.taken[src.Origin]
		fmt.Fprintf(&b, "entries %d\n", len(src.kept.Entries)-taken.Count)
		if !src.kept.Read.IsZero() {
			fmt.Fprintf(&b, "read %s\n", src.kept.Read.UTC().Format(time.RFC3339))
		}
		if src.kept.Passed > 0 {
			fmt.Fprintf(&b, "passed %d\n", src.kept.Passed)
		}
		out := src.kept.Refused
		fmt.Fprintf(&b, "refused %d\n", out.Count+taken.Count)
		for _, why := range slices.Concat(taken.Reasons, out.Reasons) {
			fmt.Fprintf(&b, "why %s\n", why)
		}
	}
	return b.String()
}

// state says whether a source was read: what it is now counts, not what it was.
func (src *source) state() string {
	switch {
	case src.reading != nil:
		return "reading"
	case src.err != nil:
		return "failed: " + fs.Text(src.err)
	case src.kept == nil:
		return "unread"
	}
	return "ready"
}
