package clients

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"hutch/fs"
)

// A Home is the home of a user, with the files of that one's AI clients.
type Home struct {
	Dir     string // "": the user has none
	Backups string // folder for what the files were before
	Program string // path of the hutch command
	Address string // where it finds the service
}

// A Server is an MCP server that a client starts the hutch command for.
type Server struct {
	Name  string   // by which the client calls it
	Words []string // of the command: hutch -s ADDRESS WORDS...
}

// A Status tells of a client.
type Status struct {
	Here    bool      // the client is there
	File    string    // path of its file, there or not
	Real    string    // where a link leads that is in its place; "": it is none
	Format  string    // json, toml or yaml
	Servers []Server  // of this service, in order of their names
	Backup  time.Time // since when Restore has something to put back; zero: it has not

	TakenOut bool // a restore took hutch's servers out of a file that others had changed

	Err error // why the file cannot be read or changed
}

// check says why no files of the home are to be touched: it is another user's.
func (h *Home) check() error {
	if h.Dir == "" {
		return fmt.Errorf("%w: the service has no home folder, so no AI clients: start one as the user whose they are", fs.ErrUnsupported)
	}
	info, err := os.Stat(h.Dir)
	if err != nil {
		return err
	}
	if !own(info) {
		return fmt.Errorf("%w: %s is another user's home: start a service as that user", fs.ErrPermission, h.Dir)
	}
	return nil
}

// Sweep removes what a process that was killed had begun to write: in copies of
// the clients' files may be secrets. What another hutch is writing stays. No
// other process may be using Backups.
func (h *Home) Sweep(ctx context.Context) {
	fs.Sweep(h.Backups)
	for i := range table {
		if f, err := h.find(&table[i], false); err == nil {
			f.sweep(ctx)
			f.close()
		}
	}
}

// Status tells of the client called name.
func (h *Home) Status(ctx context.Context, name string) (*Status, error) {
	c, err := Find(name)
	if err != nil {
		return nil, err
	}
	s := &Status{Here: h.Dir != "" && h.has(c), File: filepath.Join(h.Dir, c.path()), Format: c.form.name}
	if b, err := h.backup(c); err != nil {
		s.Err = err
	} else if b != nil {
		s.Backup, s.TakenOut = b.Taken, b.TakenOut
	}
	if !s.Here {
		s.Err = h.check()
		return s, nil
	}
	end, err := turn(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := h.look(c, s); err != nil {
		s.Err = err
	}
	return s, nil
}

// look says what is in a client's file.
func (h *Home) look(c *Client, s *Status) error {
	f, err := h.find(c, false)
	if errors.Is(err, os.ErrNotExist) {
		return nil // nor is its folder
	}
	if err != nil {
		return err
	}
	defer f.close()
	if f.path != s.File {
		s.Real = f.path
	}
	is, err := f.read()
	if err != nil {
		return err
	}
	if s.Servers, err = h.serversIn(c, is.text); err != nil {
		return err
	}
	return is.writable(c)
}

// serversIn returns the servers of this service that the text of a file has.
func (h *Home) serversIn(c *Client, text []byte) (ours []Server, err error) {
	doc, err := c.decode(text)
	if err != nil {
		return nil, err
	}
	all, err := c.programs(doc)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if words, ok := h.words(all[name]); ok {
			ours = append(ours, Server{name, words})
		}
	}
	return ours, err
}

// words returns those of a program that is the hutch command with our address,
// whatever its path: it may have been another before.
func (h *Home) words(p program) ([]string, bool) {
	if filepath.Base(p.command) != filepath.Base(h.Program) || len(p.args) < 2 || p.args[0] != "-s" || p.args[1] != h.Address {
		return nil, false
	}
	return p.args[2:], true
}

// Add puts a server into the file of a client. One of that name is an error,
// unless it is the same.
func (h *Home) Add(ctx context.Context, client string, s Server) error {
	c, err := Find(client)
	if err != nil {
		return err
	}
	if err := fs.CheckWord("server", s.Name); err != nil {
		return err
	}
	if info, err := os.Stat(h.Program); err != nil || info.IsDir() {
		return fmt.Errorf("%w: the hutch command is not at %s, where the client would start it", fs.ErrNotExist, h.Program)
	}
	p := program{h.Program, append([]string{"-s", h.Address}, s.Words...)}
	return h.change(ctx, c, true, func(text []byte) ([]byte, error) {
		was, there, err := c.find(text, s.Name)
		if err != nil {
			return nil, err
		}
		words, ours := h.words(was)
		if there && !(ours && slices.Equal(words, s.Words)) {
			return nil, fmt.Errorf("%w: %s has another server %s: give this one another name", fs.ErrExist, c.shown(), s.Name)
		}
		if there && was.command == p.command {
			return text, nil
		}
		return c.put(text, s.Name, p)
	})
}

// Remove takes all servers that are the hutch command with such words out of
// the file of a client.
func (h *Home) Remove(ctx context.Context, client string, words []string) error {
	c, err := Find(client)
	if err != nil {
		return err
	}
	return h.change(ctx, c, false, func(text []byte) ([]byte, error) {
		ours, err := h.serversIn(c, text)
		if err != nil {
			return nil, err
		}
		found := false
		for _, s := range ours {
			if !slices.Equal(s.Words, words) {
				continue
			}
			found = true
			if text, err = c.drop(text, s.Name); err != nil {
				return nil, err
			}
		}
		if !found {
			return nil, fmt.Errorf("%w: it is not in %s", fs.ErrNotExist, c.shown())
		}
		return text, nil
	})
}
