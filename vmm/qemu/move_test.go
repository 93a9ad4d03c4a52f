//go:build linux

package qemu

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hutch/fs"
	"hutch/fs/need"
	"hutch/vmm"
)

// TestReceive has saved machines come that are not to be had, or not to be trusted.
func TestReceive(t *testing.T) {
	good := shape{Machine: "pc-i440fx-7.2", Accel: tcg, RAM: 512 << 20, CPUs: 2}
	for want, change := range map[string]func(*shape, map[string]string){
		`invalid argument: the archive says machine "pc-i440fx-99.0" and its machine has "pc-i440fx-7.2"`: func(_ *shape, n map[string]string) { n[needMachine] = "pc-i440fx-99.0" },
		`invalid argument: the archive says ports "" and its machine has "serial"`:                        func(_ *shape, n map[string]string) { delete(n, needPorts) },
		`not supported: it needs processor "one", and here is `:                                           func(s *shape, n map[string]string) { s.Accel, n[needAccel], n[needProcessor] = kvm, kvm, "one" },
		"it has 1024 MiB of memory, which is not this VM's":                                               func(s *shape, _ map[string]string) { s.RAM = 1 << 30 },
		"it has 256 processors, which are not this VM's":                                                  func(s *shape, _ map[string]string) { s.CPUs = 256 },
		"saved machine has the guest's program":                                                           func(s *shape, _ map[string]string) { s.Guest = "x\ny" },
		"saved machine has ports from 5 on":                                                               func(s *shape, n map[string]string) { s.Ports, n[needPorts] = 5, "vsock" },
	} {
		sh, n := good, good.needs()
		change(&sh, n)
		dir := t.TempDir()
		if err := fs.WriteJSON(filepath.Join(dir, savedShape), sh, false); err != nil {
			t.Fatal(err)
		}
		err := New(Config{Dir: t.TempDir(), Accel: tcg}).Receive(t.Context(), vmm.Spec{RAM: 512 << 20}, dir, n)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, text := range []string{"", "{", strings.Repeat(" ", maxShape+1)} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, savedShape), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := New(Config{Dir: t.TempDir()}).Receive(t.Context(), vmm.Spec{}, dir, nil); err == nil {
			t.Errorf("%.10q is taken", text)
		}
	}
}

// TestKnows asks QEMU for machines that it has not.
func TestKnows(t *testing.T) {
	need.QEMU(t)
	d := New(Config{Guest: filepath.Join(need.Programs(t), "guest"), Dir: t.TempDir(), Accel: tcg})
	for want, sh := range map[string]shape{
		`this QEMU has no machine "pc-i440fx-99.0"`:      {Machine: "pc-i440fx-99.0", Accel: tcg},
		`this QEMU has no machine "pc-i440fx-7.2,usb=on`: {Machine: "pc-i440fx-7.2,usb=on", Accel: tcg},
		`this QEMU has no machine "pc"`:                  {Machine: "pc", Accel: tcg},
		`it was accelerated by "kvm", and here is tcg`:   {Machine: "pc-i440fx-7.2", Accel: kvm},
	} {
		if err := d.knows(t.Context(), sh); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestOwnDisk has no disk be taken that has QEMU open another file.
func TestOwnDisk(t *testing.T) {
	convert := need.Tool(t, "qemu-img")
	make := func(name string, args ...string) string {
		path := filepath.Join(t.TempDir(), name)
		args = append(append([]string{"create", "-q", "-f", "qcow2"}, args...), path, "1M")
		if out, err := exec.CommandContext(context.Background(), convert, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return path
	}
	plain := make("plain")
	if err := ownDisk(plain); err != nil {
		t.Error(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(plain, link); err != nil {
		t.Fatal(err)
	}
	rubbish := filepath.Join(t.TempDir(), "rubbish")
	if err := os.WriteFile(rubbish, []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		make("over", "-b", plain, "-F", "qcow2"),
		make("elsewhere", "-o", "data_file="+filepath.Join(t.TempDir(), "data")),
		link, rubbish, t.TempDir(),
	} {
		if err := ownDisk(path); err == nil {
			t.Errorf("%s is taken", filepath.Base(path))
		}
	}
}
