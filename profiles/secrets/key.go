package secrets

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"filippo.io/age"

	"hutch/fs"
)

// Credential is the name of the systemd credential that is the key of the store,
// where there is one: an identity as age-keygen prints it.
const Credential = "hutch-secrets"

// maxKey is the size of the largest file of keys.
const maxKey = 16 << 10

// keys returns the keys of the store, nil if there is none: that of systemd, and
// that of its folder. With the first it is encrypted, with any decrypted: so a store
// moves to the key of systemd by the next secret that is set.
func (s *Store) keys() ([]age.Identity, error) {
	var all []age.Identity
	files := []string{filepath.Join(s.dir, keyFile)}
	if dir := os.Getenv("CREDENTIALS_DIRECTORY"); filepath.IsAbs(dir) {
		files = append([]string{filepath.Join(dir, Credential)}, files...)
	}
	for _, file := range files {
		keys, err := readKeys(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("%w: %s: %w", fs.ErrIO, file, err)
		}
		all = append(all, keys...)
	}
	return all, nil
}

func readKeys(file string) ([]age.Identity, error) {
	text, info, err := fs.ReadRegular(file, maxKey, nil)
	if err != nil {
		return nil, err
	}
	if filepath.Base(file) == keyFile && info.Mode().Perm()&0o077 != 0 { // systemd says itself who reads its own
		return nil, errors.New("others may read the key: chmod 600")
	}
	keys, err := age.ParseIdentities(bytes.NewReader(text))
	if err != nil {
		return nil, errors.New("it is no key of age") // whose error may have the key in it
	}
	return keys, nil
}

// makeKey makes the key in the folder of the store, which only its user reads.
func (s *Store) makeKey() ([]age.Identity, error) {
	key, err := age.GenerateHybridIdentity()
	if err != nil {
		return nil, err
	}
	return []age.Identity{key}, fs.WriteFile(filepath.Join(s.dir, keyFile), []byte(key.String()+"\n"), true)
}

// recipient returns what is to be encrypted for, so that key decrypts it.
func recipient(key age.Identity) (age.Recipient, error) {
	switch k := key.(type) {
	case *age.HybridIdentity:
		return k.Recipient(), nil
	case *age.X25519Identity:
		return k.Recipient(), nil
	}
	return nil, fmt.Errorf("%w: a key of the kind %T", fs.ErrUnsupported, key)
}
