package pins

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strings"

	"hutch/fs"
)

// A Verdict says whether a tool is as it was approved.
type Verdict struct {
	Held string // why it is held back; "": it is not
	News bool   // it was not held back, or not as it is now, when it was judged last
}

// judging is one call of Judge.
type judging struct {
	*server
	strict bool
	was    *book // what the file says; nil: it was not read yet
	first  []Tool
	places []int // of those in what is judged
}

// Judge judges the tools that a server lists. Those that are seen for the first
// time are approved, and that is on the disk when Judge returns, unless the
// server is strict and was listed before.
func (s *Store) Judge(name string, strict bool, tools []Tool) []Verdict {
	verdicts := make([]Verdict, len(tools))
	if s == nil || len(tools) == 0 {
		return verdicts
	}
	tools = s.shown(tools)
	j := judging{server: s.server(name), strict: strict}
	defer j.turn.Unlock()
	j.load()
	for i, t := range tools {
		sum := sum(sha256.Sum256(t.Raw))
		switch k, ok := j.pins[t.Name]; {
		case ok && k.raw == sum && j.bad == nil:
		case j.held[t.Name].raw == sum:
			verdicts[i].Held = j.held[t.Name].why
		default:
			why := j.judge(i, t, sum)
			verdicts[i] = j.verdict(t, sum, why)
		}
	}
	held, err := j.learn()
	for i, t := range j.first {
		if err != nil { // it is tried again with the next list
			verdicts[j.places[i]] = Verdict{"it cannot be remembered: " + because(err), true}
			continue
		}
		verdicts[j.places[i]] = j.verdict(t, sha256.Sum256(t.Raw), held[i])
	}
	return verdicts
}

// judge says why a tool is held back that was not found to be so before, nor not to
// be, or "".
func (j *judging) judge(i int, t Tool, sum sum) string {
	k, ok := j.pins[t.Name]
	switch {
	case j.bad != nil:
		return "what was approved of its server cannot be read: " + because(j.bad)
	case ok:
		return j.compare(t, k, sum)
	case j.strict && j.seen:
		return "it is new, and its server is strict"
	case len(t.Name) > maxName:
		return fmt.Sprintf("it cannot be remembered: its name has %d bytes, at most %d", len(t.Name), maxName)
	case len(j.pins)+len(j.first) >= maxTools:
		return fmt.Sprintf("it cannot be remembered: %d tools of its server are, and no more", maxTools)
	}
	j.first, j.places = append(j.first, t), append(j.places, i)
	return ""
}

// because returns the text of an error without the name of a file, which the guest is
// told nothing of, and which is another each time.
func because(err error) string {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		err = e.Err
	} else if e, ok := errors.AsType[*os.LinkError](err); ok {
		err = e.Err
	}
	return fs.Text(err)
}

// compare judges a tool of which something was approved.
func (j *judging) compare(t Tool, k known, sum sum) string {
	is := j.of.pin(define(t.Raw))
	if is.digest == k.digest {
		j.pins[t.Name] = known{k.digest, sum}
		return ""
	}
	if j.was == nil {
		j.was, _ = j.book() // else it is not told what changed
	}
	why := "it changed since it was approved"
	if was := j.was.pins[t.Name].text; was != nil && is.text != nil {
		if names := differ(was, is.text); len(names) > 0 { // else it was a secret
			why += ": " + strings.Join(names, ", ")
		}
	}
	return why
}

// verdict notes that a tool is held back, unless why is "".
func (j *judging) verdict(t Tool, sum sum, why string) Verdict {
	if why == "" {
		delete(j.held, t.Name)
		return Verdict{}
	}
	if len(j.held) >= maxTools {
		clear(j.held)
	}
	j.held[t.Name] = held{sum, why}
	return Verdict{why, true}
}

// learn approves the tools that are seen for the first time. It returns for each why
// it is held back; of two of one name that differ the second is.
func (j *judging) learn() ([]string, error) {
	if len(j.first) == 0 {
		return nil, nil
	}
	held := make([]string, len(j.first))
	b, err := j.book()
	for i, t := range j.first {
		is := j.of.pin(define(t.Raw))
		if was, twice := b.pins[t.Name]; !twice {
			err = errors.Join(err, b.approve(t.Name, is))
		} else if was.digest != is.digest {
			held[i] = "its server has two of that name, which differ"
		}
	}
	if err == nil {
		err = j.store(b)
	}
	return held, err
}
