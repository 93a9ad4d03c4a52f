//go:build linux

package gvisor_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"hutch/vmm"
	"hutch/vmm/image"
	. "hutch/vmm/image/imagetest"
)

// lone fills the image called lone: one program, no shell, no folders to mount on.
func lone(t testing.TB, images *image.Store) {
	t.Helper()
	path, err := agentProgram()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	saved := filepath.Join(t.TempDir(), "lone.tar")
	owned := File("etc/owned", "mine")
	owned.Uid, owned.Gid, owned.Mode = 12, 34, 0o600
	Save(t, saved, Image(t,
		Tar(Program("tiny/bin/show", string(program)), File("etc/motd", "old\n"), File("etc/gone", "x"), Symlink("run", "/var/run"), Symlink("out", "/etc/motd")),
		Tar(File("etc/motd", "welcome"), File("etc/.wh.gone", ""), owned)))
	if err := images.Make("lone"); err != nil {
		t.Fatal(err)
	}
	if err := images.Import(limit(t), "lone", saved); err != nil {
		t.Fatal(err)
	}
}

func startFrom(t testing.TB, table *vmm.Table, name, img string) *vmm.VM {
	t.Helper()
	v, err := table.Make(limit(t), name)
	if err == nil {
		err = v.Set(limit(t), "image", img)
	}
	if err == nil {
		err = v.Start(limit(t))
	}
	if err != nil {
		serial, _ := os.ReadFile(filepath.Join(v.Dir(), "log", "serial"))
		process, _ := os.ReadFile(filepath.Join(v.Dir(), "log", "process"))
		t.Fatalf("%v\n%s\n%s", err, serial, process)
	}
	return v
}

func TestImageWithoutShell(t *testing.T) {
	newBench(t)
	table := openTable(t, t.TempDir())
	defer func() {
		for _, v := range table.List() {
			v.Stop(limit(t))
		}
		table.Close(limit(t))
	}()
	lone(t, table.Images())
	v := startFrom(t, table, "dev", "lone")
	for _, c := range [][2]string{
		{"exec show /etc/motd /out $COLOUR $PATH /etc/owned", "welcome\nwelcome\nof the image\n/tiny/bin:/opt/hutch/bin\nmine\n"},
		{"exec show /etc/gone", "open /etc/gone: no such file or directory\n"},
		{"exec show +/workspace/f +/new/file", "\nopen /new/file: no such file or directory\n"},
		{"exec show +/etc/motd /out", "\nwritten\n"},
	} {
		if got, err := printed(v, c[0]); got != c[1] || err != nil {
			t.Errorf("%s: %q, %v; want %q", c[0], got, err, c[1])
		}
	}
	img, err := table.Images().Lookup("lone")
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(filepath.Join(img.Root, "etc/motd")); string(got) != "welcome" {
		t.Errorf("the image has %q: a VM wrote to it", got)
	}
}

// BenchmarkStartImage measures a start up to the agent's first word, from the
// machine's own image and from one that was imported.
func BenchmarkStartImage(b *testing.B) {
	newBench(b)
	table := openTable(b, b.TempDir())
	defer table.Close(limit(b))
	lone(b, table.Images())
	for _, img := range []string{"host", "lone"} {
		b.Run(img, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				begin := time.Now()
				v := startFrom(b, table, "dev", img)
				took = append(took, time.Since(begin))
				if err := v.Kill(limit(b)); err != nil {
					b.Fatal(err)
				}
				if err := table.Remove(limit(b), "dev"); err != nil {
					b.Fatal(err)
				}
			}
			report(b, took, "up")
		})
	}
}
