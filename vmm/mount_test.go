package vmm

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"hutch/vmm/image"
)

func TestParseMounts(t *testing.T) {
	for text, want := range map[string]any{
		"mount /a:/b\n":                               []Mount{{"/a", "/b", false}},
		"mount /a:/b:ro '/c d:/e f'\n":                []Mount{{"/a", "/b", true}, {"/c d", "/e f", false}},
		"mount /a:/b\nmount /c:/d:ro\n":               []Mount{{"/a", "/b", false}, {"/c", "/d", true}},
		"mount /a:/b\nmount /c:/b\n":                  []Mount{{"/c", "/b", false}},
		"mount /a:/b\nmount\n":                        []Mount(nil),
		"mount a:/b\n":                                "is not HOST:GUEST",
		"mount /a:b\n":                                "is not HOST:GUEST",
		"mount /a:/b:rx\n":                            "is not HOST:GUEST",
		"mount /a\n":                                  "is not HOST:GUEST",
		"mount /a:/\n":                                "the guest's own",
		"mount /a:/proc/x\n":                          "the guest's own",
		"mount /a:/x/../workspace\n":                  "the guest's own",
		"mount /a:/run\n":                             "the guest's own",
		"mount '/a:/b\n":                              "quote",
		"mount" + strings.Repeat(" /a:/b", 40) + "\n": []Mount{{"/a", "/b", false}},
	} {
		c, err := ParseConfig(text)
		list, perr := parseMounts(c.Mounts)
		switch want := want.(type) {
		case string:
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %s", text, err, want)
			}
		default:
			again, aerr := ParseConfig(c.Text())
			if err != nil || perr != nil || aerr != nil || !reflect.DeepEqual(list, want) || again != c {
				t.Errorf("%q: %v, %v, %v; again %+v, %v", text, list, err, perr, again, aerr)
			}
		}
	}
}

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
		list, err := parseMounts(text)
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
