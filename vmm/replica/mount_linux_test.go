package replica_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"hutch/fs/need"
)

// mount returns the folder of a new file system of that kind, in a file.
func mount(t *testing.T, kind string) string {
	t.Helper()
	mkfs := need.Tool(t, "mkfs."+kind)
	disk, dir := filepath.Join(t.TempDir(), "disk"), t.TempDir()
	must(t, os.WriteFile(disk, nil, 0o600), os.Truncate(disk, 512<<20))
	if out, err := exec.Command(mkfs, "-q", disk).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", mkfs, err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop", disk, dir).CombinedOutput(); err != nil {
		need.Missing(t, "no mount of "+kind+": "+string(out))
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v\n%s", err, out)
		}
	})
	return dir
}
