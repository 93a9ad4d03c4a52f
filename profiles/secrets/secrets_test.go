package secrets

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"filippo.io/age"

	hutchfs "hutch/fs"
	"hutch/profiles/vault/vaulttest"
)

func TestResolve(t *testing.T) {
	s := New(filepath.Join(t.TempDir(), "secrets"))
	t.Cleanup(s.Close)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	os.Symlink(file("token", "from a file\n\n"), link)
	v := vaulttest.New(t)
	v.Put("gh", map[string]any{"token": "from the vault"})
	for name, value := range map[string]string{
		"VAULT_ADDR": v.URL, "VAULT_TOKEN": "root", "BAO_ADDR": "", "BAO_TOKEN": "", "BAO_ROLE_ID": "", "VAULT_ROLE_ID": "",
		"OURS": "from the environment", "EMPTY": "",
	} {
		t.Setenv(name, value)
		if value == "" && name != "EMPTY" {
			os.Unsetenv(name)
		}
	}
	if err := s.Store.Set("gh", "from the store"); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"plain": "plain", "": "", "Bearer secret:gh": "Bearer secret:gh",
		"secret:gh": "from the store", "env:OURS": "from the environment", "file:" + link: "from a file\n",
		"vault:team/kv/gh/token":                                   "from the vault",
		"file:" + file("full", strings.Repeat("x", MaxValue)+"\n"): strings.Repeat("x", MaxValue),

		"secret:none": "error: no such secret", "env:NONE_OF_OURS": "error: no such variable", "env:EMPTY": "error: empty",
		"file:" + dir + "/none": "error: no such file", "file:" + dir: "error: not a regular file", "file:" + pipe: "error: not a regular file",
		"file:/dev/zero": "error: not a regular file", "file:" + file("large", strings.Repeat("x", MaxValue+1)): "error: larger than 64 KiB",
		"file:" + file("empty", "\n"): "error: empty", "file:" + file("bytes", "a\xff"): "error: no text", "file:" + file("nul", "a\x00b"): "error: no text",
		"vault:team/kv/none/token": "error: nothing is at", "secret:a b": "error: other characters", "file:none": "error: absolute path",
	} {
		got, err := s.Resolve(t.Context(), text)
		wrong, fails := strings.CutPrefix(want, "error: ")
		switch {
		case fails && (err == nil || got != "" && got != text || !strings.Contains(err.Error(), wrong) || !strings.Contains(err.Error(), text)):
			t.Errorf("%.80q is %.80q, %v, want %s", text, got, err, want)
		case !fails && (err != nil || got != want):
			t.Errorf("%.80q is %.80q, %v, want %.80q", text, got, err, want)
		}
	}
}

func TestStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "secrets")
	s := NewStore(dir)
	if names, err := s.Names(); len(names) > 0 || err != nil {
		t.Fatalf("nothing was set: %q, %v", names, err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("looking has made the folder")
	}
	const value = "a secret value of some length"
	for _, name := range []string{"b", "a"} {
		if err := s.Set(name, value+name); err != nil {
			t.Fatal(err)
		}
	}
	s = NewStore(dir) // as after a restart
	names, err := s.Names()
	if !slices.Equal(names, []string{"a", "b"}) || err != nil {
		t.Errorf("names are %q, %v", names, err)
	}
	if got, err := s.Get("b"); got != value+"b" || err != nil {
		t.Errorf("b is %q, %v", got, err)
	}
	if err := s.Forget("b"); err != nil {
		t.Error(err)
	}
	if _, err := s.Get("b"); !hutchfs.Is(err, hutchfs.ErrNotExist) || !hutchfs.Is(s.Forget("b"), hutchfs.ErrNotExist) {
		t.Errorf("b is forgotten: %v", err)
	}
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		info, _ := d.Info()
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is of mode %v", path, info.Mode())
		}
		if text, _ := os.ReadFile(path); bytes.Contains(text, []byte("secret value")) {
			t.Errorf("the value is in %s", path)
		}
		return nil
	})
	for name, value := range map[string]string{
		"": "x", "a/b": "x", ".a": "x", "empty": "", "large": strings.Repeat("x", MaxValue+1), "nul": "\x00", "bytes": "\xff",
	} {
		if s.Set(name, value) == nil {
			t.Errorf("%q is set to %.10q", name, value)
		}
	}
	if names, _ := s.Names(); !slices.Equal(names, []string{"a"}) {
		t.Errorf("what was refused is there: %q", names)
	}
}

func TestFull(t *testing.T) {
	s := NewStore(t.TempDir())
	full := contents{}
	for i := range maxStored / MaxValue {
		full[fmt.Sprint(i)] = bytes.Repeat([]byte("x"), MaxValue)
	}
	if err := s.write(full); err != nil {
		t.Fatal(err)
	}
	if err := s.Set("more", "x"); !hutchfs.Is(err, hutchfs.ErrNoSpace) {
		t.Errorf("a full store: %v", err)
	}
	if err := s.Set("0", "x"); err != nil {
		t.Errorf("what is in a full store can be made smaller: %v", err)
	}
}

// TestKeys has the key of a store be another's, gone, readable, and systemd's.
func TestKeys(t *testing.T) {
	dir, credentials := t.TempDir(), t.TempDir()
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	s := NewStore(dir)
	if err := s.Set("a", "one"); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(dir, keyFile)
	ours, _ := os.ReadFile(key)
	other, _ := age.GenerateX25519Identity()
	for what, change := range map[string]func(){
		"does not decrypt": func() { os.WriteFile(key, []byte(other.String()), 0o600) },
		"is gone":          func() { os.Remove(key) },
		"no key of age":    func() { os.WriteFile(key, []byte("AGE-SECRET-KEY-1XYZ"), 0o600) },
		"others may read":  func() { os.WriteFile(key, ours, 0o600); os.Chmod(key, 0o640) },
	} {
		change()
		if _, err := s.Get("a"); err == nil || !strings.Contains(err.Error(), what) || strings.Contains(err.Error(), "AGE-SECRET") {
			t.Errorf("%s: %v", what, err)
		}
		if s.Set("b", "two") == nil {
			t.Errorf("%s: a store that cannot be read is replaced", what)
		}
		os.Remove(key)
		os.WriteFile(key, ours, 0o600)
	}
	t.Setenv("CREDENTIALS_DIRECTORY", credentials)
	os.WriteFile(filepath.Join(credentials, Credential), []byte("# made for a test\n"+other.String()+"\n"), 0o400)
	if err := s.Set("b", "two"); err != nil {
		t.Fatal(err)
	}
	os.Remove(key) // systemd's does for all now
	for name, want := range map[string]string{"a": "one", "b": "two"} {
		if got, err := s.Get(name); got != want || err != nil {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
	if _, err := os.Stat(key); err == nil {
		t.Error("a key was made beside systemd's")
	}
}

// TestCut has the store be cut off, and changed, at places all over it.
func TestCut(t *testing.T) {
	s := NewStore(t.TempDir())
	if err := s.Set("a", strings.Repeat("value ", 1000)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.dir, storeFile)
	whole, _ := os.ReadFile(path)
	for at := 0; at < len(whole); at += 97 {
		changed := bytes.Clone(whole)
		changed[at] ^= 1
		for _, bad := range [][]byte{whole[:at], changed} {
			os.WriteFile(path, bad, 0o600)
			if got, err := s.Get("a"); err == nil {
				t.Fatalf("cut or changed at %d it is %.20q", at, got)
			}
		}
	}
}

// TestCrowd sets and forgets from several sides at once.
func TestCrowd(t *testing.T) {
	s := NewStore(t.TempDir())
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			name := fmt.Sprint(i)
			for j := range 4 {
				if err := s.Set(name, fmt.Sprint(j)); err != nil {
					t.Error(err)
				}
			}
			if i%2 == 0 {
				s.Forget(name)
			}
		})
	}
	all.Wait()
	if names, err := s.Names(); !slices.Equal(names, []string{"1", "3", "5", "7"}) || err != nil {
		t.Errorf("%q, %v", names, err)
	}
}

// TestKilled kills a process that sets a secret again and again: the store is whole
// each time.
func TestKilled(t *testing.T) {
	if dir := os.Getenv("SECRETS_TEST_DIR"); dir != "" {
		s := NewStore(dir)
		for i := 0; ; i++ {
			if err := s.Set("a", strings.Repeat(fmt.Sprint(i%10), 1000)); err != nil {
				t.Fatal(err)
			}
			fmt.Println("set")
		}
	}
	dir := t.TempDir()
	for range 5 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
		cmd.Env = append(os.Environ(), "SECRETS_TEST_DIR="+dir)
		out, _ := cmd.StdoutPipe()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		out.Read(make([]byte, 16)) // it has begun
		cmd.Process.Kill()
		cmd.Wait()
		value, err := NewStore(dir).Get("a")
		if err != nil || len(value) != 1000 || strings.Trim(value, value[:1]) != "" {
			t.Fatalf("after the kill it is %.20q, %v", value, err)
		}
	}
}

// TestOwn keeps what is hutch's own beside the secrets, where nobody sees it.
func TestOwn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "secrets")
	s := NewStore(dir)
	if err := s.SetOwn("oauth/notes", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("forgetting nothing has made the folder")
	}
	if err := errors.Join(s.SetOwn("oauth/notes", "a token"), s.Set("notes", "a secret")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"oauth/notes", "/oauth/notes"} {
		if got, err := s.Get(name); got != "" || !hutchfs.Is(err, hutchfs.ErrNotExist) {
			t.Errorf("the secret %s is %q, %v", name, got, err)
		}
		if err := s.Forget(name); !hutchfs.Is(err, hutchfs.ErrNotExist) {
			t.Errorf("the secret %s was forgotten: %v", name, err)
		}
		if err := s.Set(name, "x"); err == nil {
			t.Errorf("there is a secret %s", name)
		}
	}
	if names, err := s.Names(); !slices.Equal(names, []string{"notes"}) || err != nil {
		t.Errorf("names are %q, %v", names, err)
	}
	if got, err := NewStore(dir).Own("oauth/notes"); got != "a token" || err != nil {
		t.Errorf("kept is %q, %v", got, err)
	}
	if err := s.SetOwn("oauth/notes", ""); err != nil {
		t.Error(err)
	}
	if got, err := s.Own("oauth/notes"); got != "" || err != nil {
		t.Errorf("forgotten is %q, %v", got, err)
	}
}
