package clients

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"hutch/fs"
)

// A backup tells of a client's file as it was before hutch put the first
// server into it. The text is in another file beside. They are in hutch's
// state, where no client and no program that copies its files finds them.
type backup struct {
	Path    string    `json:"path"`
	Existed bool      `json:"existed"`
	Mode    uint32    `json:"mode"`
	Taken   time.Time `json:"taken"`
	// Wrote are the sums of what hutch wrote last, of which one is in the file
	// unless somebody else has changed it since.
	Wrote []string `json:"wrote"`
	// TakenOut says that somebody else had changed the file, so that a restore took hutch's
	// servers out of what was there. What was kept still is.
	TakenOut bool `json:"taken_out,omitempty"`
}

func (h *Home) backupInfo(c *Client) string { return filepath.Join(h.Backups, c.Name+".json") }
func (h *Home) backupText(c *Client) string { return filepath.Join(h.Backups, c.Name+".backup") }

// backup returns what is kept of a client's file, nil if nothing is.
func (h *Home) backup(c *Client) (*backup, error) {
	b := &backup{}
	err := fs.ReadJSON(h.backupInfo(c), b)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("backup of %s: %w", c.shown(), err)
	}
	return b, nil
}

// keep keeps what is in a file, before text takes its place, if nothing of
// hutch is in it yet. The backup is on the disk before the file changes.
func (h *Home) keep(f *file, was version, text []byte) error {
	b, err := h.backup(f.c)
	if err != nil {
		return err
	}
	ours, err := h.serversIn(f.c, was.text)
	if err != nil {
		return err
	}
	if b == nil || b.Path != f.path || len(ours) == 0 {
		if err := os.MkdirAll(h.Backups, 0o700); err != nil {
			return err
		}
		if err := fs.WriteFile(h.backupText(f.c), was.text, true); err != nil {
			return err
		}
		b = &backup{Path: f.path, Existed: was.info != nil, Taken: time.Now().UTC()}
		if b.Existed {
			b.Mode = uint32(was.info.Mode().Perm())
		}
	}
	b.Wrote = []string{sum(was.text), sum(text)}
	return fs.WriteJSON(h.backupInfo(f.c), b, true)
}

func sum(text []byte) string {
	s := sha256.Sum256(text)
	return hex.EncodeToString(s[:])
}

// Restore puts a client's file back as it was before hutch put the first server
// into it, byte for byte, with its mode; one that was not there goes. If somebody else has
// changed the file since, as clients do by themselves, hutch's servers are taken out of what
// is there, and the Status says so; but with force what they wrote is lost.
func (h *Home) Restore(ctx context.Context, client string, force bool) error {
	c, err := Find(client)
	if err != nil {
		return err
	}
	return h.locked(ctx, c, false, func(f *file) error { return h.restore(f, force) })
}

func (h *Home) restore(f *file, force bool) error {
	b, err := h.backup(f.c)
	if err != nil {
		return err
	}
	if b == nil {
		return fmt.Errorf("%w: nothing to restore: hutch has not changed %s", fs.ErrNotExist, f.c.shown())
	}
	text, err := os.ReadFile(h.backupText(f.c))
	if err != nil {
		return err
	}
	err = f.restore(b, text, force)
	if errors.Is(err, errOthers) {
		return h.takeOut(f, b)
	}
	if err != nil {
		return err
	}
	return errors.Join(os.Remove(h.backupInfo(f.c)), os.Remove(h.backupText(f.c)))
}

// errOthers is returned for a file that somebody else has changed since hutch did.
var errOthers = errors.New("others have changed it")

// takeOut takes hutch's servers out of what is in a file, and notes that.
func (h *Home) takeOut(f *file, b *backup) error {
	is, err := f.read()
	if err != nil {
		return err
	}
	ours, err := h.serversIn(f.c, is.text)
	text := is.text
	for _, s := range ours {
		if err == nil {
			text, err = f.c.drop(text, s.Name)
		}
	}
	if err == nil && len(ours) == 0 {
		return fmt.Errorf("%w: nothing to restore: no server of hutch's is in %s, which others have changed since: \"hutch client restore -f %s\" puts back what was there before hutch",
			fs.ErrNotExist, f.c.shown(), f.c.Name)
	}
	if err == nil {
		err = f.replace(is, text, is.info.Mode().Perm())
	}
	if errors.Is(err, errChanged) {
		err = fmt.Errorf("%w: %s: %w", fs.ErrBusy, f.c.shown(), err)
	}
	if err != nil {
		return err
	}
	b.TakenOut = true
	return fs.WriteJSON(h.backupInfo(f.c), b, true)
}

// restore puts what was kept in the place of what is there.
func (f *file) restore(b *backup, text []byte, force bool) error {
	is, err := f.read()
	if err != nil {
		return err
	}
	if (is.info != nil) == b.Existed && (!b.Existed || bytes.Equal(is.text, text) && uint32(is.info.Mode().Perm()) == b.Mode) {
		return nil
	}
	ours := f.path == b.Path && is.info != nil && slices.Contains(b.Wrote, sum(is.text))
	if !ours && !force {
		return errOthers
	}
	if b.Existed {
		err = f.replace(is, text, os.FileMode(b.Mode))
	} else {
		err = f.remove(is)
	}
	if errors.Is(err, errChanged) {
		return fmt.Errorf("%w: %s: %w", fs.ErrBusy, f.c.shown(), err)
	}
	return err
}
