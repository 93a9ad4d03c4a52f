package composite

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// sorted puts each step after those that it waits for, and else leaves them in
// their order.
func sorted(steps []*step) ([]*step, error) {
	byID := make(map[string]*step, len(steps))
	for _, s := range steps {
		if byID[s.id] != nil {
			return nil, fmt.Errorf("step %q: there are two of this id", s.id)
		}
		byID[s.id] = s
	}
	for _, s := range steps {
		if err := s.rank(byID, nil); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(steps, func(a, b *step) int { return cmp.Compare(a.level, b.level) })
	return steps, nil
}

// rank finds what the step comes after; path are the steps that wait for it.
func (s *step) rank(byID map[string]*step, path []string) error {
	if s.before != nil {
		return nil
	}
	path = append(path, s.id)
	if i := slices.Index(path, s.id); i < len(path)-1 {
		return fmt.Errorf("step %q: it waits for itself: %s", s.id, strings.Join(path[i:], " after "))
	}
	before := map[string]bool{}
	for _, id := range s.after {
		other := byID[id]
		if other == nil {
			return fmt.Errorf("step %q: dependsOn: there is no step %.64q", s.id, id)
		}
		if err := other.rank(byID, path); err != nil {
			return err
		}
		before[id] = true
		maps.Copy(before, other.before)
		s.level = max(s.level, other.level+1)
	}
	s.before = before
	return nil
}

// checkReads refuses what a template reads of a step that may not have been then,
// and of one that may be skipped or fail without leaving a default.
func checkReads(t *Tool) error {
	byID := make(map[string]*step, len(t.steps))
	for _, s := range t.steps {
		byID[s.id] = s
	}
	for _, s := range t.steps {
		for _, r := range s.reads {
			if byID[r.step] != nil && !s.before[r.step] {
				return fmt.Errorf("step %q: a template reads the step %q: add that to dependsOn", s.id, r.step)
			}
			if err := checkRead(byID, r); err != nil {
				return fmt.Errorf("step %q: %w", s.id, err)
			}
		}
	}
	if t.output == nil {
		return nil
	}
	for _, r := range t.output.reads {
		if err := checkRead(byID, r); err != nil {
			return fmt.Errorf("output: %w", err)
		}
	}
	return nil
}

func checkRead(byID map[string]*step, r read) error {
	of := byID[r.step]
	if of == nil {
		return fmt.Errorf("a template reads the step %.64q, which is not there", r.step)
	}
	certain := of.when == nil && (!of.goOn || of.inner != nil) // a forEach goes on after an item, and has an output
	if _, ok := of.defaults[r.field]; ok || r.field == "" || certain {
		return nil
	}
	return fmt.Errorf("a template reads %.64q of the step %q, which may be skipped or fail: give it defaultResults with that", r.field, of.id)
}
