package vmm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hutch/profiles"
	"hutch/vmm/image"
)

// TestPlaced has mounts in what the guest sees for reading only, where there is
// a folder for them or not.
func TestPlaced(t *testing.T) {
	host := t.TempDir()
	if err := os.MkdirAll(filepath.Join(host, "local/there"), 0o755); err != nil {
		t.Fatal(err)
	}
	os.WriteFile(filepath.Join(host, "file"), nil, 0o644)
	img := image.Image{Binds: []image.Bind{{Host: host, Guest: "/usr"}}}
	for text, want := range map[string]string{
		"/a:/mnt/x /a:/usr2/x":  "",
		"/a:/usr":               "",
		"/a:/usr/local/there":   "",
		"/a:/usr/local/nothing": "/usr/local/nothing: no such folder in /usr",
		"/a:/usr/file":          "/usr/file: no such folder in /usr",
		"/a:/usr/local/there /a:/usr/local/there/x": "", // it can be made there
		host + ":/data:ro /a:/data/x":               "/data/x: no such folder in /data",
		host + ":/data:ro /a:/data/local":           "",
		host + ":/data /a:/data/x":                  "",
	} {
		list, err := profiles.Mounts(text).List()
		if err != nil {
			t.Fatal(err)
		}
		err = placed(list, img)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), "mount at "+want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestTreeAt(t *testing.T) {
	const table = `22 1 8:1 / / rw - ext4 /dev/sda1 rw
64 22 0:40 / /mnt/my\040hutch rw,nosuid - fuse.hutch hutch rw,user_id=0
65 22 0:41 / /mnt/other rw - fuse.sshfs host rw
`
	const tree = "/mnt/my hutch"
	for dir, want := range map[string]string{
		"/": tree, "/mnt": tree, tree: tree, tree + "/vm/x/work": tree, "/mnt/my": "", "/mnt/my hutch2": "", "/mnt/other": "", "/srv": "",
	} {
		if got := treeAt(table, dir); got != want {
			t.Errorf("%s: %q, want %q", dir, got, want)
		}
	}
}
