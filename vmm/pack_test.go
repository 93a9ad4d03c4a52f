package vmm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hutch/fs"
	"hutch/vmm"
	"hutch/vmm/pack"
)

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// packed returns the archive of a VM.
func (w *world) packed(v *vmm.VM, o pack.Options, b vmm.PackHooks) []byte {
	w.Helper()
	var data bytes.Buffer
	if err := v.Pack(w.limit(), nopCloser{&data}, o, b); err != nil {
		w.Fatal(err)
	}
	return data.Bytes()
}

func (w *world) unpack(name string, data []byte, o pack.Options) (*vmm.VM, error) {
	w.Helper()
	v, err := w.table.Make(w.limit(), name)
	if err != nil {
		w.Fatal(err)
	}
	return v, v.Unpack(w.limit(), io.NopCloser(bytes.NewReader(data)), o, vmm.PackHooks{}, func() {})
}

// TestPackSuspended has a suspended VM go on as another one.
func TestPackSuspended(t *testing.T) {
	w := newWorld(t)
	v, err := w.table.Make(w.limit(), "dev")
	if err == nil {
		err = errors.Join(v.Start(w.limit()), os.WriteFile(filepath.Join(v.Dir(), "env", "TOKEN"), []byte("x"), 0o600))
	}
	if err == nil {
		err = v.Suspend(w.limit())
	}
	if err != nil {
		t.Fatal(err)
	}
	data := w.packed(v, pack.Usual(), vmm.PackHooks{})
	n, err := w.unpack("new", data, pack.All())
	if err != nil || n.State() != vmm.Suspended {
		t.Fatalf("%s, %v", n.State(), err)
	}
	w.close()
	w.open()
	if n, err = w.table.Lookup("new"); err == nil {
		err = n.Resume(w.limit())
	}
	if err != nil {
		t.Error(err)
	}
	// What may hold a secret is asked for by name.
	secret := vmm.PackHooks{Secret: func(name, _ string) bool { return name == "TOKEN" }}
	if v, err = w.table.Lookup("dev"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want  pack.Choice
		took  pack.Choice
		state vmm.State
	}{{pack.Maybe, pack.Maybe, vmm.Stopped}, {pack.Maybe, pack.Yes, vmm.Created}, {pack.Yes, pack.Maybe, vmm.Suspended}, {pack.Yes, pack.No, vmm.Stopped}} {
		n, err := w.unpack("other", w.packed(v, pack.Options{Memory: c.want}, secret), pack.Options{Memory: c.took})
		if c.state == vmm.Created { // nothing is unpacked
			if !errors.Is(err, fs.ErrUnsupported) || !strings.Contains(err.Error(), "its memory: it may hold TOKEN") || n.State() != c.state {
				t.Errorf("memory that was held back: %s, %v", n.State(), err)
			}
		} else if err != nil || n.State() != c.state || !strings.Contains(n.Status(), "env lacks TOKEN, as secrets are not packed") {
			t.Errorf("memory %v and %v: %v\n%s", c.want, c.took, err, n.Status())
		}
		if err := n.Destroy(w.limit()); err != nil {
			t.Error(err)
		}
	}
}

// TestPackGiven has memory stay that had a secret which is in env/ no more, and
// that of which nobody knows what it had.
func TestPackGiven(t *testing.T) {
	secret := vmm.PackHooks{Secret: func(name, value string) bool { return name == "TOKEN" }}
	for _, c := range []struct {
		name, why string
		start     []string // is in env/ then
		live      func(w *world, v *vmm.VM) *vmm.VM
	}{
		{"nothing", "", nil, nil},
		{"before the start", "it may hold TOKEN, and", []string{"TOKEN"}, nil},
		{"while it ran", "it may hold TOKEN, and", nil, func(w *world, v *vmm.VM) *vmm.VM {
			w.must(v.Give([]string{"TOKEN=x", "OTHER=y"}))
			w.must(v.Give([]string{"TOKEN"}))
			return v
		}},
		{"before a fork", "it may hold TOKEN, and", []string{"TOKEN"}, func(w *world, v *vmm.VM) *vmm.VM {
			w.must(os.Remove(filepath.Join(v.Dir(), "env", "TOKEN")))
			w.must(v.ForkLive(w.limit(), "copy"))
			return w.lookup("copy")
		}},
		{"before a resume", "it may hold TOKEN, and", []string{"TOKEN"}, func(w *world, v *vmm.VM) *vmm.VM {
			w.must(errors.Join(v.Suspend(w.limit()), v.Resume(w.limit())))
			w.close()
			w.open()
			return w.lookup("dev")
		}},
		{"to an earlier machine", "", []string{"TOKEN"}, func(w *world, v *vmm.VM) *vmm.VM {
			w.must(errors.Join(v.Stop(w.limit()), os.Remove(filepath.Join(v.Dir(), "env", "TOKEN"))))
			if _, err := os.Stat(filepath.Join(v.Dir(), "variables")); err == nil {
				w.Error("a stopped VM keeps what it was given")
			}
			w.must(v.Start(w.limit()))
			return v
		}},
		{"by an earlier version", "its variables are not known", nil, func(w *world, v *vmm.VM) *vmm.VM {
			w.must(os.Remove(filepath.Join(v.Dir(), "variables")))
			w.must(v.Give([]string{"OTHER=y"}))
			return v
		}},
		{"too much", "its variables are not known", nil, func(w *world, v *vmm.VM) *vmm.VM {
			for range 10 {
				w.must(v.Give([]string{"OTHER=" + strings.Repeat("y", 1<<20)}))
			}
			return v
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			v := w.make("dev")
			for _, name := range c.start {
				w.must(os.WriteFile(filepath.Join(v.Dir(), "env", name), []byte("x"), 0o600))
			}
			w.must(v.Start(w.limit()))
			if c.live != nil {
				v = c.live(w, v)
			}
			w.must(v.Suspend(w.limit()))
			os.Remove(filepath.Join(v.Dir(), "env", "TOKEN"))
			n, err := w.unpack("new", w.packed(v, pack.Options{}, secret), pack.Options{})
			w.must(err)
			if want := "without its memory: " + c.why; c.why != "" && (n.State() != vmm.Stopped || !strings.Contains(n.Status(), want)) {
				t.Errorf("want %q\n%s", want, n.Status())
			}
			if c.why == "" {
				w.is(n, vmm.Suspended)
			}
		})
	}
}

// TestPackWithoutMemory has memory asked for by name where there is none.
func TestPackWithoutMemory(t *testing.T) {
	w := newWorld(t)
	v := w.make("dev")
	if err := v.Start(w.limit()); err != nil {
		t.Fatal(err)
	}
	n, err := w.unpack("new", w.packed(v, pack.Options{Memory: pack.Yes}, vmm.PackHooks{}), pack.Options{Memory: pack.Yes})
	if !errors.Is(err, fs.ErrUnsupported) || !strings.Contains(err.Error(), "its memory: the archive has none") || n.State() != vmm.Created {
		t.Errorf("of a VM that ran: %s, %v", n.State(), err)
	}
	if err := v.Suspend(w.limit()); err != nil {
		t.Fatal(err)
	}
	if err := w.table.Close(w.limit()); err != nil {
		t.Fatal(err)
	}
	if w.table, err = vmm.Open(vmm.Options{Dir: w.dir, Drivers: []vmm.Driver{struct{ vmm.Driver }{w.driver}}}); err != nil {
		t.Fatal(err) // its driver is no Mover
	}
	err = w.lookup("dev").Pack(w.limit(), nopCloser{io.Discard}, pack.Options{Memory: pack.Yes}, vmm.PackHooks{})
	if !errors.Is(err, fs.ErrUnsupported) || !strings.Contains(err.Error(), "cannot have it go on elsewhere") {
		t.Errorf("by a driver that has none go: %v", err)
	}
	w.packed(w.lookup("dev"), pack.Options{}, vmm.PackHooks{})
}

// TestUnpackWhatCannotBe has archives of VMs that cannot be here.
func TestUnpackWhatCannotBe(t *testing.T) {
	for text, m := range map[string]pack.Manifest{
		`no driver "qemu" here`:                 {Config: "driver qemu\n", Image: pack.Image{Kind: "host"}},
		`unknown key "owner"`:                   {Config: "owner root\n", Image: pack.Image{Kind: "host"}},
		`image "deb" is not here`:               {Config: "image deb\n", Image: pack.Image{Kind: "oci", Name: "deb", Digest: "sha256:12", Source: "docker.io/deb"}},
		`the archive needs "sha256:12"`:         {Image: pack.Image{Kind: "oci", Name: "host", Digest: "sha256:12"}},
		`archive does not say which image it`:   {Driver: "fake"},
		`archive is for vax`:                    {Image: pack.Image{Kind: "host", Arch: "vax"}},
		`and there is room for`:                 {Image: pack.Image{Kind: "host"}, Sizes: map[string]pack.Size{"work": {Bytes: 1 << 60}}},
		`a processor with "flying", which this`: {Image: pack.Image{Kind: "host"}, Driver: "fake", Memory: &pack.Memory{Features: []string{"flying"}}},
		`memory: fake: saved state needs map[]`: {Image: pack.Image{Kind: "host"}, Driver: "fake", Memory: &pack.Memory{}},
	} {
		w := newWorld(t)
		var data bytes.Buffer
		a, err := pack.NewWriter(&data, m)
		if err == nil {
			err = a.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		all := pack.All()
		all.Memory = pack.Yes
		v, err := w.unpack("new", data.Bytes(), all)
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %q", err, text)
		}
		if left, _ := filepath.Glob(filepath.Join(v.Dir(), ".new-*")); v.State() != vmm.Created || len(left) > 0 {
			t.Errorf("left is %s, %v", v.State(), left)
		}
		if m.Memory == nil {
			continue
		}
		// Unless it was asked for, the VM comes without it.
		if v, err = w.unpack("cold", data.Bytes(), pack.All()); err != nil || !strings.Contains(v.Status(), "stopped\nreason unpacked from : without its memory: ") {
			t.Errorf("%v, %s", err, v.Status())
		}
		if _, err := os.Stat(filepath.Join(v.Dir(), "saved")); err == nil {
			t.Error("the memory is there")
		}
	}
}

// TestUnpackMany has as many archives made and unpacked as there may be, and one more.
func TestUnpackMany(t *testing.T) {
	w := newWorld(t)
	data := w.packed(w.make("dev"), pack.Usual(), vmm.PackHooks{})
	var ends []func()
	for i := range 16 {
		v := w.make(fmt.Sprint("n", i))
		r, feed := io.Pipe()
		done := make(chan error, 1)
		go func() {
			done <- v.Unpack(w.limit(), r, pack.All(), vmm.PackHooks{}, func() {})
			r.Close()
		}()
		if _, err := feed.Write(data[:1]); err != nil { // and it has begun
			t.Fatal(err)
		}
		ends = append(ends, func() { feed.Close(); <-done })
	}
	v, err := w.unpack("more", data, pack.All())
	if !errors.Is(err, fs.ErrBusy) {
		t.Errorf("the one more: %v", err)
	}
	if err := w.lookup("dev").Pack(w.limit(), nopCloser{io.Discard}, pack.Usual(), vmm.PackHooks{}); !errors.Is(err, fs.ErrBusy) {
		t.Errorf("one more made: %v", err)
	}
	for _, end := range ends {
		end()
	}
	if err := v.Unpack(w.limit(), io.NopCloser(bytes.NewReader(data)), pack.All(), vmm.PackHooks{}, func() {}); err != nil {
		t.Error(err)
	}
}

// TestUnpackTells has a VM say what its config would have of this machine.
func TestUnpackTells(t *testing.T) {
	w := newWorld(t)
	var data bytes.Buffer
	a, err := pack.NewWriter(&data, pack.Manifest{Name: "x\ny", Config: "mount /etc:/mnt/etc:ro\n", Image: pack.Image{Kind: "host"}})
	if err == nil {
		err = a.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	v, err := w.unpack("new", data.Bytes(), pack.All())
	if want := "reason unpacked from x?y; its config has mount /etc:/mnt/etc:ro\n"; err != nil || !strings.Contains(v.Status(), want) {
		t.Errorf("%v, %s", err, v.Status())
	}
}

// TestUnpackLacksProfile has a VM say that its profile is not here.
func TestUnpackLacksProfile(t *testing.T) {
	w := newWorld(t)
	v := w.make("dev")
	if err := v.Set(w.limit(), "profile", "careful"); err != nil {
		t.Fatal(err)
	}
	stopped := w.packed(v, pack.Usual(), vmm.PackHooks{})
	if err := errors.Join(v.Start(w.limit()), v.Suspend(w.limit())); err != nil {
		t.Fatal(err)
	}
	suspended := w.packed(v, pack.Usual(), vmm.PackHooks{})
	w.close()
	var err error
	w.table, err = vmm.Open(vmm.Options{Dir: w.dir, Drivers: []vmm.Driver{w.driver}, Profile: func(name string) vmm.Profile {
		return vmm.Profile{Err: fmt.Errorf("%w: profile %s", fs.ErrNotExist, name)}
	}})
	if err != nil {
		t.Fatal(err)
	}
	for want, data := range map[string][]byte{
		"stopped\nreason unpacked from dev; its config has profile careful; lacks profile careful: make profiles/careful.toml or `config stopped profile ''`\n": stopped,
		"suspended\nreason unpacked from dev; its config has profile careful; lacks profile careful: make profiles/careful.toml\n":                              suspended,
	} {
		name, _, _ := strings.Cut(want, "\n")
		n, err := w.unpack(name, data, pack.All())
		if err != nil || !strings.HasPrefix(n.Status(), want) {
			t.Errorf("%v, %s want %s", err, n.Status(), want)
		}
		for verb, do := range map[string]func(context.Context) error{"stopped": n.Start, "suspended": n.Resume} {
			if err := do(w.limit()); name == verb && !fs.Is(err, fs.ErrNotPermitted) {
				t.Errorf("%s runs unconfirmed: %v", name, err)
			}
		}
	}
}

// TestUnpackStuck has files that cannot be moved after it was decided that a VM
// becomes what an archive says: it is that, and starts when they can be.
func TestUnpackStuck(t *testing.T) {
	w := newWorld(t)
	v, err := w.table.Make(w.limit(), "dev")
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(v.WorkDir(), "f"), []byte("text"), 0o600), v.Set(w.limit(), "cpus", "2"))
	}
	n, merr := w.table.Make(w.limit(), "new")
	if err = errors.Join(err, merr); err != nil {
		t.Fatal(err)
	}
	data := w.packed(v, pack.Usual(), vmm.PackHooks{})
	stick := vmm.PackHooks{Replace: func(do func() error) error {
		made, _ := filepath.Glob(filepath.Join(n.Dir(), ".new-*"))
		if err := os.MkdirAll(filepath.Join(made[0], "old-work", "f"), 0o700); err != nil {
			return err
		}
		return do()
	}}
	err = n.Unpack(w.limit(), io.NopCloser(bytes.NewReader(data)), pack.All(), stick, func() {})
	if err == nil || !strings.Contains(err.Error(), `vm "new" is not unpacked whole`) || n.State() != vmm.Stopped {
		t.Errorf("%v, %s", err, n.Status())
	}
	if err := n.Start(w.limit()); err == nil {
		t.Error("it starts by halves")
	}
	if err := os.RemoveAll(filepath.Join(n.Dir(), "unpacking", "old-work")); err != nil {
		t.Fatal(err)
	}
	if err := n.Start(w.limit()); err != nil {
		t.Error(err)
	}
	if text, _ := os.ReadFile(filepath.Join(n.WorkDir(), "f")); string(text) != "text" || n.Config().CPUs != 2 {
		t.Errorf("%q, %s", text, n.Status())
	}
}

// TestUnpackFinished kills the process after it was decided that a VM becomes what
// an archive says: the next one sees to it.
func TestUnpackFinished(t *testing.T) {
	w := newWorld(t)
	v, err := w.table.Make(w.limit(), "dev")
	if err == nil {
		err = os.WriteFile(filepath.Join(v.WorkDir(), "f"), []byte("text"), 0o600)
	}
	if err == nil {
		err = v.Set(w.limit(), "cpus", "2")
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.unpack("whole", w.packed(v, pack.Usual(), vmm.PackHooks{}), pack.All()); err != nil {
		t.Fatal(err)
	}
	n, err := w.table.Make(w.limit(), "half")
	if err != nil {
		t.Fatal(err)
	}
	w.close()
	// It has come as far as the workspace.
	from, next := filepath.Join(w.dir, "vm", "whole"), filepath.Join(n.Dir(), "unpacking")
	err = os.Mkdir(next, 0o700)
	for _, name := range []string{"env", "layer", "config", "state"} {
		err = errors.Join(err, os.Rename(filepath.Join(from, name), filepath.Join(next, name)))
	}
	err = errors.Join(err, os.Rename(n.WorkDir(), filepath.Join(next, "old-work")), os.Rename(filepath.Join(from, "work"), n.WorkDir()))
	state, rerr := os.ReadFile(filepath.Join(next, "state"))
	if err = errors.Join(err, rerr, os.RemoveAll(from)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(next, "state"), bytes.Replace(state, []byte("whole"), []byte("half"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	w.open()
	if n, err = w.table.Lookup("half"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(n.WorkDir(), "f"))
	if err != nil || string(text) != "text" || n.State() != vmm.Stopped || n.Config().CPUs != 2 {
		t.Errorf("%q, %v, %s", text, err, n.Status())
	}
	if err := n.Unpack(w.limit(), io.NopCloser(strings.NewReader("")), pack.All(), vmm.PackHooks{}, func() {}); !errors.Is(err, fs.ErrBusy) {
		t.Errorf("unpacked once more: %v", err)
	}
}
