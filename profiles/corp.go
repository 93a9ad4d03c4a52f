package profiles

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"aead.dev/minisign"

	"hutch/fs"
)

// CorpFolder is where corp's files are if nothing else is said. There need be
// none.
const CorpFolder = "/etc/hutch/corp"

const (
	forAll    = "all" // the name of corp's file for all profiles
	publicKey = "minisign.pub"
	signature = ".minisig"
)

// A head is what a file of corp says of itself.
type head struct {
	serial  int
	expires string // a day
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// corpNames returns the names of the profiles that corp has files for.
func (s *Store) corpNames() (names []string) {
	entries, _ := os.ReadDir(s.corp)
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), suffix); ok && name != forAll && checkName(name) == nil {
			names = append(names, name)
		}
	}
	return names
}

// corpOf returns what corp's file for a profile says, if there is one. It fails
// where the file is not as corp made it, or not any more what corp wants.
func (s *Store) corpOf(l *look, name string) ([]*document, error) {
	if s.corp == "" {
		return nil, nil
	}
	err := l.note(s.corp)
	if errors.Is(err, os.ErrNotExist) && s.corp == CorpFolder {
		return nil, nil
	}
	if err == nil {
		err = owned(l.files[s.corp])
	}
	if err != nil {
		return nil, fmt.Errorf("%w: corp's folder %s: %v", fs.ErrPermission, s.corp, err)
	}
	path := filepath.Join(s.corp, name+suffix)
	text, err := l.read(path, name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = s.verify(l, path, text)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: corp's file %s: %v", fs.ErrPermission, path, err)
	}
	d, err := readCorp(path, text)
	if err != nil {
		return nil, err
	}
	if err := s.current(l, name, d); err != nil {
		return nil, fmt.Errorf("%w: corp's file %s: %v", fs.ErrPermission, path, err)
	}
	return []*document{d}, nil
}

// owned refuses a folder that others than root and who runs this can write to.
func owned(info os.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return errors.New("is no folder")
	case !ok || stat.Uid != 0 && int(stat.Uid) != os.Getuid():
		return errors.New("belongs to somebody else than root")
	case info.Mode().Perm()&0o022 != 0:
		return errors.New("others may write to it")
	}
	return nil
}

// verify says why the signature of a file is not by the key beside it.
func (s *Store) verify(l *look, path string, text []byte) error {
	pem, err := l.read(filepath.Join(s.corp, publicKey), publicKey)
	if err != nil {
		return fmt.Errorf("there is no key %s beside it", publicKey)
	}
	var public minisign.PublicKey
	if err := public.UnmarshalText(pem); err != nil {
		return fmt.Errorf("%s is no key of minisign", publicKey)
	}
	sig, err := l.read(path+signature, signature)
	if err != nil {
		return fmt.Errorf("it is not signed: there is no %s", filepath.Base(path)+signature)
	}
	if !minisign.Verify(public, text, sig) {
		return errors.New("its signature is not that of the key beside it: it was changed, or signed by another")
	}
	var says minisign.Signature
	if err := says.UnmarshalText(sig); err != nil {
		return err
	}
	for word := range strings.FieldsSeq(says.TrustedComment) {
		if name, ok := strings.CutPrefix(word, "file:"); ok && filepath.Base(name) != filepath.Base(path) {
			return fmt.Errorf("it was signed as %.64s", name)
		}
	}
	return nil
}

// readCorp returns what the text of a file of corp says.
func readCorp(path string, text []byte) (*document, error) {
	d, err := readDocument(place{layer: ofCorp, file: path}, text)
	if err == nil {
		err = d.readDirectives()
	}
	return d, err
}

// seen is what is remembered of a file of corp.
type seen struct {
	Serial  int    `json:"serial"`
	Expired string `json:"expired"` // the last day of expiry that had come
}

// current takes from d what it says of itself, and says why it does not count
// any more: it has expired, or a later one was seen. What has expired stays so
// if the clock is set back.
func (s *Store) current(l *look, name string, d *document) error {
	var h head
	for _, k := range []string{"serial", "expires"} {
		v, ok := d.table[k]
		delete(d.table, k)
		if !ok {
			continue
		}
		err := FindKey(k).decode(target{h: &h}, v, key{k})
		if wrong, ok := err.(*fault); ok {
			return d.fault(wrong)
		}
	}
	if _, err := time.Parse(time.DateOnly, h.expires); h.expires != "" && err != nil {
		return fmt.Errorf("expires %.64q is no day like 2027-01-31", h.expires)
	}
	path := filepath.Join(s.good, "corp.seen")
	all := make(map[string]seen)
	if err := fs.ReadJSON(path, &all); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("what was seen of it is lost: %v", err)
	}
	was := all[name]
	is := seen{Serial: max(was.Serial, h.serial), Expired: was.Expired}
	if h.expires != "" && day(s.now()) >= h.expires {
		is.Expired = max(is.Expired, h.expires)
	}
	if is != was {
		all[name] = is
		if err := fs.WriteJSON(path, all, true); err != nil {
			return fmt.Errorf("that it was seen cannot be kept: %v", err)
		}
	}
	switch {
	case h.serial < is.Serial:
		return fmt.Errorf("its serial %d is older than %d, which was here before", h.serial, is.Serial)
	case h.expires != "" && h.expires <= is.Expired:
		return fmt.Errorf("it expired on %s", h.expires)
	}
	if h.expires != "" && (l.until == "" || h.expires < l.until) {
		l.until = h.expires
	}
	return nil
}
