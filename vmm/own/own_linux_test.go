package own

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"hutch/fs/need"
)

// TestRefuseMounts shows the same folders elsewhere, by bind mounts, also of a folder
// that something was mounted over since.
func TestRefuseMounts(t *testing.T) {
	need.Root(t)
	top, items := world(t)
	bind := func(from, to string) {
		t.Helper()
		to = filepath.Join(top, to)
		os.MkdirAll(to, 0o755)
		if err := unix.Mount(filepath.Join(top, from), to, "", unix.MS_BIND, ""); err != nil {
			need.Missing(t, "bind mounts: "+err.Error())
		}
		t.Cleanup(func() { unix.Unmount(to, unix.MNT_DETACH) })
	}
	l := New(items)
	bind("run", "shown/all")
	bind("run/hutch", "shown/folder")
	bind("var/state/vm", "shown/below")
	bind("var/state/vm", "holder/in")
	bind("plain", "shown/plain")
	bind("cover", "run/hutch") // over what has the socket
	refuses(t, l, top, map[string]string{
		"shown/all ro": "the socket", "shown/folder": "the socket", "shown/all/hutch": "the socket",
		"shown/below ro": "the state", "holder": "the state", "holder/in": "the state",
		"shown/plain": "", "plain": "",
	})
	w := Look()
	for pair, want := range map[[2]string]bool{
		{"plain", "shown/plain/deep"}: true, {"shown/plain", "plain"}: true, {"shown", "plain/deep"}: true,
		{"plain/deep", "shown/plain"}: false, {"etc", "plain"}: false,
	} {
		if got := w.Shows(filepath.Join(top, pair[0]), filepath.Join(top, pair[1])); got != want {
			t.Errorf("%s shows %s: %v", pair[0], pair[1], got)
		}
	}
}
