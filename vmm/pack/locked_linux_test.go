package pack_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"hutch/vmm/pack"
)

// as has f done with the rights that an ordinary user has to files.
func as(user int, f func() []byte) []byte {
	if os.Geteuid() != 0 {
		return f()
	}
	runtime.LockOSThread() // whose rights these are
	defer runtime.UnlockOSThread()
	syscall.Setfsuid(user)
	defer syscall.Setfsuid(0)
	return f()
}

// TestLocked packs what its owner may not read, which then is as it was.
func TestLocked(t *testing.T) {
	from, owner := t.TempDir(), os.Geteuid()
	d, f := filepath.Join(from, "d"), filepath.Join(from, "d", "f")
	err := errors.Join(os.Mkdir(d, 0o700), os.WriteFile(f, []byte("text"), 0o200))
	if owner == 0 {
		owner = 65534
		err = errors.Join(err, os.Chown(from, owner, owner), os.Chown(d, owner, owner), os.Chown(f, owner, owner))
	}
	if err = errors.Join(err, os.Chmod(d, 0o300)); err != nil {
		t.Fatal(err)
	}
	for up := from; strings.HasPrefix(up, filepath.Clean(os.TempDir())+"/"); up = filepath.Dir(up) {
		os.Chmod(up, 0o755) // for the owner to get there
	}
	data := as(owner, func() []byte { return archive(t, pack.Folder{Name: "work", Dir: from}) })
	if st, err := os.Stat(d); err != nil || st.Mode().Perm() != 0o300 {
		t.Errorf("the folder is %v, %v", st, err)
	}
	if st, err := os.Stat(f); err != nil && os.Geteuid() == 0 || err == nil && st.Mode().Perm() != 0o200 {
		t.Errorf("the file is %v, %v", st, err)
	}
	os.Chmod(d, 0o700)
	to := t.TempDir()
	if err := extract(t.Context(), data, to, plenty); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(filepath.Join(to, "work", "d")); err != nil || st.Mode().Perm() != 0o300 {
		t.Errorf("the folder comes as %v, %v", st, err)
	}
	os.Chmod(filepath.Join(to, "work", "d"), 0o700)
}
