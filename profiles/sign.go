package profiles

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"aead.dev/minisign"

	"hutch/fs"
)

// NewKey returns a pair of keys that sign what corp says, the private one
// sealed with a password unless that is empty.
func NewKey(password string) (public, private []byte, err error) {
	pub, key, err := minisign.GenerateKey(nil)
	if err != nil {
		return nil, nil, err
	}
	public, _ = pub.MarshalText()
	private, err = key.MarshalText()
	if password != "" {
		private, err = minisign.EncryptKey(password, key)
	}
	return append(public, '\n'), append(private, '\n'), err
}

// Sign writes the signature of corp's file at path, which has to parse, beside
// it.
func Sign(path string, private []byte, password string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	name := strings.TrimSuffix(filepath.Base(path), suffix)
	if filepath.Ext(path) != suffix || checkName(name) != nil {
		return fmt.Errorf("%w: %s is no name like all.toml", fs.ErrInvalid, path)
	}
	if _, err := readCorp(path, text); err != nil {
		return inProfile(name, err)
	}
	var key minisign.PrivateKey
	if minisign.IsEncrypted(private) {
		key, err = minisign.DecryptKey(password, private)
	} else {
		err = key.UnmarshalText(private)
	}
	if err != nil {
		return fmt.Errorf("%w: the key is none of minisign, or the password is wrong", fs.ErrInvalid)
	}
	comment := fmt.Sprintf("timestamp:%d\tfile:%s\thashed", time.Now().Unix(), filepath.Base(path))
	sig := minisign.SignWithComments(key, text, comment, "signature of what corp says")
	if err := fs.WriteFile(path+signature, sig, true); err != nil {
		return err
	}
	return os.Chmod(path+signature, 0o644)
}

// CheckFile says why the profile that the file at path belongs to would not load,
// or what of it would not count. The file is a profile or a drop-in; the profiles
// beside it and corp's folder are read too.
func CheckFile(path, corp string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err != nil {
		return err
	}
	dir, name := filepath.Dir(path), strings.TrimSuffix(filepath.Base(path), suffix)
	if of, ok := strings.CutSuffix(filepath.Base(dir), dropInSuffix); ok {
		dir, name = filepath.Dir(dir), of
	}
	good, err := os.MkdirTemp("", "hutch-check-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(good)
	if folder, err := filepath.Abs(corp); err == nil && dir == folder { // with no user's file beside it
		dir = good
		if name == forAll {
			name = Default
		}
	}
	s := &Store{dir: dir, good: good, corp: corp, now: time.Now}
	l := newLook(time.Now())
	docs, err := s.documents(l, name)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: there is no profile %s beside %s", fs.ErrNotExist, name, path)
	}
	if err == nil {
		_, _, err = build(name, docs)
	}
	if err == nil && len(l.notes) > 0 {
		err = fmt.Errorf("%w: %s", fs.ErrInvalid, strings.Join(l.notes, "; "))
	}
	return err
}
