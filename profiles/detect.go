package profiles

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hutch/fs"
)

// maxClient is the size of the largest file of a client that is read.
const maxClient = 16 << 20

// clients are the AI clients whose servers a profile can import, and their
// files below the home of the user. Of servers of one name the first counts.
var clients = map[string][]string{
	"claude": {".claude.json", ".claude/settings.json"},
	"gemini": {".gemini/settings.json"},
}

// detected returns what the clients' files that docs import say of servers that
// docs do not name, a document for each server, and why others do not count.
func (s *Store) detected(l *look, docs []*document) (found []*document, notes []string) {
	sum, err := merge(docs)
	if err != nil || s.home == "" {
		return nil, nil // which is an error of the profile
	}
	from, _ := sum.tableAt(key{"import"})["from"].([]any)
	for _, client := range from {
		name, _ := client.(string)
		for _, file := range clients[name] {
			at := place{layer: ofDetected, file: "~/" + file}
			d, err := s.client(l, at, filepath.Join(s.home, file))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				notes = append(notes, fs.Text(err))
			}
			if err != nil {
				continue
			}
			for _, one := range d.servers() {
				err := sum.takes(one)
				if err != nil {
					notes = append(notes, err.Error())
				} else if one.table != nil {
					found = append(found, one)
				}
			}
		}
	}
	return found, notes
}

// client reads a file of a client, which may be a link to it.
func (s *Store) client(l *look, at place, path string) (*document, error) {
	if err := l.note(path); err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %s leads nowhere", fs.ErrInvalid, at.file)
	}
	text, err := l.readMost(real, at.file, maxClient)
	if err != nil {
		return nil, err
	}
	if len(text) > maxClient {
		return nil, fmt.Errorf("%w: %s has more than %d bytes", fs.ErrTooLarge, at.file, maxClient)
	}
	return readJSON(at, text)
}

// servers returns a document for each server of d, which says of it only what
// means something here. It brings no rules: the least trusted layer decides nothing.
func (d *document) servers() (list []*document) {
	servers, _ := d.table["mcpServers"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		server, _ := servers[name].(map[string]any)
		if isHutch(server) {
			continue
		}
		maps.DeleteFunc(server, func(k string, _ any) bool { return FindKey(ofServer+k) == nil && k != "hutch" && k != "capsem" })
		for _, k := range []string{"hutch", "capsem"} {
			if ours, ok := server[k].(map[string]any); ok {
				delete(ours, "rules")
			}
		}
		one := &document{place: d.at(key{"mcpServers", name}), lines: d.lines}
		one.table = map[string]any{"mcpServers": map[string]any{name: servers[name]}}
		list = append(list, one)
	}
	return list
}

// isHutch says whether a server is the hutch command, as AI clients of the host
// are given it. It has the whole tree behind it: what runs in a sandbox is not
// to have that for being in the file of a client.
func isHutch(server map[string]any) bool {
	command, _ := server["command"].(string)
	args, _ := server["args"].([]any)
	return filepath.Base(command) == "hutch" && (slices.Contains(args, any("mcp")) || slices.Contains(args, any("mcp-session")))
}

// takes adds a detected server, if it is right by itself and nothing above is
// against it. One whose name is taken is left out: it says nothing then.
func (l *layered) takes(one *document) error {
	servers, _ := one.table["mcpServers"].(map[string]any)
	for name := range servers {
		if l.tableAt(key{"mcpServers"})[name] != nil {
			one.table = nil
			return nil
		}
	}
	alone, err := merge([]*document{one})
	if err == nil {
		var p Profile
		err = alone.decode(&p)
		if refs := p.References(); err == nil && len(refs) > 0 {
			err = fmt.Errorf("%w: %s: %s is a reference to a secret, which only a profile may have", fs.ErrPermission, one.place, refs[0])
		}
		if err == nil && p.onHost() {
			err = fmt.Errorf("%w: %s: sandbox = false: only a profile can have a server run on the host", fs.ErrPermission, one.place)
		}
	}
	if err == nil {
		err = l.add(one, nil, l.table, one.table)
	}
	return err
}

// NotHere explains why removing the drop-in at path does not remove its server:
// another file or layer defines it. It is nil if no such server is defined.
func (s *Store) NotHere(path string) error {
	dir, file := filepath.Split(path)
	profile, isDropIn := strings.CutSuffix(filepath.Clean(dir), dropInSuffix)
	name := strings.TrimSuffix(strings.TrimSuffix(file, suffix), jsonSuffix)
	if !isDropIn || name == file || checkName(profile) != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// To look at the files while an editor saves one would be too early.
	l := s.loaded[profile]
	if l == nil {
		l = s.load(profile)
	}
	if l.sum == nil || l.sum.tableAt(key{"mcpServers"})[name] == nil {
		return nil
	}
	at := l.sum.where(key{"mcpServers", name})
	if at.file == path {
		return nil // it was there
	}
	text := "stands in another file"
	switch at.layer {
	case ofCorp:
		text = "is corp's, and cannot be removed"
	case ofDetected:
		text = "was detected, and is removed there"
	}
	if at.file == "" {
		at.file = profile + suffix
	}
	return fmt.Errorf("%w: %s: server %s of profile %s %s (%s)", fs.ErrNotExist, path, name, profile, text, at)
}
