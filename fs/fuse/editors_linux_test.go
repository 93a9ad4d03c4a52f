package fuse

import (
	"os"
	"path/filepath"
	"testing"

	"hutch/fs/need"
)

// Programs save in their own ways: temporary files, renames, backups,
// fsync, locks, maps. All must work where files can be made.
func TestEditors(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	for _, c := range []struct {
		tool, script, want string
		everywhere         bool // in made-up directories too
	}{
		{"vim", "vim -Nu NONE -es -c 's/one/two/' -c wq f </dev/null; cat f", "two\n", true},
		{"vim", "vim -Nu NONE -es -c 'set backup backupskip= backupcopy=no' -c 's/one/two/' -c wq f </dev/null; cat f f~; ls", "two\none\nf\nf~\n", true},
		{"vim", "vim -Nu NONE -es -c 'set backupcopy=yes fsync' -c 's/one/two/' -c wq f </dev/null; cat f; ls", "two\nf\n", true},
		{"sed", "sed -i s/one/two/ f && cat f && ls", "two\nf\n", true},
		{"sed", "sed -i.bak s/one/two/ f && cat f f.bak", "two\none\n", true},
		{"dd", "dd if=f of=g bs=1 conv=fsync status=none && cat g", "one\n", true},
		{"dd", "printf xx | dd of=f bs=1 seek=1 conv=notrunc status=none && cat f", "oxx\n", true},
		{"tee", "echo two | tee -a f g >/dev/null && cat f g", "one\ntwo\ntwo\n", true},
		{"cp", "cp -p f g && cmp f g && mv -f g f && ls && stat -c %s f", "f\n4\n", true},
		{"sync", "sync f && sync .", "", true},
		{"tar", "mkdir d && tar cf - f | tar xf - -C d && cat d/f && rm -r d && ls", "one\nf\n", true},
		{"sort", "sort -o f f && cat f", "one\n", true},
		{"flock", "flock f cat f", "one\n", true},
		{"git", "git init -q . && git config user.email a@b && git config user.name a && git add f && git commit -qm m && git mv f g && git commit -qam n && git log --format=%s && git status --short && git gc -q && git fsck 2>&1", "n\nm\n", false},
		{"cc", "printf 'int main(){return 7;}' > m.c && cc -o m m.c && ./m; echo $?", "7\n", false},
	} {
		for _, top := range []string{"work", "store"} {
			if top == "store" && !c.everywhere {
				continue
			}
			t.Run(c.tool+"/"+top, func(t *testing.T) {
				need.Tool(t, c.tool)
				s := serving(t)
				if err := os.WriteFile(s.path(top+"/f"), []byte("one\n"), 0o644); err != nil {
					t.Fatal(err)
				}
				out, err := s.sh("dash", "cd "+top+" && "+c.script)
				if out != c.want {
					t.Errorf("%s: %v\n%s, want\n%s", c.script, err, out, c.want)
				}
				s.do("handles 0")
				if top == "work" {
					if left, _ := filepath.Glob(filepath.Join(s.work, ".fuse_hidden*")); left != nil {
						t.Errorf("left: %v", left)
					}
				}
			})
		}
	}
}
