//go:build linux

package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hutch/fs/need"
)

// TestLinks has a guest write links that mean files of the host to whoever
// takes them by their text, and reads through the mount what they lead to.
func TestLinks(t *testing.T) {
	t.Parallel()
	s := newService(t, true)
	raw := filepath.Join(s.dir, "raw")
	var flags []string
	if os.Getuid() == 0 {
		flags = []string{"-rawmount", raw}
	}
	s.start(flags...)
	secret := filepath.Join(s.dir, "secret")
	if err := os.WriteFile(secret, []byte("of the host\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	s.vm("dev")
	up := strings.Repeat("../", 30)
	if out, status := s.sh("dev", `cd /workspace; echo of the guest >/etc/motd; mkdir -p a/b; echo f >a/f; `+
		`ln -s `+secret+` notes; ln -s `+up+secret[1:]+` a/b/notes; ln -s a/b/notes chain; ln -s / top; ln -s a/b/../../notes turn; `+
		`ln -s /etc/motd motd; ln -s /workspace/a/f f; ln -s ../f a/b/f; ln -s /etc/motd /etc/other; ln -s `+secret+` /etc/notes; ln -s /workspace/a/f /etc/f`); status != "0" {
		t.Fatalf("the guest's links: %s %q", status, out)
	}
	s.mkdir("vm/dev/snap/before")
	check := func(while string, leads map[string]string) {
		t.Helper()
		for name, want := range leads {
			text, err := os.ReadFile(s.path("vm/dev/" + name))
			if got := string(text); err == nil != (want != "") || got != want {
				t.Errorf("%s, %s reads as %q, %v; want %q", while, name, got, err, want)
			}
			if want != "" {
				continue
			}
			if f, err := os.OpenFile(s.path("vm/dev/"+name), os.O_WRONLY|os.O_APPEND, 0); err == nil {
				t.Errorf("%s, %s can be written", while, name)
				f.Close()
			}
		}
	}
	kept := map[string]string{
		"snap/before/work/notes": "", "snap/before/work/chain": "", "snap/before/work/a/b/notes": "", "snap/before/layer/etc/notes": "",
		"snap/before/work/motd": "of the guest\n", "snap/before/work/f": "f\n", "snap/before/layer/etc/f": "f\n", "snap/before/layer/etc/other": "of the guest\n",
		"snap/before/work/top" + secret: "", "work/f": "f\n", "work/a/b/f": "f\n",
		"work/notes": "", "work/a/b/notes": "", "work/chain": "", "work/turn": "", "work/top" + secret: "",
	}
	running := map[string]string{
		"work/motd": "of the guest\n", "work/top/etc/motd": "of the guest\n", "root/etc/other": "of the guest\n",
		"root/etc/f": "f\n", "root/etc/notes": "", "root/workspace/notes": "", "root/workspace/a/b/f": "f\n", "root/workspace/f": "f\n",
	}
	check("running", kept)
	check("running", running)
	s.write("vm/dev/ctl", "stop\n")
	check("stopped", kept)
	check("stopped", map[string]string{"work/motd": "", "work/top/etc/motd": ""})
	if text, err := os.ReadFile(secret); string(text) != "of the host\n" {
		t.Errorf("the host's file is %q, %v", text, err)
	}
	t.Run("raw", func(t *testing.T) {
		need.Root(t)
		s.carried(t, raw, secret)
	})
}

// carried has the tools that copy trees carry the guest's own text.
func (s *service) carried(t *testing.T, raw, secret string) {
	work, to := filepath.Join(raw, "vm/dev/work"), s.dir
	for _, c := range []struct{ line, notes string }{
		{"mkdir $to/tar; tar -C $work -cf - . | tar -C $to/tar -xf -", "tar/notes"},
		{"cp -a $work $to/cp", "cp/notes"},
		{"rsync -a $work/ $to/rsync", "rsync/notes"},
		{"git init -q $to/git && git --git-dir=$to/git/.git --work-tree=$work add -A && git -C $to/git checkout -q -- . && git --git-dir=$to/git/.git --work-tree=$work diff --exit-code", "git/notes"},
	} {
		name, _, _ := strings.Cut(c.notes, "/")
		t.Run(name, func(t *testing.T) {
			need.Tool(t, name)
			cmd := s.user("sh", "-c", c.line)
			cmd.Env = append(os.Environ(), "work="+work, "to="+to)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
			if text, err := os.Readlink(filepath.Join(to, c.notes)); text != secret {
				t.Errorf("the link is %q, %v", text, err)
			}
		})
	}
	if _, err := os.ReadFile(filepath.Join(work, "notes")); err == nil {
		t.Error("a link of the raw mount is followed")
	}
}
