package profiles

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hutch/fs"
)

// maxExtends is how many profiles another may be made of, one of the other.
const maxExtends = 8

// documents returns what the files of a profile say, and those of the profiles
// that it extends: what counts least comes first.
func (s *Store) documents(l *look, name string) ([]*document, error) {
	all, err := s.corpOf(l, forAll)
	if err != nil {
		return nil, inProfile(name, err)
	}
	var corps, users []*document
	chain := []string{name}
	for {
		of := chain[len(chain)-1]
		corp, err := s.corpOf(l, of)
		if err != nil {
			return nil, inProfile(name, err)
		}
		own, err := s.own(l, of, of == name, len(corp) > 0)
		if err != nil {
			return nil, inProfile(name, err)
		}
		corps, users = append(corp, corps...), append(own, users...)
		parent, d := extends(slices.Concat(corp, own))
		if parent == "" {
			return slices.Concat(all, corps, users), nil
		}
		wrong := ""
		switch {
		case checkName(parent) != nil:
			wrong = "is no name of a profile"
		case slices.Contains(chain, parent):
			wrong = "is made of this one: extend another"
		case len(chain) > maxExtends:
			wrong = fmt.Sprintf("is one too many: a profile is made of %d others at most", maxExtends)
		case !s.exists(l, parent):
			wrong = "does not exist: see profiles, as hutch profile ls lists them"
		}
		if wrong != "" {
			return nil, faulty(name, d.fault(key{"extends"}.faultf("extends: profile %q %s", parent, wrong)))
		}
		chain = append(chain, parent)
	}
}

// exists says whether there is a profile called name.
func (s *Store) exists(l *look, name string) bool {
	return name == Default || l.note(s.path(name)) == nil || slices.Contains(s.corpNames(), name)
}

// inProfile says of a fault in which profile it is.
func inProfile(name string, err error) error {
	var wrong *fault
	if errors.As(err, &wrong) {
		return faulty(name, err)
	}
	return err
}

// extends returns the profile that documents extend, and which of them says so.
func extends(docs []*document) (parent string, by *document) {
	for _, d := range docs {
		if name, ok := d.table["extends"].(string); ok {
			parent, by = name, d
		}
	}
	return parent, by
}

// own returns what the user's own files of a profile say: NAME.toml and its
// drop-ins. In faults the first has no name if it is the profile itself. There
// may be none if corp has one.
func (s *Store) own(l *look, name string, itself, corp bool) (docs []*document, err error) {
	at := place{layer: ofUser}
	if !itself {
		at.file = name + suffix
	}
	text, err := l.read(s.path(name), name)
	absent := errors.Is(err, os.ErrNotExist)
	if absent && name == Default {
		at = place{layer: ofBuiltin, file: ofBuiltin}
		text, err, absent = builtin, nil, false
	}
	if err != nil && !(absent && corp) {
		return nil, err
	}
	if !absent {
		d, err := readDocument(at, text)
		if err != nil {
			return nil, err
		}
		docs = append(docs, d)
	}
	files, err := s.dropIns(l, name)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		at := place{layer: ofUser, file: name + dropInSuffix + "/" + file}
		text, err := l.read(filepath.Join(s.dropInDir(name), file), at.file)
		if errors.Is(err, os.ErrNotExist) {
			continue // it went meanwhile
		}
		if err != nil {
			return nil, err
		}
		d, err := readDocument(at, text)
		if err != nil {
			return nil, err
		}
		for _, name := range d.others {
			l.notes = append(l.notes, fmt.Sprintf("%s: %s means nothing in a .json, of which only mcpServers is read: say it in a .toml", at.file, fs.QuoteLine(name)))
		}
		docs = append(docs, d)
	}
	return docs, nil
}

// dropInSuffix ends the name of the folder that has a profile's drop-ins.
const dropInSuffix = ".d"

func (s *Store) dropInDir(name string) string { return filepath.Join(s.dir, name+dropInSuffix) }

// dropIns returns the names of a profile's drop-ins, in their order.
func (s *Store) dropIns(l *look, name string) (files []string, err error) {
	dir := s.dropInDir(name)
	if err := l.note(dir); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) { // it went meanwhile
		err = nil
	}
	if err != nil {
		l.again = true
		return nil, fmt.Errorf("drop-ins of profile %s: %w", name, err)
	}
	for _, e := range entries {
		ext := filepath.Ext(e.Name())
		switch err := checkName(e.Name()); {
		case (ext == suffix || ext == jsonSuffix) && err == nil:
			files = append(files, e.Name())
		case e.Name()[0] != '.' && (strings.EqualFold(ext, suffix) || strings.EqualFold(ext, jsonSuffix)):
			if err == nil {
				err = fmt.Errorf("ends in %s", ext)
			}
			l.notes = append(l.notes, fmt.Sprintf("%s does not count, as its name %v: call it something like connector.toml", fs.QuoteLine(name+dropInSuffix+"/"+e.Name()), err))
		}
	}
	return files, nil
}

// readDocument returns what the text of a file says.
func readDocument(at place, text []byte) (*document, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("%w: profile %s has more than %d bytes", fs.ErrTooLarge, strings.TrimSuffix(at.file, suffix), maxText)
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // which some editors put before all
	if filepath.Ext(at.file) == jsonSuffix {
		return readJSON(at, text)
	}
	return readTOML(at, text)
}
