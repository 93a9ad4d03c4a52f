package registry

import (
	"errors"
	"fmt"
	"strings"

	"hutch/aggd/rawjson"
	"hutch/fs"
)

// maxEntries is how many entries of a source are kept: the MCP registry has 50000
// names, and more each day. 200000 of them would take 1 GB of memory.
const maxEntries = 100000

// maxReasons is how many of the entries that were kept out are told of by name.
const maxReasons = 20

// A shelf is what a source has.
type shelf struct {
	Entries []*Entry `json:"entries"`
	Refused refused  `json:"refused"`
	Passed  int      `json:"passed,omitempty"` // entries of versions that are not the latest, or deleted
}

// What was refused, and why.
type refused struct {
	Count   int      `json:"count"`
	Reasons []string `json:"reasons,omitempty"`
}

func (r *refused) add(why error) {
	if r.Count++; len(r.Reasons) < maxReasons {
		r.Reasons = append(r.Reasons, fs.PlainLine(strings.Join(strings.Fields(why.Error()), " ")))
	}
}

// nameKey returns what entries of one name have in common: names that differ
// only in case would be taken for each other.
func nameKey(name string) string { return strings.ToLower(name) }

// A reader puts the entries of documents on a shelf.
type reader struct {
	shelf
	names  map[string]bool // of its entries, by nameKey
	source string          // that the entries are of
	away   bool            // the source is not of this machine
}

func newReader(source string, away bool) *reader {
	return &reader{names: map[string]bool{}, source: source, away: away}
}

// errNoRegistry is returned for a document of another kind.
var errNoRegistry = errors.New("is no registry: it has neither servers, nor a server's name with packages or remotes")

// document reads a document of one of the forms that registry.5 tells of. It
// returns the cursor of the page that follows it, or "".
func (r *reader) document(text []byte) (next string, err error) {
	if err := rawjson.Check(text); err != nil {
		return "", err
	}
	var servers, remotes, data, metadata []byte
	single := false
	rawjson.Walk(text, func(key []byte, start, end int) {
		switch value := text[start:end]; string(key) {
		case "servers":
			servers = value
		case "remote_servers":
			remotes = value
		case "data":
			data = value
		case "metadata":
			metadata = value
		case "packages", "remotes":
			single = true
		}
	})
	if servers == nil && data != nil {
		servers = rawjson.Get(data, "servers")
	}
	switch {
	case servers == nil && remotes == nil && single:
		return "", r.upstream(text)
	case servers == nil && remotes == nil && kindOf(text) == '[':
		return "", r.list(text)
	case kindOf(servers) == '[':
		next = rawjson.GetString(metadata, "nextCursor")
		if next == "" {
			next = rawjson.GetString(metadata, "next_cursor") // of v0
		}
		return next, r.list(servers)
	case kindOf(servers) == '{' || kindOf(remotes) == '{':
		return "", errors.Join(r.object(servers), r.object(remotes))
	}
	return "", errNoRegistry
}

// kindOf returns the first byte of a value, 0 of none.
func kindOf(value []byte) byte {
	for _, c := range value {
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return c
		}
	}
	return 0
}

// list reads an array of server.json.
func (r *reader) list(array []byte) error {
	for text := range rawjson.Each(array) {
		if err := r.upstream(text); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) upstream(text []byte) error {
	return r.put(text, func() (*Entry, error) { return readUpstream(text) })
}

// object reads servers in ToolHive's form.
func (r *reader) object(servers []byte) error {
	var err error
	rawjson.Walk(servers, func(key []byte, start, end int) {
		if err == nil {
			text := servers[start:end]
			err = r.put(text, func() (*Entry, error) { return readToolhive(string(key), text) })
		}
	})
	return err
}

// put puts what read makes of an entry's text on the shelf, or says why not.
func (r *reader) put(text []byte, read func() (*Entry, error)) error {
	if len(r.Entries) >= maxEntries {
		return fmt.Errorf("%w: more than %d entries", fs.ErrTooLarge, maxEntries)
	}
	e, err := r.entry(text, read)
	switch {
	case errors.Is(err, errPassed):
		r.Passed++
	case err != nil:
		r.Refused.add(err)
	default:
		r.names[nameKey(e.Name)] = true
		r.Entries = append(r.Entries, e)
	}
	return nil
}

func (r *reader) entry(text []byte, read func() (*Entry, error)) (*Entry, error) {
	if len(text) > maxEntry {
		return nil, fmt.Errorf("an entry of %d bytes: at most %d", len(text), maxEntry)
	}
	if err := rawjson.Unique(text); err != nil {
		return nil, fmt.Errorf("an entry is not clear: %w", err)
	}
	e, err := read()
	if err != nil {
		return nil, err
	}
	if err := e.check(r.away); err != nil {
		return nil, err
	}
	if r.names[nameKey(e.Name)] {
		return nil, fmt.Errorf("%.80q is there twice: the first counts", e.Name)
	}
	e.Source, e.Signature = r.source, e.signature()
	return e, nil
}
